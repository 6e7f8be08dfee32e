#include <span>
#include <string>
#include <vector>

#include "hurray_client.h"

#include "client/abi/guard.hpp"
#include "client/abi/handles.hpp"
#include "client/abi/options.hpp"

using namespace hurray;
using namespace hurray::client;
using namespace hurray::client::abi;

extern "C" {

HurrayStatus hurray_client_allocate(HurrayClient* client, const uint64_t* byte_sizes, uint32_t count,
                                    const HurrayAllocateOptions* options, HurrayAllocation** out) {
    return guard(__func__, [&]() -> Result<void> {
        if (client == nullptr) {
            return missing("client");
        }
        if (byte_sizes == nullptr) {
            return missing("byte_sizes");
        }
        if (out == nullptr) {
            return missing("out");
        }
        if (count == 0 || count > HURRAY_MAX_BUFFERS) {
            return fail_field(Errc::InvalidArgument, "count",
                              "is " + std::to_string(count) + "; an allocation has 1 to 255 buffers");
        }
        const auto given = read_options(options);
        if (!given) {
            return fail(given.error());
        }
        constexpr std::uint32_t kFlags = HURRAY_ALLOCATE_IMMUTABLE | HURRAY_ALLOCATE_UNINITIALIZED;
        if (auto checked = check_flags(given->flags, kFlags); !checked) {
            return checked;
        }
        const auto access = read_access(given->access);
        if (!access) {
            return fail(access.error());
        }
        if (client->session->connection().in_child()) {
            return fail(forked());
        }
        const auto contents = (given->flags & HURRAY_ALLOCATE_UNINITIALIZED) != 0 ? Allocation::Contents::Whatever
                                                                                  : Allocation::Contents::Zeros;
        const auto kind =
            (given->flags & HURRAY_ALLOCATE_IMMUTABLE) != 0 ? wire::Memory::Immutable : wire::Memory::Reusable;
        Session& session = *client->session;
        auto allocation = Allocation::create(session.pool(), std::span(byte_sizes, count), contents,
                                             session.connection().access_of(*access), kind);
        if (!allocation) {
            return fail(std::move(allocation.error()));
        }
        *out = new HurrayAllocation{std::move(*allocation)};
        return {};
    });
}

HurrayStatus hurray_allocation_data(const HurrayAllocation* allocation, uint32_t index, void** out) {
    return guard(__func__, [&]() -> Result<void> {
        if (allocation == nullptr) {
            return missing("allocation");
        }
        if (out == nullptr) {
            return missing("out");
        }
        const std::size_t count = allocation->allocation.buffers().size();
        if (index >= count) {
            return fail_field(
                Errc::IndexOutOfBounds, "index",
                "is " + std::to_string(index) + ", the allocation has " + std::to_string(count) + " buffers");
        }
        *out = allocation->allocation.data(index);
        return {};
    });
}

HurrayStatus hurray_allocation_buffers(const HurrayAllocation* allocation, HurrayBufferList** out) {
    return guard(__func__, [&]() -> Result<void> {
        if (allocation == nullptr) {
            return missing("allocation");
        }
        if (out == nullptr) {
            return missing("out");
        }
        const std::shared_ptr<const Mapping> mapping = allocation->allocation.mapping();
        std::vector<BufferRange> ranges;
        for (const Allocation::Buffer& buffer : allocation->allocation.buffers()) {
            ranges.push_back({mapping, buffer.offset, buffer.size});
        }
        auto list = make_buffer_list(ranges);
        if (!list) {
            return fail(std::move(list.error()));
        }
        *out = list->release();
        return {};
    });
}

HurrayStatus hurray_allocation_is_writable(const HurrayAllocation* allocation, uint8_t* out) {
    return guard(__func__, [&]() -> Result<void> {
        if (allocation == nullptr) {
            return missing("allocation");
        }
        if (out == nullptr) {
            return missing("out");
        }
        *out = allocation->allocation.is_writable() ? 1 : 0;
        return {};
    });
}

HurrayStatus hurray_allocation_destroy(HurrayAllocation** allocation) {
    return guard(__func__, [&]() -> Result<void> {
        if (allocation == nullptr) {
            return missing("allocation");
        }
        delete *allocation;
        *allocation = nullptr;
        return {};
    });
}

}  // extern "C"
