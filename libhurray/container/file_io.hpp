#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

/// Bytes through file descriptors: all that were asked for, whatever signals, pipes and O_NONBLOCK do.
namespace hurray {

/// A descriptor of our own for the same open file, close-on-exec.
[[nodiscard]] Result<UniqueFd> duplicate_fd(int fd);

/// Reads until `out` is full or the input ends; how many bytes came. Waits where the descriptor says "not yet".
[[nodiscard]] Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> out);

/// The same at `offset` of a file; the descriptor's own position stays where it is.
[[nodiscard]] Result<std::size_t> read_fully_at(int fd, std::uint64_t offset, std::span<std::uint8_t> out);

/// Writes all of `bytes`.
[[nodiscard]] Result<void> write_fully(int fd, std::span<const std::uint8_t> bytes);

/// What a failed system call means for whoever asked for it.
[[nodiscard]] tl::unexpected<Error> fail_io(int os_error, std::string_view what);

/// The input is not what the format says. `what` names the place.
[[nodiscard]] inline tl::unexpected<Error> fail_malformed(std::string what) {
    return fail(Errc::InvalidLayout, std::move(what));
}

/// The same error with where it was met before its words.
[[nodiscard]] tl::unexpected<Error> fail_in(std::string_view where, Error error);

}  // namespace hurray
