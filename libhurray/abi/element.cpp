#include <string>

#include "hurray.h"

#include "libhurray/abi/guard.hpp"
#include "libhurray/format/element_format.hpp"
#include "libhurray/format/element_value.hpp"

using namespace hurray::abi;

namespace {

using hurray::ElementFormat;
using hurray::UInt128;

HurrayElementCode to_c(UInt128 code) { return {static_cast<uint64_t>(code), static_cast<uint64_t>(code >> 64)}; }

UInt128 from_c(const HurrayElementCode& code) { return static_cast<UInt128>(code.high) << 64 | code.low; }

/// Runs `body` with the format of the type, and reports a tag that names none.
template <class Body>
HurrayStatus with_format(const char* function, uint8_t type_tag, Body body) {
    const auto format = hurray::element_format(static_cast<hurray::ElementType>(type_tag));
    if (!format) {
        return fail(HURRAY_ERR_INVALID_TYPE, function,
                    "type_tag is " + std::to_string(type_tag) + ", which names no element type");
    }
    return body(*format);
}

/// Whether an element begins at `bit` of a group, and the caller's bytes hold the group.
HurrayStatus check_place(const char* function, const ElementFormat& format, uint64_t len, uint32_t bit) {
    const hurray::ElementStorage& storage = format.storage;
    if (len < storage.group_bytes) {
        return fail(HURRAY_ERR_INVALID_ARGUMENT, function,
                    "len is " + std::to_string(len) + ", the element or its group has " +
                        std::to_string(storage.group_bytes) + " bytes");
    }
    if (bit % storage.bits != 0 || bit / storage.bits >= storage.group_elements) {
        return fail(
            HURRAY_ERR_INVALID_ARGUMENT, function,
            "bit is " + std::to_string(bit) + ", where no element of " + std::to_string(storage.bits) + " bits begins");
    }
    return HURRAY_OK;
}

}  // namespace

HurrayStatus hurray_element_storage_size(uint8_t type_tag, uint64_t count, uint64_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return with_format(function, type_tag, [&](const ElementFormat& format) -> HurrayStatus {
            const auto size = format.storage.size_of(count);
            if (!size) {
                return fail(HURRAY_ERR_INVALID_LAYOUT, function,
                            "the bytes of " + std::to_string(count) + " elements do not fit 64 bits");
            }
            *out = *size;
            return HURRAY_OK;
        });
    });
}

HurrayStatus hurray_element_load(uint8_t type_tag, const uint8_t* bytes, uint64_t len, uint32_t bit,
                                 HurrayElementCode* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (bytes == nullptr) {
            return fail_null(function, "bytes");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return with_format(function, type_tag, [&](const ElementFormat& format) -> HurrayStatus {
            const HurrayStatus status = check_place(function, format, len, bit);
            if (status == HURRAY_OK) {
                *out = to_c(hurray::load_element(format.storage, {bytes, format.storage.group_bytes}, bit));
            }
            return status;
        });
    });
}

HurrayStatus hurray_element_store(uint8_t type_tag, uint8_t* bytes, uint64_t len, uint32_t bit,
                                  const HurrayElementCode* code) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (bytes == nullptr) {
            return fail_null(function, "bytes");
        }
        if (code == nullptr) {
            return fail_null(function, "code");
        }
        return with_format(function, type_tag, [&](const ElementFormat& format) -> HurrayStatus {
            const HurrayStatus status = check_place(function, format, len, bit);
            if (status == HURRAY_OK) {
                hurray::store_element(format.storage, {bytes, format.storage.group_bytes}, bit, from_c(*code));
            }
            return status;
        });
    });
}

HurrayStatus hurray_element_to_value(uint8_t type_tag, const HurrayElementCode* code, HurrayElementValue* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (code == nullptr) {
            return fail_null(function, "code");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return with_format(function, type_tag, [&](const ElementFormat& format) -> HurrayStatus {
            const UInt128 own_bits = from_c(*code) & hurray::low_bits(format.storage.bits);
            const auto value = hurray::to_value(format, own_bits).value();  // every named type has values
            *out = {value.real, value.imaginary};
            return HURRAY_OK;
        });
    });
}

HurrayStatus hurray_element_from_value(uint8_t type_tag, const HurrayElementValue* value, HurrayElementCode* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (value == nullptr) {
            return fail_null(function, "value");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return with_format(function, type_tag, [&](const ElementFormat& format) -> HurrayStatus {
            const auto code = hurray::to_code(format, {value->real, value->imaginary});
            if (!code) {
                return fail(HURRAY_ERR_INVALID_ARGUMENT, function,
                            value->imaginary == 0
                                ? "value is NaN, which this element type does not have"
                                : "value has an imaginary part, but this element type is not complex");
            }
            *out = to_c(*code);
            return HURRAY_OK;
        });
    });
}
