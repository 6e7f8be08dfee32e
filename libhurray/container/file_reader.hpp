#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libhurray/base/unique_fd.hpp"
#include "libhurray/container/file_layout.hpp"
#include "libhurray/container/key_values.hpp"
#include "libhurray/container/tensor_reader.hpp"

namespace hurray {

/// A `.hrry` file: tensors with names, in any order, and key-values.
///
/// Opening reads header, trailer, index and key-values. What an index entry says is checked when its tensor is gone to, so
/// that one damaged tensor does not take the others with it. The file is read at positions of our own: the descriptor's is
/// left alone. It must not be changed meanwhile; if it is, calls fail or data is wrong, and no more than that.
class FileReader final : public TensorReader {
  public:
    /// Fails: Unsupported  `fd` is no regular file
    ///        Limit        the index or the key-values are larger than `limits` allow
    ///        InvalidMagic, VersionMismatch, InvalidLayout
    [[nodiscard]] static Result<std::unique_ptr<FileReader>> open(UniqueFd fd, const ReaderLimits& limits);

    [[nodiscard]] const FileHeader& header() const noexcept { return header_; }
    [[nodiscard]] std::uint64_t file_size() const noexcept { return size_; }
    /// In the order of the index; the number of an entry is its tensor's.
    [[nodiscard]] std::span<const IndexEntry> entries() const noexcept { return entries_; }
    [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
    [[nodiscard]] const KeyValues& values() const noexcept { return values_; }

    /// Goes on in the order of descriptors in the file, which is where the members of a composite follow their head.
    [[nodiscard]] Result<bool> next() override;

    /// Goes to the tensor of this number, which is below entries().size(); next() goes on from there.
    [[nodiscard]] Result<void> go_to(std::size_t number);

    /// Of the current tensor, in entries().
    [[nodiscard]] std::size_t current_number() const noexcept { return number_; }

    /// Where a buffer of the current tensor begins in the file.
    [[nodiscard]] std::uint64_t buffer_offset(std::size_t buffer) const noexcept { return buffer_offsets_[buffer]; }

  private:
    FileReader(UniqueFd fd, std::uint64_t size, const ReaderLimits& limits) noexcept
        : TensorReader(limits), fd_(std::move(fd)), size_(size) {}

    [[nodiscard]] Result<void> read_checked(std::size_t buffer, std::uint64_t offset,
                                            std::span<std::uint8_t> out) override;
    [[nodiscard]] Result<std::uint64_t> bytes_at_hand(std::size_t buffer) override;

    [[nodiscard]] Result<void> read_metadata();
    [[nodiscard]] Result<void> take(std::uint64_t offset, std::span<std::uint8_t> out) const;
    [[nodiscard]] Result<std::vector<std::uint8_t>> take_section(std::uint64_t offset, std::uint64_t length,
                                                                 const char* what) const;
    [[nodiscard]] Result<void> load(std::size_t number);
    [[nodiscard]] Result<void> place_buffers(const IndexEntry& entry);

    UniqueFd fd_;
    std::uint64_t size_;
    FileHeader header_;
    std::vector<std::uint8_t> index_;
    std::vector<IndexEntry> entries_;  // loans of index_
    std::vector<std::size_t> by_name_;
    std::vector<std::size_t> by_offset_;
    KeyValues values_;
    std::size_t next_ = 0;                       // in by_offset_
    std::size_t number_ = 0;                     // of the current tensor
    std::vector<std::uint64_t> buffer_offsets_;  // its
};

}  // namespace hurray
