#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <tl/expected.hpp>

/// How a function says that it could not do its work, in every layer.
///
/// `Errc` carries the numbers of `HurrayStatus`; `libhurray/abi/status.cpp` asserts that the two tables agree.
namespace hurray {

/// What kind of thing went wrong. The numbers are `HurrayStatus`.
enum class Errc : std::int32_t {
    InvalidMagic = -1,
    VersionMismatch = -2,
    InvalidLayout = -3,
    InvalidType = -4,
    BufferTooSmall = -5,
    NullPointer = -6,
    InternalPanic = -7,
    InvalidSyncMode = -8,
    SyncModeMismatch = -9,
    Internal = -10,
    IndexOutOfBounds = -11,
    NotFound = -32,
    AlreadyExists = -33,
    TimedOut = -34,
    NotPermitted = -35,
    OverQuota = -36,
    NoSpace = -37,
    Limit = -38,
    DaemonUnavailable = -39,
    ConnectionLost = -40,
    Protocol = -41,
    ProducerLost = -42,
    Unsupported = -43,
    InvalidArgument = -44,
    Forked = -45,
    Closed = -46,
    WouldBlock = -47,
    DeviceUnavailable = -48,
    DeviceError = -49,
    Interrupted = -50,
};

/// A failure on its way to whoever can act on it.
///
/// `message` is a sentence for a person: it names the thing, the limit and the value. `field` is the path of the field
/// of a request that is to blame ("publish.segments[3].size"), empty where there is none. `os_error` is the errno that
/// the kernel gave, 0 where the kernel was not asked.
struct Error {
    Errc code = Errc::Internal;
    std::string message;
    std::string field = {};
    int os_error = 0;
    /// Which limit was reached, with its value, what is in use, and what was asked; empty and 0 where no limit was.
    std::string limit_name = {};
    std::uint64_t limit = 0;
    std::uint64_t in_use = 0;
    std::uint64_t value = 0;
};

/// A value or the reason why there is none. One alias, so that `std::expected` can take its place.
template <class T>
using Result = tl::expected<T, Error>;

// Cold: the compiler puts what leads to them out of the way, so that the code of what goes well lies close together. Most of what a
// daemon costs that is woken for one packet is fetching its code.

/// `return fail(Errc::NotFound, "no capsule named ...");`
[[nodiscard, gnu::cold]] inline tl::unexpected<Error> fail(Errc code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

[[nodiscard, gnu::cold]] inline tl::unexpected<Error> fail(Error error) {
    return tl::unexpected<Error>(std::move(error));
}

/// For input that breaks a rule: names the field by its path.
[[nodiscard, gnu::cold]] inline tl::unexpected<Error> fail_field(Errc code, std::string field, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message), std::move(field)});
}

/// For a failed system call: keeps errno beside the sentence.
[[nodiscard, gnu::cold]] inline tl::unexpected<Error> fail_os(Errc code, int os_error, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message), {}, os_error});
}

/// The same where `what` was tried, and errno's text says all about why it failed: "open /run/x: Permission denied".
[[nodiscard, gnu::cold]] inline tl::unexpected<Error> fail_call(Errc code, int os_error, const std::string& what) {
    return fail_os(code, os_error, what + ": " + std::strerror(os_error));
}

}  // namespace hurray
