#include "hurray.h"

#include "libhurray/abi/buffer_list.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/index_argument.hpp"
#include "libhurray/format/read_element.hpp"

using namespace hurray::abi;

HurrayStatus hurray_descriptor_read_element(const HurrayDescriptor* descriptor, const HurrayBufferList* buffers,
                                            const uint64_t* index, uintptr_t index_len, HurrayElementValue* out,
                                            uint8_t* out_stored) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        const IndexArgument argument{index, index_len};
        if (const HurrayStatus status = require(function, {{descriptor != nullptr, "descriptor"},
                                                           {buffers != nullptr, "buffers"},
                                                           {!argument.is_null(), "index"},
                                                           {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        BufferSpans spans;
        if (const HurrayStatus status = readable_bytes(function, *buffers, spans); status != HURRAY_OK) {
            return status;
        }
        const auto value = hurray::read_element(view_of(*descriptor), spans, argument.span());
        if (!value) {
            return fail(function, value.error());
        }
        const hurray::ElementValue number = value->value_or(hurray::ElementValue{});
        *out = {number.real, number.imaginary};
        if (out_stored != nullptr) {
            *out_stored = value->has_value() ? 1 : 0;
        }
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_read_paged_element(const HurrayDescriptor* descriptor, const HurrayBufferList* buffers,
                                                  const HurrayPagedIndex* index, HurrayElementValue* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (const HurrayStatus status = require(function, {{descriptor != nullptr, "descriptor"},
                                                           {buffers != nullptr, "buffers"},
                                                           {index != nullptr, "index"},
                                                           {out != nullptr, "out"}});
            status != HURRAY_OK) {
            return status;
        }
        BufferSpans spans;
        if (const HurrayStatus status = readable_bytes(function, *buffers, spans); status != HURRAY_OK) {
            return status;
        }
        const auto value = hurray::read_paged_element(view_of(*descriptor), spans, to_paged_index(*index));
        if (!value) {
            return fail(function, value.error());
        }
        *out = {value->real, value->imaginary};
        return HURRAY_OK;
    });
}
