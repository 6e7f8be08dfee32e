#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// Closes descriptors where that may take any time: on threads of its own, so that the daemon's does not wait.
///
/// Whoever sends a descriptor decides how long its closing takes. A file of a FUSE file system is told that it is closed, and
/// its server answers when it likes; a TCP socket that lingers waits until its peer has read. The kernel does the same for
/// descriptors that nobody receives, in the thread that lets them go: by reading their packet without room for them, or by
/// closing a socket in whose queue it is. And the last descriptor of a memfd frees its pages, a second's work for gigabytes.
///
/// Each user has a line of his own, with one thread while there is something in it: who sends what can't be closed waits for
/// himself alone. Memory has another line; of that it is known that it ends.
///
/// Threads: one, for all functions.
class Closer {
  public:
    /// `finished` is called with the ticket of what is done, on any thread, and not after this object has ended. It must
    /// not wait, and not call back.
    using Finished = std::function<void(std::uint64_t ticket)>;
    explicit Closer(Finished finished);
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;
    /// Gives what is in the lines a moment. What can't be closed is left to the end of the process.
    ~Closer();

    /// Closes descriptors that `user` has sent. False: they were small memfds, and are closed; no ticket comes.
    bool close(std::uint32_t user, std::vector<hurray::UniqueFd> fds, std::uint64_t ticket);

    /// Reads the next packet of `socket`, a duplicate, and lets go of it and of the descriptors in it.
    void read_away(std::uint32_t user, hurray::UniqueFd socket, std::uint64_t ticket);

    /// Ends a connection of `user`: here and now if nothing is left in its queue that it brought descriptors with.
    void close_socket(std::uint32_t user, hurray::UniqueFd socket);

    /// Closes a sealed memfd of `bytes` bytes: here and now if it is small, and not one of many.
    void close_memory(hurray::UniqueFd fd, std::uint64_t bytes, bool is_one_of_many = false);

    /// Descriptors that are not closed yet, all of them and those of one user.
    [[nodiscard]] std::size_t pending() const noexcept;
    [[nodiscard]] std::size_t pending_of(std::uint32_t user) const;

  private:
    struct Job;
    struct Line;
    struct State;

    static void work(const std::shared_ptr<State>& state, std::uint64_t key);
    void enqueue(std::uint64_t key, Job job);

    std::shared_ptr<State> state_;  // of the threads too: one that can't end outlives this object
};

}  // namespace hurrayd
