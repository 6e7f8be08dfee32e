#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libhurray/abi/buffer.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"
#include "libhurray/abi/value.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/container/file_writer.hpp"

using namespace hurray::abi;
using hurray::FileWriter;

struct HurrayWriter {
    std::unique_ptr<hurray::TensorWriter> writer;
    FileWriter* file;  // the same, if it is one
};

namespace {

using Bytes = std::span<const std::uint8_t>;

HurrayStatus to_options(const char* function, const HurrayFileOptions* options, hurray::FileWriterOptions& out) {
    if (options == nullptr) {
        return HURRAY_OK;
    }
    const auto invalid = [&](const std::string& what) { return fail(HURRAY_ERR_INVALID_ARGUMENT, function, what); };
    if (options->struct_size != sizeof(HurrayFileOptions)) {
        return invalid("options.struct_size is " + std::to_string(options->struct_size) + ", not " +
                       std::to_string(sizeof(HurrayFileOptions)));
    }
    if (options->sorted_index > 1) {
        return invalid("options.sorted_index is neither 0 nor 1");
    }
    for (const std::uint8_t byte : options->reserved) {
        if (byte != 0) {
            return invalid("options.reserved is not 0");
        }
    }
    if (options->data_buffer_alignment != 0) {
        out.data_buffer_alignment = options->data_buffer_alignment;
    }
    out.sorted_index = options->sorted_index == 1;
    return HURRAY_OK;
}

bool host_reaches(const hurray::BufferEntry& entry) {
    return entry.device == hurray::DeviceTag::Cpu || entry.memory_class == hurray::MemoryClass::HostPinned ||
           entry.memory_class == hurray::MemoryClass::Unified;
}

/// What all writing functions have to check, then `collect` the buffers and write.
template <class Collect>
HurrayStatus write_tensor(const char* function, HurrayWriter* writer, const char* name, uint64_t name_len,
                          const HurrayDescriptor* descriptor, Collect collect) {
    return guard(function, [&]() -> HurrayStatus {
        if (writer == nullptr) {
            return fail_null(function, "writer");
        }
        if (name == nullptr && (name_len != 0 || writer->file != nullptr)) {
            return fail_null(function, "name");
        }
        if (descriptor == nullptr) {
            return fail_null(function, "descriptor");
        }
        std::vector<Bytes> bytes;
        if (const HurrayStatus status = collect(view_of(*descriptor).buffers, bytes); status != HURRAY_OK) {
            return status;
        }
        const std::string_view text = name == nullptr ? std::string_view() : std::string_view(name, name_len);
        const auto written = writer->writer->write(text, view_of(*descriptor), bytes);
        return written ? HURRAY_OK : fail(function, written.error());
    });
}

/// What both ways of adding a value have to check, then `make` the value and add it.
template <class Make>
HurrayStatus add_value(const char* function, HurrayWriter* writer, const char* key, uint64_t key_len,
                       const HurrayValue* first, const char* first_name, Make make) {
    return guard(function, [&]() -> HurrayStatus {
        if (writer == nullptr) {
            return fail_null(function, "writer");
        }
        if (key == nullptr) {
            return fail_null(function, "key");
        }
        if (first == nullptr) {
            return fail_null(function, first_name);
        }
        if (writer->file == nullptr) {
            return fail(HURRAY_ERR_UNSUPPORTED, function, "a stream has no key-values; this is for files");
        }
        return make([&](const hurray::Value& value) {
            const auto added = writer->file->add_value({key, static_cast<std::size_t>(key_len)}, value);
            return added ? HURRAY_OK : fail(function, added.error());
        });
    });
}

}  // namespace

HurrayStatus hurray_writer_open_stream(int fd, HurrayWriter** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        auto own = hurray::duplicate_fd(fd);
        if (!own) {
            return fail(function, own.error());
        }
        *out = make_handle<HurrayWriter>(std::make_unique<hurray::StreamWriter>(*std::move(own)), nullptr);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_writer_open_file(int fd, const HurrayFileOptions* options, HurrayWriter** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        hurray::FileWriterOptions chosen;
        if (const HurrayStatus status = to_options(function, options, chosen); status != HURRAY_OK) {
            return status;
        }
        auto own = hurray::duplicate_fd(fd);
        if (!own) {
            return fail(function, own.error());
        }
        auto file = FileWriter::open(*std::move(own), chosen);
        if (!file) {
            return fail(function, file.error());
        }
        FileWriter* const same = file->get();
        *out = make_handle<HurrayWriter>(*std::move(file), same);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_writer_finish(HurrayWriter* writer) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (writer == nullptr) {
            return fail_null(function, "writer");
        }
        const auto finished = writer->writer->finish();
        return finished ? HURRAY_OK : fail(function, finished.error());
    });
}

HurrayStatus hurray_writer_destroy(HurrayWriter** writer) {
    if (writer == nullptr) {
        return fail_null(__func__, "writer");
    }
    if (*writer == nullptr) {
        return HURRAY_OK;
    }
    if (!claim_handle(*writer)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this writer is not alive: it was destroyed before");
    }
    const OwnedHandle<HurrayWriter> owned(std::exchange(*writer, nullptr));
    return HURRAY_OK;
}

HurrayStatus hurray_writer_write(HurrayWriter* writer, const char* name, uint64_t name_len,
                                 const HurrayDescriptor* descriptor, const void* const* buffers) {
    return write_tensor(__func__, writer, name, name_len, descriptor,
                        [&, function = __func__](const hurray::BufferTable& table, std::vector<Bytes>& bytes) {
                            for (std::size_t i = 0; i < table.size(); ++i) {
                                const void* const data = buffers == nullptr ? nullptr : buffers[i];
                                const std::uint64_t size = table[i].byte_size;
                                if (buffers == nullptr || (data == nullptr && size != 0)) {
                                    return fail_null(function, buffers == nullptr ? "buffers" : "buffers[i]");
                                }
                                bytes.emplace_back(static_cast<const std::uint8_t*>(data),
                                                   static_cast<std::size_t>(size));
                            }
                            return HURRAY_OK;
                        });
}

HurrayStatus hurray_writer_write_list(HurrayWriter* writer, const char* name, uint64_t name_len,
                                      const HurrayDescriptor* descriptor, const HurrayBufferList* buffers) {
    return write_tensor(__func__, writer, name, name_len, descriptor,
                        [&, function = __func__](const hurray::BufferTable&, std::vector<Bytes>& bytes) {
                            if (buffers == nullptr) {
                                return fail_null(function, "buffers");
                            }
                            std::uint64_t count = 0;
                            HurrayStatus status = hurray_buffer_list_len(buffers, &count);
                            for (std::uint64_t i = 0; i < count && status == HURRAY_OK; ++i) {
                                HurrayBuffer* buffer = nullptr;
                                status = hurray_buffer_list_get(buffers, i, &buffer);
                                if (status == HURRAY_OK && !host_reaches(buffer->entry)) {
                                    return fail(HURRAY_ERR_UNSUPPORTED, function,
                                                "buffer " + std::to_string(i) + " is in memory of device " +
                                                    std::to_string(static_cast<unsigned>(buffer->entry.device)) +
                                                    ", which the host does not reach; copy it first");
                                }
                                if (status == HURRAY_OK) {
                                    bytes.emplace_back(static_cast<const std::uint8_t*>(buffer->data),
                                                       static_cast<std::size_t>(buffer->entry.byte_size));
                                }
                            }
                            return status;
                        });
}

HurrayStatus hurray_writer_add_value(HurrayWriter* writer, const char* key, uint64_t key_len,
                                     const HurrayValue* value) {
    return add_value(__func__, writer, key, key_len, value, "value", [&, function = __func__](auto add) {
        if (const char* const wrong = what_is_wrong(*value)) {
            return fail(HURRAY_ERR_INVALID_ARGUMENT, function, wrong);
        }
        return add(from_c(*value));
    });
}

HurrayStatus hurray_writer_add_array(HurrayWriter* writer, const char* key, uint64_t key_len,
                                     const HurrayValue* elements, uint64_t count) {
    return add_value(__func__, writer, key, key_len, elements, "elements", [&, function = __func__](auto add) {
        std::vector<hurray::Value> values;
        for (std::uint64_t i = 0; i < count; ++i) {
            if (const char* const wrong = what_is_wrong(elements[i])) {
                return fail(HURRAY_ERR_INVALID_ARGUMENT, function, "element " + std::to_string(i) + ": " + wrong);
            }
            values.push_back(from_c(elements[i]));
        }
        const auto encoded = hurray::encode_elements(values);
        if (!encoded) {
            return fail(function, encoded.error());
        }
        hurray::Value array;
        array.tag = hurray::ValueTag::Array;
        array.element_tag = values.empty() ? hurray::ValueTag::Bool : values[0].tag;
        array.data = *encoded;
        array.count = count;
        return add(array);
    });
}
