#include "libhurray/format/composite_set.hpp"

#include <utility>

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"

using namespace hurray::abi;

struct HurrayCompositeSet {
    hurray::CompositeSet set;
};

HurrayStatus hurray_composite_set_new(const HurrayDescriptor* head, HurrayCompositeSet** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (head == nullptr) {
            return fail_null(function, "head");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        auto set = hurray::CompositeSet::start(view_of(*head));
        if (!set) {
            return fail(function, set.error());
        }
        *out = make_handle<HurrayCompositeSet>(*std::move(set));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_composite_set_add(HurrayCompositeSet* set, const HurrayDescriptor* member) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (set == nullptr) {
            return fail_null(function, "set");
        }
        if (member == nullptr) {
            return fail_null(function, "member");
        }
        const auto added = set->set.add(view_of(*member));
        return added ? HURRAY_OK : fail(function, added.error());
    });
}

HurrayStatus hurray_composite_set_member_count(const HurrayCompositeSet* set, uint64_t* out) {
    return read_field(__func__, "set", set, out, [](const HurrayCompositeSet& s) { return s.set.member_count(); });
}

HurrayStatus hurray_composite_set_finish(const HurrayCompositeSet* set) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (set == nullptr) {
            return fail_null(function, "set");
        }
        const auto complete = set->set.finish();
        return complete ? HURRAY_OK : fail(function, complete.error());
    });
}

HurrayStatus hurray_composite_set_destroy(HurrayCompositeSet** set) {
    if (set == nullptr) {
        return fail_null(__func__, "set");
    }
    if (*set == nullptr) {
        return HURRAY_OK;
    }
    if (!claim_handle(*set)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this set is not alive: it was destroyed before");
    }
    const OwnedHandle<HurrayCompositeSet> owned(std::exchange(*set, nullptr));
    return HURRAY_OK;
}
