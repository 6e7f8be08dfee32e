#include "daemon/closer.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace hurrayd {
namespace {

using hurray::UniqueFd;

/// The line of memory. Those of users are their ids, 32 bits.
constexpr std::uint64_t kMemory = std::uint64_t{1} << 32;
/// Up to here the pages are freed on the spot, in some ten microseconds.
constexpr std::uint64_t kSmallBytes = 1024 * 1024;
/// How long a thread waits for more before it ends.
constexpr std::chrono::seconds kIdleTime{1};
/// How long the end waits for what is in the lines.
constexpr std::chrono::milliseconds kLastWait{500};
/// Packets without descriptors that are read on the spot from a connection that ends: more than a client leaves behind.
constexpr int kMostLeftPackets = 16;

/// Whether `fd` is memory that is closed at once. Only files in memory have seals, and only those can be asked for their
/// size without asking a stranger.
bool is_small_memory(int fd) noexcept {
    struct stat status{};
    return ::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &status) == 0 &&
           static_cast<std::uint64_t>(status.st_size) <= kSmallBytes;
}

/// What comes next in the queue of a socket that is shut down for reading.
enum class Left { Nothing, Packet, PacketWithFds };

/// An empty packet looks like the end, but credentials come with a packet only. Peeking takes nothing, so it can't be made
/// to wait.
Left what_is_left(int socket) noexcept {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(ucred))> control;
    std::array<std::byte, 1> byte{};
    iovec part{byte.data(), byte.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    if (size < 0) {
        return Left::PacketWithFds;  // such as ECONNRESET, and who knows
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        return Left::PacketWithFds;
    }
    return size == 0 && message.msg_controllen == 0 ? Left::Nothing : Left::Packet;
}

/// Whether nothing is in the queue of `socket` any more, nor comes.
bool is_drained(int socket) noexcept {
    const int on = 1;
    (void)::shutdown(socket, SHUT_RDWR);
    if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
        return false;
    }
    for (int i = 0; i <= kMostLeftPackets; ++i) {
        switch (what_is_left(socket)) {
            case Left::Nothing:
                return true;
            case Left::PacketWithFds:
                return false;
            case Left::Packet:
                (void)::recv(socket, nullptr, 0, MSG_DONTWAIT);
                break;
        }
    }
    return false;
}

}  // namespace

struct Closer::Job {
    std::vector<UniqueFd> fds;
    UniqueFd read_from;  ///< read one packet of it first
    std::uint64_t ticket = 0;

    [[nodiscard]] std::size_t count() const noexcept { return fds.size() + (read_from ? 1 : 0); }
    /// May take any time.
    void finish() noexcept {
        if (read_from) {
            (void)::recv(read_from.get(), nullptr, 0, MSG_DONTWAIT);
            read_from.reset();
        }
        fds.clear();
    }
};

struct Closer::Line {
    std::deque<Job> jobs;
    std::size_t pending = 0;  ///< descriptors, those in hand among them
    std::condition_variable more;
};

struct Closer::State {
    explicit State(Finished call) : finished(std::move(call)) {}
    std::mutex mutex;
    std::map<std::uint64_t, Line> lines;  ///< each has a thread
    std::condition_variable line_ended;
    Finished finished;
    bool stopping = false;
    std::atomic<std::size_t> pending{0};
};

Closer::Closer(Finished finished) : state_(std::make_shared<State>(std::move(finished))) {}

Closer::~Closer() {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->finished = nullptr;
    for (auto& [key, line] : state_->lines) {
        line.more.notify_one();
    }
    (void)state_->line_ended.wait_for(lock, kLastWait, [this] { return state_->lines.empty(); });
}

void Closer::work(const std::shared_ptr<State>& state, std::uint64_t key) {
    std::unique_lock lock(state->mutex);
    Line& line = state->lines.at(key);
    for (;;) {
        const auto is_due = [&] { return !line.jobs.empty() || state->stopping; };
        if (!line.more.wait_for(lock, kIdleTime, is_due) || line.jobs.empty()) {
            state->lines.erase(key);
            state->line_ended.notify_all();
            return;
        }
        Job job = std::move(line.jobs.front());
        line.jobs.pop_front();
        const std::size_t count = job.count();
        lock.unlock();
        job.finish();
        lock.lock();
        line.pending -= count;
        state->pending -= count;
        if (state->finished && job.ticket != 0) {
            state->finished(job.ticket);
        }
    }
}

void Closer::enqueue(std::uint64_t key, Job job) {
    const std::lock_guard lock(state_->mutex);
    const auto [entry, fresh] = state_->lines.try_emplace(key);
    Line& line = entry->second;
    line.pending += job.count();
    state_->pending += job.count();
    line.jobs.push_back(std::move(job));
    if (!fresh) {
        line.more.notify_one();
        return;
    }
    // Signals are for the daemon's thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(work, state_, key).detach();
    } catch (const std::system_error&) {
        // No thread is to be had. Better to wait than to keep descriptors for ever.
        Job& waiting = line.jobs.front();
        state_->pending -= waiting.count();
        waiting.finish();
        if (waiting.ticket != 0) {
            state_->finished(waiting.ticket);
        }
        state_->lines.erase(entry);
    }
    (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool Closer::close(std::uint32_t user, std::vector<UniqueFd> fds, std::uint64_t ticket) {
    std::erase_if(fds, [](const UniqueFd& fd) { return is_small_memory(fd.get()); });
    if (fds.empty()) {
        return false;
    }
    enqueue(user, {std::move(fds), {}, ticket});
    return true;
}

void Closer::read_away(std::uint32_t user, UniqueFd socket, std::uint64_t ticket) {
    enqueue(user, {{}, std::move(socket), ticket});
}

void Closer::close_socket(std::uint32_t user, UniqueFd socket) {
    if (is_drained(socket.get())) {
        return;  // closed here
    }
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(socket));
    enqueue(user, {std::move(fds), {}, 0});
}

void Closer::close_memory(UniqueFd fd, std::uint64_t bytes, bool is_one_of_many) {
    if (bytes <= kSmallBytes && !is_one_of_many) {
        return;  // closed here
    }
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(fd));
    enqueue(kMemory, {std::move(fds), {}, 0});
}

std::size_t Closer::pending() const noexcept { return state_->pending; }

std::size_t Closer::pending_of(std::uint32_t user) const {
    const std::lock_guard lock(state_->mutex);
    const auto line = state_->lines.find(user);
    return line != state_->lines.end() ? line->second.pending : 0;
}

}  // namespace hurrayd
