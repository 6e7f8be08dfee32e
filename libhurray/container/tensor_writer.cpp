#include "libhurray/container/tensor_writer.hpp"

#include <algorithm>
#include <array>

#include "libhurray/base/checked_math.hpp"
#include "libhurray/container/file_io.hpp"
#include "libhurray/format/composite_set.hpp"
#include "libhurray/format/descriptor_writer.hpp"

namespace hurray {
namespace {

Result<void> check_buffers(const DescriptorView& view, BufferBytes buffers) {
    if (buffers.size() != view.buffers.size()) {
        return fail(Errc::InvalidArgument, std::to_string(buffers.size()) + " buffers are given, the descriptor has " +
                                               std::to_string(view.buffers.size()));
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const BufferEntry entry = view.buffers[i];
        const std::string name = "buffers[" + std::to_string(i) + "]";
        if (entry.byte_size != buffers[i].size()) {
            return fail(Errc::InvalidArgument, name + " has " + std::to_string(buffers[i].size()) +
                                                   " bytes, the descriptor says " + std::to_string(entry.byte_size));
        }
        if (entry.sync_mode != SyncMode::ProducerSynced) {
            return fail(Errc::InvalidSyncMode,
                        name + ".sync_mode is " + std::to_string(static_cast<unsigned>(entry.sync_mode)) +
                            "; what is written has to be producer-synced (0), since no event can be kept with it");
        }
    }
    return {};
}

}  // namespace

Result<void> TensorWriter::check_open() const {
    if (broken_) {
        return fail(*broken_);
    }
    if (finished_) {
        return fail(Errc::Closed, "the output is finished");
    }
    return {};
}

Result<void> TensorWriter::emit(std::span<const std::uint8_t> bytes) {
    if (const auto written = write_fully(fd_.get(), bytes); !written) {
        broken_ = fail_in("byte " + std::to_string(position_) + " of the output", written.error()).value();
        return fail(*broken_);
    }
    position_ += bytes.size();
    return {};
}

Result<void> TensorWriter::pad_to(std::uint64_t alignment) {
    static constexpr std::array<std::uint8_t, 4096> kZeros{};
    std::uint64_t missing = (alignment - position_ % alignment) % alignment;
    while (missing > 0) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(missing, kZeros.size()));
        if (const auto written = emit(std::span(kZeros).first(count)); !written) {
            return written;
        }
        missing -= count;
    }
    return {};
}

Result<void> TensorWriter::write(std::string_view name, const DescriptorView& view, BufferBytes buffers) {
    if (const auto open = check_open(); !open) {
        return open;
    }
    if (const auto good = check_name(name); !good) {
        return good;
    }
    if (const auto good = check_buffers(view, buffers); !good) {
        return good;
    }
    const auto* head = view.layout.as<CompositeHeadLayout>();
    if (head != nullptr && open_heads_.size() == CompositeSet::kMaxDepth) {
        return fail(to_error(
            {Fault::SubpavingNestingTooDeep, "layout", 0, CompositeSet::kMaxDepth + 1, CompositeSet::kMaxDepth}));
    }
    const std::size_t size = encoded_size(view);
    if (size > UINT32_MAX) {
        return fail(Errc::Limit, "the descriptor has " + std::to_string(size) + " bytes, the maximum is " +
                                     std::to_string(UINT32_MAX));
    }
    std::vector<std::uint8_t> descriptor(size);
    encode_descriptor(view, descriptor);
    open_heads_.reserve(CompositeSet::kMaxDepth);
    if (const auto written = write_checked(name, descriptor, buffers); !written) {
        return written;
    }
    if (!open_heads_.empty()) {
        --open_heads_.back();
    }
    if (head != nullptr) {
        open_heads_.push_back(head->member_count);
    }
    while (!open_heads_.empty() && open_heads_.back() == 0) {
        open_heads_.pop_back();
    }
    return {};
}

Result<void> TensorWriter::finish() {
    if (const auto open = check_open(); !open) {
        return open;
    }
    if (!open_heads_.empty()) {
        return fail(Errc::InvalidArgument,
                    "a composite head still lacks " + std::to_string(open_heads_.back()) + " members");
    }
    if (const auto written = write_end(); !written) {
        return written;
    }
    finished_ = true;
    return {};
}

Result<void> StreamWriter::check_name(std::string_view name) {
    if (!name.empty()) {
        return fail(Errc::InvalidArgument, "a name is given, but tensors in a stream have none");
    }
    return {};
}

Result<void> StreamWriter::write_checked(std::string_view, std::span<const std::uint8_t> descriptor,
                                         BufferBytes buffers) {
    if (const auto written = emit(descriptor); !written) {
        return written;
    }
    for (const auto buffer : buffers) {
        if (const auto written = emit(buffer); !written) {
            return written;
        }
    }
    return {};
}

Result<void> StreamWriter::write_end() { return {}; }

}  // namespace hurray
