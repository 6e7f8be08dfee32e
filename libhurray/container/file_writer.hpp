#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libhurray/container/file_layout.hpp"
#include "libhurray/container/tensor_writer.hpp"
#include "libhurray/container/value.hpp"

namespace hurray {

struct FileWriterOptions {
    std::uint32_t data_buffer_alignment = kMinDataAlignment;
    bool sorted_index = false;  // by name; otherwise entries are in the order of writing
};

/// Writes a `.hrry` file, front to back, without seeking: a pipe will do. Without finish() it is no file.
class FileWriter final : public TensorWriter {
  public:
    /// Writes the header.
    ///
    /// Fails: InvalidArgument  the alignment; `fd` is a file that is not empty, or does not stand at its beginning
    [[nodiscard]] static Result<std::unique_ptr<FileWriter>> open(UniqueFd fd, const FileWriterOptions& options);

    /// Keeps a value, to be written by finish(), in the order of the calls.
    ///
    /// Fails: InvalidArgument  key or value
    ///        AlreadyExists    the key is taken
    ///        Limit            the section would not fit 32 bits
    [[nodiscard]] Result<void> add_value(std::string_view key, const Value& value);

  private:
    FileWriter(UniqueFd fd, const FileWriterOptions& options) noexcept
        : TensorWriter(std::move(fd)), options_(options) {}

    [[nodiscard]] Result<void> check_name(std::string_view name) override;
    Result<void> write_checked(std::string_view name, std::span<const std::uint8_t> descriptor,
                               BufferBytes buffers) override;
    Result<void> write_end() override;
    [[nodiscard]] Result<void> write_start();

    FileWriterOptions options_;
    std::set<std::string, std::less<>> names_;
    std::vector<IndexEntry> entries_;  // the names are loans of names_
    std::set<std::string, std::less<>> keys_;
    std::vector<std::uint8_t> values_;  // encoded, without the count
};

}  // namespace hurray
