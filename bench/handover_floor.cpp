// The floor of the hand-over: what the kernel alone costs.
//
// A broker with an epoll loop between two SOCK_SEQPACKET sockets. Its messages are those of the broker protocol, as plain
// structs; its system calls are those without which the work can't be done: the packets, the checks of the descriptor, mapping
// and unmapping.
#include "bench/handover.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/samples.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace bench {

namespace {

enum class Say : std::uint32_t {
    Ping,
    Publish,
    Published,
    Opened,
    Attach,
    Granted,
    Release,
    Released,
    Withdraw,
    Forget,
    Done
};

struct Message {
    Say say = Say::Ping;
    std::uint32_t again = 0;
    std::uint64_t size = 0;
    std::uint64_t padding[6] = {};  // about as long as the real ones
};

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

void send(int socket, const Message& message, int fd = -1) {
    iovec data{const_cast<Message*>(&message), sizeof message};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    if (::sendmsg(socket, &header, MSG_NOSIGNAL) != sizeof message) {
        die("floor: sendmsg");
    }
}

/// False at the end.
bool receive(int socket, Message& message, int& fd) {
    iovec data{&message, sizeof message};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    fd = -1;
    const ssize_t length = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (length <= 0) {
        return false;
    }
    if (const cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr) {
        std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    }
    return true;
}

Message expect(int socket, Say say) {
    Message message;
    int fd = -1;
    if (!receive(socket, message, fd) || message.say != say) {
        die("floor: an unexpected message");
    }
    return message;
}

void check(int fd) {
    struct stat status{};
    if (::fcntl(fd, F_GET_SEALS) < 0 || ::fstat(fd, &status) != 0) {
        die("floor: check");
    }
}

void broker(int producer, int consumer) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    for (const int socket : {producer, consumer}) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = socket;
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    }
    int held = -1;
    Message published;
    for (;;) {
        epoll_event event{};
        if (::epoll_wait(epoll, &event, 1, -1) != 1) {
            continue;
        }
        Message message;
        int fd = -1;
        if (!receive(event.data.fd, message, fd)) {
            return;
        }
        switch (message.say) {
            case Say::Ping:
                send(producer, {.say = Say::Done});
                break;
            case Say::Publish:  // the consumer waits already
                if (fd >= 0) {
                    check(fd);
                    held = fd;
                }
                published = message;
                published.say = Say::Granted;
                send(producer, {.say = Say::Published});
                send(producer, {.say = Say::Opened});
                send(consumer, published, fd);
                break;
            case Say::Attach:  // whose mapping is kept
                send(producer, {.say = Say::Opened});
                send(consumer, published);
                break;
            case Say::Release:
                send(producer, {.say = Say::Released});
                send(consumer, {.say = Say::Done});
                break;
            case Say::Withdraw:
                send(producer, {.say = Say::Done});
                break;
            case Say::Forget:
                ::close(held);
                send(producer, {.say = Say::Done});
                break;
            default:
                die("floor: the broker was told nonsense");
        }
    }
}

const void* map(int fd, std::uint64_t size) {
    check(fd);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        die("floor: mmap");
    }
    ::close(fd);
    return data;
}

/// One round after the other, until the broker leaves.
void consumer(int socket, SharedTimes& times, const Baton& baton) {
    Message message;
    int fd = -1;
    while (receive(socket, message, fd)) {
        const std::uint64_t size = message.size;
        const void* data = map(fd, size);
        touch(data);
        times.viewed = now_ns();
        send(socket, {.say = Say::Release});
        expect(socket, Say::Done);
        baton.take();

        const std::uint64_t asked = now_ns();
        send(socket, {.say = Say::Attach});
        expect(socket, Say::Granted);
        touch(data);
        times.attached = now_ns() - asked;
        send(socket, {.say = Say::Release});
        expect(socket, Say::Done);
        baton.take();

        expect(socket, Say::Granted);
        touch(data);
        times.viewed = now_ns();
        send(socket, {.say = Say::Release});
        expect(socket, Say::Done);
        baton.take();
        ::munmap(const_cast<void*>(data), size);
    }
}

template <class Body>
int fork_child(const std::vector<int>& close_there, const Body& body) {
    const pid_t child = ::fork();
    if (child < 0) {
        die("fork");
    }
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (const int fd : close_there) {
            ::close(fd);
        }
        body();
        ::_exit(0);
    }
    return child;
}

/// A fresh, sealed, reserved segment, mapped writable; as the client library makes it.
struct Fresh {
    explicit Fresh(std::uint64_t length) : size(length) {
        fd = ::memfd_create("floor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(size)) != 0 ||
            ::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) {
            die("floor: memfd");
        }
        data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED ||
            ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
            die("floor: segment");
        }
        *static_cast<char*>(data) = 1;
    }
    ~Fresh() {
        ::munmap(data, size);
        ::close(fd);
    }
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;

    std::uint64_t size;
    int fd = -1;
    void* data = nullptr;
};

}  // namespace

Floor::Floor(int consumer_processor) : times_(make_shared_times()) {
    int to_producer[2];
    int to_consumer[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to_producer) != 0 ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to_consumer) != 0) {
        die("socketpair");
    }
    processes_.producer = ::getpid();
    processes_.broker = fork_child({to_producer[0], to_consumer[0]}, [&] {
        ::setsid();  // as hurrayd is: the scheduler shares processors out between sessions
        broker(to_producer[1], to_consumer[1]);
    });
    processes_.consumer = fork_child({to_producer[0], to_producer[1], to_consumer[1]}, [&] {
        baton_.close_writing_end();
        place_consumer(consumer_processor);
        consumer(to_consumer[0], times_, baton_);
    });
    baton_.close_reading_end();
    socket_ = to_producer[0];
    for (const int fd : {to_producer[1], to_consumer[0], to_consumer[1]}) {
        ::close(fd);
    }
}

Floor::~Floor() {
    ::close(socket_);  // the broker ends, and then the consumer
    ::waitpid(processes_.broker, nullptr, 0);
    ::waitpid(processes_.consumer, nullptr, 0);
}

void Floor::run(std::uint64_t size, int rounds, HandoverSamples& samples, StepCounts* counts) {
    std::vector<std::unique_ptr<Fresh>> segments;
    for (int round = 0; round < rounds + kUncounted; ++round) {
        segments.push_back(std::make_unique<Fresh>(size));
    }
    settle();
    HandoverSamples uncounted;
    int round = 0;
    for (const auto& segment : segments) {
        const bool counts_now = round++ >= kUncounted;
        HandoverSamples& counted = counts_now ? samples : uncounted;
        const auto begin = [&] {
            if (counts != nullptr && counts_now) {
                counts->begin(processes_);
            }
        };
        const auto end_step = [&](Step step) {
            if (counts != nullptr && counts_now) {
                counts->end(processes_, step);
            }
        };
        const auto publish = [&](int fd, Step step, std::vector<std::uint64_t>& to_view,
                                 std::vector<std::uint64_t>& to_release) {
            send(socket_, {.say = Say::Ping});
            expect(socket_, Say::Done);
            begin();
            const std::uint64_t start = now_ns();
            send(socket_, {.say = Say::Publish, .size = size}, fd);
            expect(socket_, Say::Published);
            expect(socket_, Say::Opened);
            expect(socket_, Say::Released);
            const std::uint64_t end = now_ns();
            to_view.push_back(times_.viewed - start);
            to_release.push_back(end - start);
            end_step(step);
        };
        publish(segment->fd, Step::Publish, counted.publish_to_view, counted.publish_to_release);
        begin();
        baton_.pass();
        expect(socket_, Say::Opened);
        expect(socket_, Say::Released);
        counted.attach.push_back(times_.attached);
        end_step(Step::Attach);
        baton_.pass();
        send(socket_, {.say = Say::Withdraw});
        expect(socket_, Say::Done);
        publish(-1, Step::Again, counted.again_to_view, counted.again_to_release);
        baton_.pass();
        send(socket_, {.say = Say::Forget});
        expect(socket_, Say::Done);
    }
}

}  // namespace bench
