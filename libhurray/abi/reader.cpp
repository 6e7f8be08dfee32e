#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "libhurray/abi/accessor.hpp"
#include "libhurray/abi/buffer.hpp"
#include "libhurray/abi/descriptor_handle.hpp"
#include "libhurray/abi/guard.hpp"
#include "libhurray/abi/handle.hpp"
#include "libhurray/abi/value.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/container/file_reader.hpp"
#include "libhurray/container/stream_reader.hpp"

using namespace hurray::abi;
using hurray::FileReader;

struct HurrayReader {
    std::unique_ptr<hurray::TensorReader> reader;
    FileReader* file;  // the same, if it is one
};

namespace {

HurrayStatus to_limits(const char* function, const HurrayReaderOptions* options, hurray::ReaderLimits& out) {
    if (options == nullptr) {
        return HURRAY_OK;
    }
    const auto invalid = [&](const std::string& what) { return fail(HURRAY_ERR_INVALID_ARGUMENT, function, what); };
    if (options->struct_size != sizeof(HurrayReaderOptions)) {
        return invalid("options.struct_size is " + std::to_string(options->struct_size) + ", not " +
                       std::to_string(sizeof(HurrayReaderOptions)));
    }
    if (options->producer_synced_only > 1) {
        return invalid("options.producer_synced_only is neither 0 nor 1");
    }
    if (options->reserved[0] != 0 || options->reserved[1] != 0 || options->reserved[2] != 0) {
        return invalid("options.reserved is not 0");
    }
    const auto take = [](std::uint64_t given, std::uint64_t& limit) { limit = given == 0 ? limit : given; };
    out.producer_synced_only = options->producer_synced_only == 1;
    take(options->max_descriptor_size, out.max_descriptor_size);
    take(options->max_index_size, out.max_index_size);
    take(options->max_tensor_size, out.max_tensor_size);
    return HURRAY_OK;
}

/// The current tensor's descriptor, for the caller.
HurrayDescriptor* hand_out(const hurray::TensorReader& reader) {
    auto decoded = hurray::OwnedDescriptor::decode(reader.descriptor_bytes());
    return make_descriptor(std::move(decoded).value());  // it was decoded before
}

void free_block(void* data, void*) { std::free(data); }

/// A buffer over memory that goes with it.
HurrayBuffer* hand_out(hurray::MemoryBlock block) {
    hurray::BufferEntry entry;
    entry.byte_size = block.bytes().size();
    entry.alignment = static_cast<std::uint32_t>(block.alignment());
    HurrayBuffer* const buffer =
        make_handle<HurrayBuffer>(static_cast<void*>(block.bytes().data()), entry, &free_block, nullptr);
    static_cast<void>(block.release());
    return buffer;
}

struct DestroyList {
    void operator()(HurrayBufferList* list) const noexcept { static_cast<void>(hurray_buffer_list_destroy(&list)); }
};

HurrayStatus read_all(const char* function, hurray::TensorReader& reader, HurrayBufferList** out) {
    const auto* view = reader.current();
    const std::size_t count = view != nullptr ? view->buffers.size() : 0;
    HurrayBufferList* made = nullptr;
    if (const HurrayStatus status = hurray_buffer_list_new(count, &made); status != HURRAY_OK) {
        return status;
    }
    std::unique_ptr<HurrayBufferList, DestroyList> list(made);
    if (view == nullptr) {
        return fail(HURRAY_ERR_INVALID_ARGUMENT, function, "there is no current tensor");
    }
    for (std::size_t i = 0; i < count; ++i) {
        auto block = reader.read_buffer(i);
        if (!block) {
            return fail(function, block.error());
        }
        HurrayBuffer* const buffer = hand_out(*std::move(block));
        if (const HurrayStatus pushed = hurray_buffer_list_push(list.get(), buffer); pushed != HURRAY_OK) {
            static_cast<void>(hurray_buffer_destroy(buffer));
            return pushed;
        }
    }
    *out = list.release();
    return HURRAY_OK;
}

HurrayStatus fail_stream(const char* function) {
    return fail(HURRAY_ERR_UNSUPPORTED, function, "a stream has no index and no key-values; this is for files");
}

HurrayStatus fail_index(const char* function, std::uint64_t index, std::uint64_t count, const char* things) {
    return fail(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, function,
                "index is " + std::to_string(index) + ", there are " + std::to_string(count) + " " + things);
}

/// Checks what all functions for files need, then calls `body` with the file.
template <class Reader, class Out, class Body>
HurrayStatus with_file(const char* function, Reader* reader, Out* out, Body body) {
    return guard(function, [&]() -> HurrayStatus {
        if (reader == nullptr) {
            return fail_null(function, "reader");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return reader->file == nullptr ? fail_stream(function) : body(*reader->file);
    });
}

}  // namespace

HurrayStatus hurray_reader_open_stream(int fd, const HurrayReaderOptions* options, HurrayReader** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        hurray::ReaderLimits limits;
        if (const HurrayStatus status = to_limits(function, options, limits); status != HURRAY_OK) {
            return status;
        }
        auto own = hurray::duplicate_fd(fd);
        if (!own) {
            return fail(function, own.error());
        }
        *out = make_handle<HurrayReader>(std::make_unique<hurray::StreamReader>(*std::move(own), limits), nullptr);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_open_file(int fd, const HurrayReaderOptions* options, HurrayReader** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        hurray::ReaderLimits limits;
        if (const HurrayStatus status = to_limits(function, options, limits); status != HURRAY_OK) {
            return status;
        }
        auto own = hurray::duplicate_fd(fd);
        if (!own) {
            return fail(function, own.error());
        }
        auto file = FileReader::open(*std::move(own), limits);
        if (!file) {
            return fail(function, file.error());
        }
        FileReader* const same = file->get();
        *out = make_handle<HurrayReader>(*std::move(file), same);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_destroy(HurrayReader** reader) {
    if (reader == nullptr) {
        return fail_null(__func__, "reader");
    }
    if (*reader == nullptr) {
        return HURRAY_OK;
    }
    if (!claim_handle(*reader)) {
        return fail(HURRAY_ERR_INTERNAL, __func__, "this reader is not alive: it was destroyed before");
    }
    const OwnedHandle<HurrayReader> owned(std::exchange(*reader, nullptr));
    return HURRAY_OK;
}

HurrayStatus hurray_reader_next(HurrayReader* reader, HurrayDescriptor** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (reader == nullptr) {
            return fail_null(function, "reader");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        const auto more = reader->reader->next();
        if (!more) {
            return fail(function, more.error());
        }
        *out = *more ? hand_out(*reader->reader) : nullptr;
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_read(HurrayReader* reader, uint32_t buffer, uint64_t offset, void* out, uint64_t len) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (reader == nullptr) {
            return fail_null(function, "reader");
        }
        if (out == nullptr && len != 0) {
            return fail_null(function, "out");
        }
        const auto read =
            reader->reader->read(buffer, offset, {static_cast<std::uint8_t*>(out), static_cast<std::size_t>(len)});
        return read ? HURRAY_OK : fail(function, read.error());
    });
}

HurrayStatus hurray_reader_read_buffers(HurrayReader* reader, HurrayBufferList** out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (reader == nullptr) {
            return fail_null(function, "reader");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        return read_all(function, *reader->reader, out);
    });
}

HurrayStatus hurray_reader_file_info(const HurrayReader* reader, HurrayFileInfo* out) {
    return with_file(__func__, reader, out, [&](const FileReader& file) {
        const hurray::FileHeader& header = file.header();
        *out = HurrayFileInfo{file.file_size(),
                              file.entries().size(),
                              file.values().size(),
                              header.flags,
                              header.data_buffer_alignment,
                              header.version_major,
                              header.version_minor,
                              {}};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_entry(const HurrayReader* reader, uint64_t index, HurrayFileEntry* out) {
    return with_file(__func__, reader, out, [&, function = __func__](const FileReader& file) {
        if (index >= file.entries().size()) {
            return fail_index(function, index, file.entries().size(), "tensors");
        }
        const hurray::IndexEntry& entry = file.entries()[index];
        *out = HurrayFileEntry{entry.name.data(),       entry.name.size(), entry.descriptor_offset,
                               entry.descriptor_length, entry.data_offset, entry.data_length};
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_find(const HurrayReader* reader, const char* name, uint64_t name_len, uint64_t* out) {
    return with_file(__func__, reader, out, [&, function = __func__](const FileReader& file) {
        if (name == nullptr) {
            return fail_null(function, "name");
        }
        const auto number = file.find({name, static_cast<std::size_t>(name_len)});
        if (!number) {
            return fail(HURRAY_ERR_NOT_FOUND, function, "the file has no tensor of that name");
        }
        *out = *number;
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_go_to(HurrayReader* reader, uint64_t index, HurrayDescriptor** out) {
    return with_file(__func__, reader, out, [&, function = __func__](FileReader& file) {
        if (index >= file.entries().size()) {
            return fail_index(function, index, file.entries().size(), "tensors");
        }
        if (const auto gone = file.go_to(index); !gone) {
            return fail(function, gone.error());
        }
        *out = hand_out(file);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_current(const HurrayReader* reader, uint64_t* out) {
    return with_file(__func__, reader, out, [&, function = __func__](const FileReader& file) {
        if (file.current() == nullptr) {
            return fail(HURRAY_ERR_NOT_FOUND, function, "there is no current tensor");
        }
        *out = file.current_number();
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_buffer_offset(const HurrayReader* reader, uint32_t buffer, uint64_t* out) {
    return with_file(__func__, reader, out, [&, function = __func__](const FileReader& file) {
        if (file.current() == nullptr) {
            return fail(HURRAY_ERR_NOT_FOUND, function, "there is no current tensor");
        }
        if (buffer >= file.current()->buffers.size()) {
            return fail_index(function, buffer, file.current()->buffers.size(), "buffers");
        }
        *out = file.buffer_offset(buffer);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_value(const HurrayReader* reader, uint64_t index, const char** out_key,
                                 uint64_t* out_key_len, HurrayValue* out_value) {
    return with_file(__func__, reader, out_value, [&, function = __func__](const FileReader& file) {
        if (out_key == nullptr || out_key_len == nullptr) {
            return fail_null(function, out_key == nullptr ? "out_key" : "out_key_len");
        }
        if (index >= file.values().size()) {
            return fail_index(function, index, file.values().size(), "values");
        }
        const hurray::KeyValue entry = file.values()[index];
        *out_key = entry.key.data();
        *out_key_len = entry.key.size();
        *out_value = to_c(entry.value);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_reader_find_value(const HurrayReader* reader, const char* key, uint64_t key_len, HurrayValue* out) {
    return with_file(__func__, reader, out, [&, function = __func__](const FileReader& file) {
        if (key == nullptr) {
            return fail_null(function, "key");
        }
        const auto number = file.values().find({key, static_cast<std::size_t>(key_len)});
        if (!number) {
            return fail(HURRAY_ERR_NOT_FOUND, function, "the file has no value of that key");
        }
        *out = to_c(file.values()[*number].value);
        return HURRAY_OK;
    });
}

HurrayStatus hurray_value_take_element(HurrayValue* array, HurrayValue* out) {
    return guard(__func__, [&, function = __func__]() -> HurrayStatus {
        if (array == nullptr) {
            return fail_null(function, "array");
        }
        if (out == nullptr) {
            return fail_null(function, "out");
        }
        if (array->kind != HURRAY_VALUE_ARRAY || what_is_wrong(*array) != nullptr) {
            return fail(HURRAY_ERR_INVALID_ARGUMENT, function, "this value is no array");
        }
        if (array->count == 0) {
            return fail(HURRAY_ERR_NOT_FOUND, function, "no element is left");
        }
        hurray::Value rest = from_c(*array);
        const auto element = hurray::take_element(rest);
        if (!element) {
            return fail(HURRAY_ERR_INVALID_ARGUMENT, function, "array.data does not hold array.count elements");
        }
        *array = to_c(rest);
        *out = to_c(*element);
        return HURRAY_OK;
    });
}
