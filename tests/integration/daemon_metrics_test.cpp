#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/sanitized.hpp"

// The metrics of a real hurrayd, and those who read them badly.

namespace hurray::test {
namespace {

UniqueFd connect_stream(const std::string& path) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw std::runtime_error("connect " + path);
    }
    return socket;
}

std::string first_line(const std::string& answer) { return answer.substr(0, answer.find('\r')); }

TEST(Metrics, SayWhatIsHeldAndWhatHappened) {
    DaemonProcess daemon;
    const Samples before = scrape(daemon.metrics_path());
    EXPECT_EQ(before.at("hurray_clients"), 0);
    EXPECT_EQ(before.at("hurray_open_descriptors"), static_cast<double>(daemon.open_descriptors()) + 1)
        << "with the scraper's own";

    RawPeer producer = RawPeer::greeted(daemon.socket_path());
    RawPeer consumer = RawPeer::greeted(daemon.socket_path());
    producer.publish(make_tensor("a", 5000));
    producer.publish(make_tensor("", 16));
    consumer.attach(1, "a");
    consumer.attach(2, "a");
    consumer.call<wire::Done>(wire::Release{{1}});
    consumer.call<wire::Done>(wire::Watch{1, "b/"});
    consumer.next<wire::Watched>();
    EXPECT_EQ(consumer.call<Error>(wire::Attach{3, "b", wire::Which::Latest, 0, 0}, 0).code, Errc::NotFound);
    consumer.send(wire::Attach{4, "b", wire::Which::Latest, 0, 0});
    consumer.call<wire::StatusReply>(wire::StatusRequest{});  // what came before it has been dealt with

    Samples now = scrape(daemon.metrics_path());
    EXPECT_EQ(now.at("hurray_clients"), 2);
    EXPECT_EQ(now.at("hurray_connections"), 2);
    EXPECT_EQ(now.at("hurray_capsules"), 2);
    EXPECT_EQ(now.at("hurray_names"), 1);
    EXPECT_EQ(now.at("hurray_segment_bytes"), 20480 + 4096);
    EXPECT_EQ(now.at("hurray_segment_descriptors"), 2);
    EXPECT_EQ(now.at("hurray_leases"), 1);
    EXPECT_EQ(now.at("hurray_waiting_attaches"), 1);
    EXPECT_EQ(now.at("hurray_watches"), 1);
    EXPECT_EQ(now.at("hurray_open_descriptors"), static_cast<double>(daemon.open_descriptors()) + 1);
    EXPECT_EQ(now.at("hurray_requests_total{request=\"hello\"}"), 2);
    EXPECT_EQ(now.at("hurray_requests_total{request=\"publish\"}"), 2);
    EXPECT_EQ(now.at("hurray_requests_total{request=\"attach\"}"), 4);
    EXPECT_EQ(now.at("hurray_requests_total{request=\"withdraw\"}"), 0);
    EXPECT_EQ(now.at("hurray_errors_total{status=\"HURRAY_ERR_NOT_FOUND\"}"), 1);
    EXPECT_EQ(now.at("hurray_capsules_published_total"), 2);
    EXPECT_EQ(now.at("hurray_leases_opened_total"), 2);
    EXPECT_EQ(now.at("hurray_leases_ended_total{how=\"released\"}"), 1);
    EXPECT_EQ(now.at("hurray_leases_ended_total{how=\"lost\"}"), 0);

    consumer.close();
    for (int i = 0; i < 10'000 && now.at("hurray_connections_ended_total{how=\"left\"}") != 1; ++i) {
        ::usleep(1000);  // no packet tells that a connection's end has been read
        now = scrape(daemon.metrics_path());
    }
    EXPECT_EQ(now.at("hurray_connections_ended_total{how=\"left\"}"), 1);
    EXPECT_EQ(now.at("hurray_leases_ended_total{how=\"lost\"}"), 1);
    EXPECT_EQ(now.at("hurray_leases"), 0);
    EXPECT_EQ(now.at("hurray_waiting_attaches"), 0);

    RawPeer stager = RawPeer::greeted(daemon.socket_path());
    stager.call<wire::GroupReply>(wire::Group{1, wire::Group::Action::Begin});
    TestTensor member = make_tensor("staged");
    member.publish.group = 1;
    stager.publish(member);
    now = scrape(daemon.metrics_path());
    EXPECT_EQ(now.at("hurray_staged_capsules"), 1);
    EXPECT_EQ(now.at("hurray_capsules"), 3) << "it is one of them";
    EXPECT_EQ(now.at("hurray_capsules_published_total"), 2);
    EXPECT_EQ(now.at("hurray_requests_total{request=\"group\"}"), 1);
    EXPECT_EQ(now.at("hurray_limit_refusals_total{limit=\"group_members\"}"), 0) << "there from the start";
}

TEST(Metrics, CountCutsAndTheLimitsThatWereReached) {
    DaemonProcess daemon;
    RawPeer rude = RawPeer::greeted(daemon.socket_path());
    rude.send_raw(std::string(70'000, 'a'));
    rude.next<wire::Closing>();
    EXPECT_TRUE(rude.at_end());
    const Samples now = scrape(daemon.metrics_path());
    EXPECT_EQ(now.at("hurray_connections_ended_total{how=\"cut\"}"), 1);
    EXPECT_EQ(now.at("hurray_errors_total{status=\"HURRAY_ERR_LIMIT\"}"), 1);
    EXPECT_EQ(now.at("hurray_limit_refusals_total{limit=\"packet_bytes\"}"), 1);
}

TEST(Metrics, SpeakAsMuchHttpAsScrapersNeed) {
    DaemonProcess daemon;
    const std::string path = daemon.metrics_path();
    const std::string whole = ask_http(path, "GET / HTTP/1.0\n\n");
    EXPECT_EQ(first_line(whole), "HTTP/1.1 200 OK");
    EXPECT_EQ(first_line(ask_http(path, "GET /metrics?x=1 HTTP/1.1\r\nAccept: */*\r\n\r\n")), "HTTP/1.1 200 OK");
    const std::string head = ask_http(path, "HEAD /metrics HTTP/1.1\r\n\r\n");
    EXPECT_EQ(first_line(head), "HTTP/1.1 200 OK");
    EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "no body";
    EXPECT_EQ(first_line(ask_http(path, "GET /passwd HTTP/1.1\r\n\r\n")), "HTTP/1.1 404 Not Found");
    EXPECT_EQ(first_line(ask_http(path, "POST /metrics HTTP/1.1\r\n\r\n")), "HTTP/1.1 405 Method Not Allowed");
    EXPECT_EQ(first_line(ask_http(path, "metrics, please\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(first_line(ask_http(path, "\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    EXPECT_EQ(first_line(ask_http(path, "GET / HTTP/1.1\r\nX: " + std::string(9000, 'x'))),
              "HTTP/1.1 431 Request Header Fields Too Large");
    EXPECT_EQ(scrape(path).at("hurray_clients"), 0);
}

TEST(Metrics, ScrapersThatStallAreCutAndHoldNobodyUp) {
    DaemonProcess daemon;
    RawPeer peer = RawPeer::greeted(daemon.socket_path());
    const std::size_t before = daemon.open_descriptors();
    std::vector<UniqueFd> stalled;
    for (int i = 0; i < 20; ++i) {  // more than are served at a time
        stalled.push_back(connect_stream(daemon.metrics_path()));
        ASSERT_EQ(::send(stalled.back().get(), "GET /met", 8, 0), 8);
    }
    for (int i = 0; i < 100; ++i) {
        peer.call<wire::StatusReply>(wire::StatusRequest{});
    }
    EXPECT_LE(daemon.open_descriptors(), before + 8);
    stalled.resize(12);  // those that were not taken yet leave again
    // It waits until the first are cut, without an answer.
    EXPECT_EQ(scrape(daemon.metrics_path()).at("hurray_clients"), 1);
    char byte = 0;
    EXPECT_LE(::recv(stalled.front().get(), &byte, 1, 0), 0);
}

TEST(Metrics, ScrapersThatLeaveAtAnyMomentLeaveNothingBehind) {
    DaemonProcess daemon;
    EXPECT_EQ(scrape(daemon.metrics_path()).at("hurray_clients"), 0);  // so it is done with its start
    const std::size_t before = daemon.open_descriptors();
    for (int i = 0; i < 200; ++i) {
        const UniqueFd socket = connect_stream(daemon.metrics_path());
        const std::string_view request = "GET /metrics HTTP/1.1\r\n\r\n";
        const std::string_view part = request.substr(0, static_cast<std::size_t>(i) % (request.size() + 1));
        if (!part.empty()) {
            (void)::send(socket.get(), part.data(), part.size(), MSG_NOSIGNAL);
        }
    }
    double now = 0;
    for (int i = 0; i < 1000 && now != static_cast<double>(before) + 1; ++i) {  // others may be served beside us
        now = scrape(daemon.metrics_path()).at("hurray_open_descriptors");
    }
    EXPECT_EQ(now, static_cast<double>(before) + 1);
}

TEST(Metrics, AreToldAlsoWhenNoDescriptorIsLeft) {
    if (kIsSanitized) {
        GTEST_SKIP() << kNoDescriptorsLeftNote;
    }
    DaemonProcess daemon({.arguments = {}, .environment = {}, .descriptor_limit = 64});
    std::vector<RawPeer> peers;
    for (;;) {
        peers.emplace_back(daemon.socket_path());
        try {
            peers.back().send_hello();
        } catch (const std::runtime_error&) {  // turned away already; what it was told is still to be read
        }
        if (std::holds_alternative<wire::Closing>(peers.back().receive().packet.message)) {
            break;  // it is full, up to the one that it needs for saying so
        }
    }
    const UniqueFd last = connect_stream(daemon.metrics_path());  // takes what is left, if anything
    for (int i = 0; i < 3; ++i) {
        const Samples now = scrape(daemon.metrics_path());
        EXPECT_EQ(now.at("hurray_max_descriptors"), 64);
        EXPECT_GE(now.at("hurray_open_descriptors"), 64 - 16 - 2);  // some are kept for what comes and goes
        EXPECT_EQ(now.at("hurray_connections_turned_away_total"), 1);
        EXPECT_EQ(now.at("hurray_limit_refusals_total{limit=\"limits.descriptors\"}"), 1);
    }
}

TEST(Metrics, SocketIsForTheDaemonsUserAndGoesWithIt) {
    DaemonProcess daemon;
    struct stat status{};
    ASSERT_EQ(::stat(daemon.metrics_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    daemon.end(SIGKILL);
    daemon.start();  // takes the stale one over
    EXPECT_EQ(scrape(daemon.metrics_path()).at("hurray_clients"), 0);
    EXPECT_EQ(daemon.end(SIGTERM), 0);
    EXPECT_FALSE(std::filesystem::exists(daemon.metrics_path()));
    daemon.start();
}

TEST(Metrics, ThatWereAskedForAreServedOrTheDaemonDoesNotStart) {
    const TemporaryDirectory directory;
    const std::string path = directory / "m.sock";
    std::ofstream(directory / "hurrayd.toml") << "[metrics]\npath = \"" << path << "\"\nmode = \"0644\"\n";
    DaemonProcess daemon(
        {.arguments = {"--config", directory / "hurrayd.toml"}, .environment = {}, .descriptor_limit = {}});
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0644U);
    EXPECT_EQ(scrape(path).at("hurray_clients"), 0);
    EXPECT_FALSE(std::filesystem::exists(daemon.metrics_path()));
    // Another daemon that wants the same.
    const auto other =
        daemon.run_another({"--socket", directory / "other.sock", "--config", directory / "hurrayd.toml"});
    EXPECT_EQ(WEXITSTATUS(other.status), 1);
    EXPECT_NE(other.output.find("something else serves " + path), std::string::npos) << other.output;
    EXPECT_EQ(scrape(path).at("hurray_clients"), 0) << "the first one is not disturbed";
}

TEST(Metrics, WithoutAPlaceForThemTheDaemonServesAndSaysSo) {
    DaemonProcess daemon;
    daemon.end(SIGTERM);
    std::ofstream(daemon.metrics_path()) << "precious";
    daemon.start();
    RawPeer::greeted(daemon.socket_path());
    EXPECT_NE(daemon.log().find("event=no_metrics"), std::string::npos);
    EXPECT_TRUE(std::filesystem::is_regular_file(daemon.metrics_path()));
}

TEST(Metrics, CanBeSwitchedOff) {
    const TemporaryDirectory directory;
    std::ofstream(directory / "hurrayd.toml") << "[metrics]\npath = \"\"\n";
    DaemonProcess daemon(
        {.arguments = {"--config", directory / "hurrayd.toml"}, .environment = {}, .descriptor_limit = {}});
    RawPeer::greeted(daemon.socket_path());
    EXPECT_FALSE(std::filesystem::exists(daemon.metrics_path()));
}

}  // namespace
}  // namespace hurray::test
