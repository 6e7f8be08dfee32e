#include "libhurray/abi/descriptor.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/capacity.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/format/dense.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/extent.hpp"
#include "libhurray/format/validate.hpp"

using namespace hurray::abi;

namespace {

/// Checks what only the C struct can have wrong, and turns it into the tensor that the format knows.
HurrayStatus to_tensor(const char* function, const HurrayDenseDescriptor& dense, hurray::DenseTensor& out) {
    const auto invalid = [&](std::string_view what) { return fail(HURRAY_ERR_INVALID_ARGUMENT, function, what); };
    if (dense.struct_size != sizeof(HurrayDenseDescriptor)) {
        return invalid("dense.struct_size is " + std::to_string(dense.struct_size) + ", not " +
                       std::to_string(sizeof(HurrayDenseDescriptor)));
    }
    if (dense.reserved[0] != 0 || dense.reserved[1] != 0 || dense.reserved[2] != 0) {
        return invalid("dense.reserved is not 0");
    }
    if (dense.reserved2 != 0) {
        return invalid("dense.reserved2 is not 0");
    }
    const auto layout = dense.layout == 0 ? hurray::LayoutTag::RowMajor : static_cast<hurray::LayoutTag>(dense.layout);
    const bool strided = layout == hurray::LayoutTag::Strided;
    if (!strided && dense.strides != nullptr) {
        return invalid("dense.strides is given, but dense.layout is not HURRAY_LAYOUT_STRIDED");
    }
    if (dense.rank > 0 && dense.shape == nullptr) {
        return fail_null(function, "dense.shape");
    }
    if (dense.rank > 0 && strided && dense.strides == nullptr) {
        return fail_null(function, "dense.strides");
    }
    out.element_type = static_cast<hurray::ElementType>(dense.element_type);
    out.layout = layout;
    out.shape = {dense.shape, dense.rank};
    if (strided) {
        out.strides = {dense.strides, dense.rank};
    }
    out.byte_offset = dense.byte_offset;
    out.buffer = {dense.byte_size, dense.alignment == 0 ? hurray::kMinBufferAlignment : dense.alignment,
                  static_cast<hurray::DeviceTag>(dense.device_tag), static_cast<hurray::SyncMode>(dense.sync_mode),
                  static_cast<hurray::MemoryClass>(dense.memory_class)};
    return HURRAY_OK;
}

}  // namespace

HurrayStatus hurray_descriptor_decode(const uint8_t* bytes, uintptr_t len, HurrayDescriptor** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (bytes == nullptr) {
            return fail_null(function, "bytes");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        auto decoded = hurray::OwnedDescriptor::decode({bytes, len});
        if (!decoded) {
            return fail(function, decoded.error());
        }
        *out = make_descriptor(*std::move(decoded));
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_destroy(HurrayDescriptor* descriptor) {
    if (descriptor == nullptr) {
        return fail_null(__func__, "descriptor");
    }
    if (!claim_handle(descriptor)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this descriptor is not alive: it was destroyed before");
    }
    const OwnedHandle<HurrayDescriptor> owned(descriptor);
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_rank(const HurrayDescriptor* descriptor, uint32_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return static_cast<uint32_t>(d.view().shape.rank()); });
}

HurrayStatus hurray_descriptor_shape(const HurrayDescriptor* descriptor, uint64_t* out_dims, uintptr_t* inout_rank) {
    if (descriptor == nullptr) {
        return fail_null(__func__, "descriptor");
    }
    if (inout_rank == nullptr) {
        return fail_null(__func__, "inout_rank");
    }
    const hurray::Shape& shape = descriptor->view().shape;
    const HurrayStatus status = take_capacity(__func__, "out_dims", out_dims, shape.rank(), *inout_rank);
    if (status != HURRAY_OK) {
        return status;
    }
    for (std::size_t k = 0; k < shape.rank(); ++k) {
        out_dims[k] = shape[k];
    }
    return HURRAY_OK;
}

HurrayStatus hurray_descriptor_element_type_tag(const HurrayDescriptor* descriptor, uint8_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return static_cast<uint8_t>(d.view().element_type); });
}

HurrayStatus hurray_descriptor_layout_tag(const HurrayDescriptor* descriptor, uint8_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return static_cast<uint8_t>(d.view().layout.tag); });
}

HurrayStatus hurray_descriptor_byte_offset(const HurrayDescriptor* descriptor, uint64_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return d.view().byte_offset; });
}

HurrayStatus hurray_descriptor_buffer_count(const HurrayDescriptor* descriptor, uint32_t* out) {
    return read_field(__func__, "descriptor", descriptor, out,
                      [](const HurrayDescriptor& d) { return static_cast<uint32_t>(d.view().buffers.size()); });
}

HurrayStatus hurray_descriptor_strides(const HurrayDescriptor* descriptor, int64_t* out_strides,
                                       uintptr_t* inout_rank) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (inout_rank == nullptr) {
            return fail_null(function, "inout_rank");
        }
        const hurray::DescriptorView& view = descriptor->view();
        const std::size_t rank = view.shape.rank();
        std::array<int64_t, hurray::kMaxRank> strides{};
        if (const auto* strided = view.layout.as<hurray::StridedLayout>()) {
            for (std::size_t k = 0; k < rank; ++k) {
                strides[k] = strided->strides[k];
            }
        } else if (view.layout.tag == hurray::LayoutTag::RowMajor ||
                   view.layout.tag == hurray::LayoutTag::ColumnMajor) {
            const auto implied = hurray::implied_strides(view.shape, view.layout.tag, std::span(strides).first(rank));
            if (!implied) {
                return fail(function, implied.error());
            }
        } else {
            return fail(HURRAY_ERR_UNSUPPORTED, function,
                        "layout " + std::to_string(static_cast<unsigned>(view.layout.tag)) + " has no strides");
        }
        const HurrayStatus status = take_capacity(function, "out_strides", out_strides, rank, *inout_rank);
        if (status == HURRAY_OK) {
            std::copy_n(strides.begin(), rank, out_strides);
        }
        return status;
    });
}

HurrayStatus hurray_descriptor_buffer_entry(const HurrayDescriptor* descriptor, uint32_t index,
                                            HurrayBufferEntry* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const hurray::BufferTable& buffers = descriptor->view().buffers;
        if (index >= buffers.size()) {
            return fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, function,
                        "index is " + std::to_string(index) + ", the descriptor has " + std::to_string(buffers.size()) +
                            " buffers");
        }
        const hurray::BufferEntry entry = buffers[index];
        *out = HurrayBufferEntry{entry.byte_size,
                                 entry.alignment,
                                 static_cast<uint8_t>(entry.device),
                                 static_cast<uint8_t>(entry.sync_mode),
                                 static_cast<uint8_t>(entry.memory_class),
                                 0};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_descriptor_validate(const HurrayDescriptor* descriptor) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        const auto valid = hurray::validate_descriptor(descriptor->view());
        return valid ? HURRAY_OK : fail(function, valid.error());
    });
}

HurrayStatus hurray_descriptor_encode_dense(const HurrayDenseDescriptor* dense, uint8_t* out_bytes,
                                            uintptr_t* inout_len) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (dense == nullptr) {
            return fail_null(function, "dense");
        }
        if (inout_len == nullptr) {
            return fail_null(function, "inout_len");
        }
        hurray::DenseTensor tensor;
        if (const HurrayStatus status = to_tensor(function, *dense, tensor); status != HURRAY_OK) {
            return status;
        }
        const auto encoding = hurray::encode_dense(tensor);
        if (!encoding) {
            return fail(function, encoding.error());
        }
        const auto bytes = encoding->bytes();
        const HurrayStatus status = take_capacity(function, "out_bytes", out_bytes, bytes.size(), *inout_len);
        if (status == HURRAY_OK) {
            std::copy(bytes.begin(), bytes.end(), out_bytes);
        }
        return status;
    });
}

HurrayStatus hurray_descriptor_encode(const HurrayDescriptor* descriptor, uint8_t* out_bytes, uintptr_t* inout_len) {
    if (descriptor == nullptr) {
        return fail_null(__func__, "descriptor");
    }
    if (inout_len == nullptr) {
        return fail_null(__func__, "inout_len");
    }
    const std::size_t size = hurray::encoded_size(descriptor->view());
    const HurrayStatus status = take_capacity(__func__, "out_bytes", out_bytes, size, *inout_len);
    if (status == HURRAY_OK) {
        hurray::encode_descriptor(descriptor->view(), {out_bytes, size});
    }
    return status;
}

HurrayStatus hurray_descriptor_dense_byte_size(const HurrayDenseDescriptor* dense, uint64_t* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (dense == nullptr) {
            return fail_null(function, "dense");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        hurray::DenseTensor tensor;
        if (const HurrayStatus status = to_tensor(function, *dense, tensor); status != HURRAY_OK) {
            return status;
        }
        const auto size = hurray::dense_byte_size(tensor);
        if (!size) {
            return fail(function, size.error());
        }
        *out = *size;
        return HURRAY_OK;
    });
}
