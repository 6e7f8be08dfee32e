#include <array>
#include <csignal>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/integration/hostile_peer.hpp"
#include "tests/support/lingering_socket.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_directory.hpp"

// What travels with packets and is no proper memfd, can't be closed, or is too much.

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace hurray::test {
namespace {

class HostileDescriptors : public HostilePeer {
  protected:
    struct Case {
        std::string what;
        UniqueFd fd;
        std::vector<std::string> words;  ///< that the message says
        std::string field = "publish.segments[0]";
        wire::Memory claimed = wire::Memory::Reusable;
    };
    /// Does `send` and gives up our descriptor of `stuck` before the daemon looks, so that the daemon's is the last.
    static void send_last(const DaemonProcess& to, LingeringSocket& stuck, const std::function<void()>& send) {
        to.freeze();
        send();
        stuck.close();
        ::kill(to.pid(), SIGCONT);
    }
    static UniqueFd open_path(const std::string& path, int flags) {
        UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
        EXPECT_TRUE(fd) << path;
        return fd;
    }
    static std::string link_of(const UniqueFd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }
};

TEST_F(HostileDescriptors, WhatCouldHurtAReaderIsRefusedWithWhatItIs) {  // case G1
    constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    const std::string wanted = "SHRINK|GROW|FUTURE_WRITE|SEAL are needed";
    const TemporaryDirectory directory;
    std::ofstream(directory / "file") << std::string(4096, 'f');
    const UniqueFd good = make_memfd();
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);

    std::vector<Case> cases;
    const std::string size_field = "publish.segments[0].size";
    cases.push_back({"half as long as it says", make_memfd({.size = 2048}), {"2048", "4096"}, size_field});
    cases.push_back({"twice as long", make_memfd({.size = 8192}), {"8192", "4096"}, size_field});
    cases.push_back({"empty", make_memfd({.size = 0}), {"0 bytes", "4096"}, size_field});
    cases.push_back({"unsealed", make_memfd({.seals = 0}), {"no seals", wanted}});
    cases.push_back(
        {"may shrink", make_memfd({.seals = kAll & ~F_SEAL_SHRINK}), {"has GROW|FUTURE_WRITE|SEAL", wanted}});
    cases.push_back({"may grow", make_memfd({.seals = kAll & ~F_SEAL_GROW}), {"has SHRINK|FUTURE_WRITE|SEAL", wanted}});
    cases.push_back(
        {"may be written", make_memfd({.seals = kAll & ~F_SEAL_FUTURE_WRITE}), {"has SHRINK|GROW|SEAL", wanted}});
    cases.push_back(
        {"may get more seals", make_memfd({.seals = kAll & ~F_SEAL_SEAL}), {"has SHRINK|GROW|FUTURE_WRITE", wanted}});
    cases.push_back({"immutable, and called reusable",
                     make_memfd({.seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL}),
                     {"has SHRINK|GROW|WRITE|SEAL", wanted}});
    cases.push_back({"one seal too many", make_memfd({.seals = kAll | F_SEAL_WRITE}), {"WRITE|FUTURE_WRITE", wanted}});
    cases.push_back({"sparse", make_memfd({.reserve = false}), {"sparse", "0 of its 4096"}});
    constexpr int kNever = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    const auto called_immutable = [&](std::string what, UniqueFd fd, std::vector<std::string> words,
                                      std::string field = "publish.segments[0]") {
        cases.push_back({std::move(what), std::move(fd), std::move(words), std::move(field), wire::Memory::Immutable});
    };
    called_immutable("reusable, and called immutable", make_memfd(), {"FUTURE_WRITE|SEAL where", "WRITE missing"});
    called_immutable("unsealed, and called immutable", make_memfd({.seals = 0}), {"no seals"});
    called_immutable("immutable, may shrink", make_memfd({.seals = kNever & ~F_SEAL_SHRINK}), {"SHRINK missing"});
    called_immutable("immutable, may grow", make_memfd({.seals = kNever & ~F_SEAL_GROW}), {"GROW missing"});
    called_immutable("immutable, may be written", make_memfd({.seals = kNever & ~F_SEAL_WRITE}), {"WRITE missing"});
    called_immutable("immutable, may get more seals", make_memfd({.seals = kNever & ~F_SEAL_SEAL}), {"SEAL missing"});
    called_immutable("immutable, sparse", make_memfd({.seals = kNever, .reserve = false}), {"sparse", "0 of its 4096"});
    called_immutable("immutable, half as long", make_memfd({.size = 2048, .seals = kNever}), {"2048", "4096"},
                     size_field);
    called_immutable("eventfd, and called immutable", UniqueFd(::eventfd(0, EFD_CLOEXEC)), {"without memory"});
    called_immutable("O_PATH, and called immutable", open_path(link_of(good), O_PATH), {"O_PATH"});
    for (const char* path : {"/", "/dev/zero", "/proc/self/exe"}) {
        cases.push_back({std::string(path) + ", and called a dma-buf",
                         open_path(path, O_RDONLY),
                         {"not a dma-buf"},
                         "publish.segments[0]",
                         wire::Memory::Dmabuf});
    }
    cases.push_back({"memfd, and called a dma-buf",
                     make_memfd(),
                     {"not a dma-buf but a memfd"},
                     "publish.segments[0]",
                     wire::Memory::Dmabuf});
    cases.push_back({"never to be sealed", UniqueFd(::memfd_create("hurray-test", MFD_CLOEXEC)), {"can't have seals"}});
    cases.push_back({"plain file in a tmpfs", open_path("/dev/shm", O_TMPFILE | O_RDWR), {"can't have seals"}});
    cases.push_back({"file on disk", open_path(directory / "file", O_RDWR), {"file"}});
    cases.push_back({"directory", open_path("/", O_RDONLY), {"directory"}});
    cases.push_back({"device", open_path("/dev/zero", O_RDONLY), {"a device"}});
    cases.push_back({"O_PATH of a good memfd", open_path(link_of(good), O_PATH), {"O_PATH"}});
    cases.push_back({"O_PATH of a directory", open_path("/", O_PATH), {"O_PATH"}});
    cases.push_back({"eventfd", UniqueFd(::eventfd(0, EFD_CLOEXEC)), {"without memory"}});
    cases.push_back({"epoll", UniqueFd(::epoll_create1(EPOLL_CLOEXEC)), {"without memory"}});
    cases.push_back({"socket", UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), {"a socket"}});
    cases.push_back({"pipe", UniqueFd(ends[0]), {"a pipe"}});
    cases.push_back({"pipe's other end", UniqueFd(ends[1]), {"a pipe"}});
    RawPeer p = peer();
    for (const Case& bad : cases) {
        SCOPED_TRACE(bad.what);
        TestTensor tensor = make_tensor("t");
        tensor.publish.segments[0].memory = bad.claimed;
        const auto error = p.next<Error>(p.send(tensor.publish, {bad.fd.get()}));
        EXPECT_EQ(error.code, Errc::InvalidArgument);
        EXPECT_EQ(error.field, bad.field);
        for (const std::string& word : bad.words) {
            EXPECT_NE(error.message.find(word), std::string::npos) << word << " in: " << error.message;
        }
        bystander->check();
    }
    EXPECT_TRUE(p.call<wire::ListReply>(wire::List{}).capsules.empty());
}

TEST_F(HostileDescriptors, MemfdThatIsShrunkOnTheWayIsRefused) {
    const UniqueFd fd = make_memfd({.size = 8192, .seals = 0});
    TestTensor tensor = make_tensor("t");
    tensor.publish.segments[0].size = 8192;
    ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
    RawPeer p = peer();
    const auto error = p.next<Error>(p.send(tensor.publish, {fd.get()}));
    EXPECT_EQ(error.field, "publish.segments[0].size");
    EXPECT_NE(error.message.find("4096"), std::string::npos) << error.message;
}

TEST_F(HostileDescriptors, OneMemfdUnderTwoNumbersIsRefused) {
    TestTensor tensor = make_tensor("t");
    tensor.publish.segments.push_back({999'999, true, wire::Memory::Reusable, 4096, 0});
    RawPeer p = peer();
    EXPECT_EQ(p.next<Error>(p.send(tensor.publish, {tensor.fd.get(), tensor.fd.get()})).code, Errc::InvalidArgument);
}

// A TCP socket that lingers kept whoever closed it for as long as its sender liked: the daemon.
TEST_F(HostileDescriptors, DescriptorThatCantBeClosedKeepsItsSenderWaitingAlone) {
    LingeringSocket stuck;
    RawPeer p = peer();
    const TestTensor tensor = make_tensor("t");
    std::uint64_t id = 0;
    send_last(daemon, stuck, [&] { id = p.send(tensor.publish, {stuck.fd()}); });
    EXPECT_EQ(p.next<Error>(id).code, Errc::InvalidArgument);
    const auto later = p.send(wire::StatusRequest{});
    for (int i = 0; i < 10; ++i) {
        bystander->check();
    }
    EXPECT_FALSE(p.try_receive()) << "who sent it waits, all this time";
    stuck.let_go();
    p.next<wire::StatusReply>(later);
}

TEST_F(HostileDescriptors, SoDoesOneInTheQueueOfAConnectionThatIsCut) {
    LingeringSocket stuck;
    RawPeer p = peer();
    const int loan = stuck.fd();
    send_last(daemon, stuck, [&] {
        p.send_raw("no request");  // it is cut for this, and what follows is never read
        p.send_raw("nor this", std::span(&loan, 1));
    });
    p.next<wire::Closing>();
    EXPECT_TRUE(p.at_end());
    bystander->check();
    stuck.let_go();
}

TEST_F(HostileDescriptors, SoDoesOneOfAnEmptyPacket) {
    LingeringSocket stuck;
    RawPeer p = peer();
    std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = stuck.fd();
    send_last(daemon, stuck, [&] { ASSERT_EQ(::sendmsg(p.socket(), &message, 0), 0); });
    EXPECT_TRUE(p.at_end()) << "an empty packet is the end";
    bystander->check();
    stuck.let_go();
}

TEST_F(HostileDescriptors, PeerThatDiesLeavingWhatCantBeClosedIsGoneAllTheSame) {
    LingeringSocket stuck;
    {
        RawPeer p = peer();
        p.publish(make_tensor("theirs"));
        const TestTensor tensor = make_tensor("t");
        send_last(daemon, stuck, [&] {
            p.send(tensor.publish, {stuck.fd()});
            p.send(tensor.publish, {stuck.fd()});  // not read before the first one is closed, which it never is
        });
    }
    bystander->check();
    stuck.let_go();
}

TEST_F(HostileDescriptors, DaemonThatIsOutOfDescriptorsSaysSoAndGoesOn) {  // case D3
    constexpr std::uint64_t kLimit = 512;
    constexpr std::size_t kWithdrawn = 50;
    DaemonProcess small({.arguments = {}, .environment = {}, .descriptor_limit = kLimit});
    RawPeer producer = RawPeer::greeted(small.socket_path());
    RawPeer neighbour = RawPeer::greeted(small.socket_path());
    std::vector<wire::CapsuleId> published;
    std::vector<std::uint64_t> segments;
    std::optional<Error> refused;
    while (!refused && published.size() < kLimit) {
        const TestTensor tensor = make_tensor("");
        const auto id = producer.send(tensor.publish, {tensor.fd.get()});
        Incoming answer = producer.receive();
        ASSERT_EQ(answer.packet.request_id, id);
        if (auto* error = std::get_if<Error>(&answer.packet.message)) {
            refused = *error;
        } else {
            published.push_back({::getuid(), tensor.publish.capsule});
            segments.push_back(tensor.publish.segments[0].number);
        }
    }
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, Errc::Limit);
    EXPECT_EQ(refused->field, "publish.segments");
    EXPECT_EQ(refused->limit_name, "limits.descriptors");
    EXPECT_EQ(refused->limit, kLimit);
    EXPECT_GT(refused->in_use, kLimit - 253);
    EXPECT_EQ(refused->value, 1u);
    EXPECT_LE(small.open_descriptors(), kLimit - 253) << "as many as a packet can bring are free";
    // The neighbour, too, is refused on its connection, which goes on; others come in and attach.
    const TestTensor tensor = make_tensor("neighbour");
    EXPECT_EQ(neighbour.next<Error>(neighbour.send(tensor.publish, {tensor.fd.get()})).code, Errc::Limit);
    producer.call<wire::StatusReply>(wire::StatusRequest{});
    neighbour.call<wire::StatusReply>(wire::StatusRequest{});
    RawPeer consumer = RawPeer::greeted(small.socket_path());
    const auto attach = consumer.send(wire::Attach{1, published[0], wire::Which::Latest, 0, 0});
    EXPECT_EQ(consumer.receive().packet.request_id, attach);
    producer.next<wire::LeaseEvent>();
    // Once withdrawn and forgotten, they leave room for as many, less the consumer that has come.
    producer.call<wire::Done>(wire::Forget{std::move(segments)});
    ASSERT_GT(published.size(), kWithdrawn + 1);
    for (std::size_t i = 1; i <= kWithdrawn; ++i) {
        producer.send(wire::Withdraw{published[i]});
        producer.next<wire::Ended>();
        producer.receive();
    }
    neighbour.publish(tensor);
    for (std::size_t i = 4; i < kWithdrawn; ++i) {
        producer.publish(make_tensor("again/" + std::to_string(i)));
    }
}

// Where there is no room, nobody can be kept waiting by what is not received either.
TEST_F(HostileDescriptors, WithoutRoomADescriptorThatCantBeClosedKeepsItsSenderWaitingAlone) {
    DaemonProcess full({.arguments = {}, .environment = {}, .descriptor_limit = 64});
    RawPeer p = RawPeer::greeted(full.socket_path());
    RawPeer other = RawPeer::greeted(full.socket_path());
    LingeringSocket stuck;
    const TestTensor tensor = make_tensor("t");
    std::uint64_t id = 0;
    send_last(full, stuck, [&] { id = p.send(tensor.publish, {stuck.fd()}); });
    const auto error = p.next<Error>(id);
    EXPECT_EQ(error.code, Errc::Limit);
    EXPECT_EQ(error.limit_name, "limits.descriptors");
    const auto later = p.send(wire::StatusRequest{});
    for (int i = 0; i < 10; ++i) {
        other.call<wire::StatusReply>(wire::StatusRequest{});
    }
    EXPECT_FALSE(p.try_receive());
    stuck.let_go();
    p.next<wire::StatusReply>(later);
}

TEST_F(HostileDescriptors, ClientsForWhomThereIsNoDescriptorAreToldAndTurnedAway) {
    constexpr std::uint64_t kLimit = 64;
    DaemonProcess small({.arguments = {}, .environment = {}, .descriptor_limit = kLimit});
    std::deque<RawPeer> clients;
    std::optional<Error> refused;
    while (!refused && clients.size() < kLimit) {
        RawPeer client(small.socket_path());
        try {
            client.send_hello();
        } catch (const std::runtime_error&) {  // turned away before that; the reason is in the queue
        }
        Incoming answer = client.receive();
        if (auto* closing = std::get_if<wire::Closing>(&answer.packet.message)) {
            refused = closing->error;
            EXPECT_TRUE(client.at_end());
        } else {
            clients.push_back(std::move(client));
        }
    }
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, Errc::Limit);
    EXPECT_EQ(refused->limit_name, "limits.descriptors");
    EXPECT_EQ(refused->limit, kLimit);
    EXPECT_GT(clients.size(), 10u);
    for (RawPeer& client : clients) {
        client.call<wire::StatusReply>(wire::StatusRequest{});
    }
    clients.pop_front();
    for (bool is_in = false; !is_in;) {  // until the end of that one has been read
        RawPeer client(small.socket_path());
        try {
            client.send_hello();
            is_in = std::holds_alternative<wire::HelloReply>(client.receive().packet.message);
        } catch (const std::runtime_error&) {
        }
    }
}

// The kernel counts what is not received against the daemon's user, except root.
TEST_F(HostileDescriptors, UnreadDescriptorsOfManyDoNotStopTheGrantsOfOthers) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root is exempt from the kernel's limit";
    }
    constexpr std::uint64_t kLimit = 400;
    DaemonProcess small({.arguments = {}, .environment = {}, .descriptor_limit = kLimit});
    RawPeer producer = RawPeer::greeted(small.socket_path());
    producer.publish(make_tensor("wanted"));
    std::deque<RawPeer> hoarders;
    for (int i = 0; i < 3; ++i) {  // 100 each, of 200 for all
        hoarders.push_back(RawPeer::greeted(small.socket_path()));
        for (std::uint64_t lease = 1; lease <= 100; ++lease) {
            hoarders.back().send(wire::Attach{lease, "wanted", wire::Which::Latest, 0, 0});
            if (i < 2) {
                producer.next<wire::LeaseEvent>();
            }
        }
    }
    RawPeer consumer = RawPeer::greeted(small.socket_path());
    const auto id = consumer.send(wire::Attach{1, "wanted", wire::Which::Latest, 0, 0});
    const auto status = consumer.send(wire::StatusRequest{});
    consumer.next<wire::StatusReply>(status);  // which passes the grant
    consumer.next<wire::AttachReply>(id);      // which comes when somebody who does not read is cut
    EXPECT_NE(small.log().find("leaves descriptors unread"), std::string::npos) << small.log();
}

}  // namespace
}  // namespace hurray::test
