#include "libhurray/container/stream_reader.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "libhurray/container/file_io.hpp"
#include "libhurray/format/descriptor_reader.hpp"

namespace hurray {
namespace {

/// Allocated for a buffer before any byte of it has come.
constexpr std::uint64_t kFirstChunk = 65536;

constexpr std::size_t kSkipChunk = 65536;

}  // namespace

std::string StreamReader::where() const {
    return "tensor " + std::to_string(tensors_ - 1) + " at byte " + std::to_string(tensor_begin_);
}

Result<void> StreamReader::take(std::span<std::uint8_t> out, const char* what) {
    const auto count = read_fully(fd_.get(), out);
    if (!count) {
        broken_ = fail_in(where() + ", byte " + std::to_string(position_), count.error()).value();
        return fail(*broken_);
    }
    position_ += *count;
    if (*count < out.size()) {
        broken_ = Error{Errc::InvalidLayout,
                        where() + ": the stream ends at byte " + std::to_string(position_) + ", inside " + what};
        return fail(*broken_);
    }
    return {};
}

Result<void> StreamReader::skip_to(std::size_t buffer, std::uint64_t offset) {
    std::vector<std::uint8_t> scratch;
    while (buffer_ < buffer || buffer_offset_ < offset) {
        const std::uint64_t end = buffer_ < buffer ? current()->buffers[buffer_].byte_size : offset;
        const std::uint64_t left = end - buffer_offset_;
        if (left > 0) {
            scratch.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, kSkipChunk)));
            if (const auto got = take(scratch, "a buffer"); !got) {
                return got;
            }
            buffer_offset_ += scratch.size();
        } else {
            ++buffer_;
            buffer_offset_ = 0;
        }
    }
    return {};
}

Result<bool> StreamReader::next() {
    if (broken_) {
        return fail(*broken_);
    }
    if (const DescriptorView* view = current()) {
        if (const auto skipped = skip_to(view->buffers.size(), 0); !skipped) {
            clear_current();
            return tl::unexpected(skipped.error());
        }
    }
    clear_current();
    return read_tensor();
}

Result<bool> StreamReader::read_tensor() {
    std::vector<std::uint8_t> bytes(kDescriptorPrefixSize);
    tensor_begin_ = position_;
    const auto count = read_fully(fd_.get(), std::span(bytes).first(1));
    if (count && *count == 0) {
        return false;
    }
    ++tensors_;
    buffer_ = 0;
    buffer_offset_ = 0;
    const auto broken = [this](Error error) {
        broken_ = fail_in(where(), std::move(error)).value();
        return fail(*broken_);
    };
    if (!count) {
        return broken(count.error());
    }
    position_ += 1;
    if (const auto got = take(std::span(bytes).subspan(1), "the descriptor"); !got) {
        return tl::unexpected(got.error());
    }
    const auto length = declared_descriptor_length(bytes);
    if (!length) {
        return broken(to_error(length.error()));
    }
    if (*length > limits().max_descriptor_size) {
        return broken(Error{Errc::Limit, "descriptor_length is " + std::to_string(*length) + ", the maximum is " +
                                             std::to_string(limits().max_descriptor_size)});
    }
    const auto rest =
        read_growing(bytes, *length, [this](std::span<std::uint8_t> out) { return take(out, "the descriptor"); });
    if (!rest) {
        return tl::unexpected(rest.error());
    }
    if (const auto good = set_current(std::move(bytes)); !good) {
        return broken(good.error());
    }
    return true;
}

Result<void> StreamReader::read_checked(std::size_t buffer, std::uint64_t offset, std::span<std::uint8_t> out) {
    if (broken_) {
        return fail(*broken_);
    }
    if (buffer < buffer_ || (buffer == buffer_ && offset < buffer_offset_)) {
        return fail(Errc::InvalidArgument, "byte " + std::to_string(offset) + " of buffer " + std::to_string(buffer) +
                                               " has passed: a stream is read front to back");
    }
    if (const auto there = skip_to(buffer, offset); !there) {
        return there;
    }
    if (const auto got = take(out, "a buffer"); !got) {
        return got;
    }
    buffer_offset_ += out.size();
    return {};
}

Result<std::uint64_t> StreamReader::bytes_at_hand(std::size_t) { return kFirstChunk; }

}  // namespace hurray
