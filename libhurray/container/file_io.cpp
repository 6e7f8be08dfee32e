#include "libhurray/container/file_io.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

namespace hurray {
namespace {

/// Whether a call that failed with `os_error` is to be made again, once there is something to do for it.
bool again(int fd, short events, int os_error) {
    if (os_error == EINTR) {
        return true;
    }
    if (os_error != EAGAIN && os_error != EWOULDBLOCK) {
        return false;
    }
    pollfd waited{fd, events, 0};
    return ::poll(&waited, 1, -1) >= 0 || errno == EINTR;
}

/// `call` reads into what is left of `out`.
template <class Call>
Result<std::size_t> read_until_full(int fd, std::span<std::uint8_t> out, Call call) {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t count = call(out.subspan(done), done);
        if (count < 0) {
            if (const int os_error = errno; !again(fd, POLLIN, os_error)) {
                return fail_io(os_error, "reading failed");
            }
        } else if (count == 0) {
            break;
        } else {
            done += static_cast<std::size_t>(count);
        }
    }
    return done;
}

Errc errc_of(int os_error) {
    switch (os_error) {
        case ENOSPC:
        case EDQUOT:
            return Errc::NoSpace;
        case EFBIG:
        case EMFILE:
        case ENFILE:
            return Errc::Limit;
        case EPIPE:
        case ECONNRESET:
            return Errc::Closed;
        case EBADF:
        case EISDIR:
        case EINVAL:
            return Errc::InvalidArgument;
        case ESPIPE:
            return Errc::Unsupported;
        default:
            return Errc::Internal;
    }
}

}  // namespace

tl::unexpected<Error> fail_io(int os_error, std::string_view what) {
    return fail_os(errc_of(os_error), os_error,
                   std::string(what) + ": " + std::error_code(os_error, std::generic_category()).message());
}

tl::unexpected<Error> fail_in(std::string_view where, Error error) {
    error.message = std::string(where) + ": " + error.message;
    return fail(std::move(error));
}

Result<UniqueFd> duplicate_fd(int fd) {
    UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!own) {
        return fail_io(errno, "file descriptor " + std::to_string(fd) + " can't be duplicated");
    }
    return own;
}

Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> out) {
    return read_until_full(
        fd, out, [fd](std::span<std::uint8_t> rest, std::size_t) { return ::read(fd, rest.data(), rest.size()); });
}

Result<std::size_t> read_fully_at(int fd, std::uint64_t offset, std::span<std::uint8_t> out) {
    return read_until_full(fd, out, [=](std::span<std::uint8_t> rest, std::size_t done) {
        return ::pread(fd, rest.data(), rest.size(), static_cast<off_t>(offset + done));
    });
}

Result<void> write_fully(int fd, std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
        } else if (const int os_error = errno; !again(fd, POLLOUT, os_error)) {
            return fail_io(os_error, "writing failed");
        }
    }
    return {};
}

}  // namespace hurray
