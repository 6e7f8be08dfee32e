#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/raw_peer.hpp"

// What the log of a real hurrayd says about its clients, and how little they can make it say.

namespace hurray::test {
namespace {

class DaemonLog : public testing::Test {
  protected:
    DaemonProcess daemon;
    const std::string who = " uid=" + std::to_string(::geteuid()) + " pid=" + std::to_string(::getpid());

    RawPeer peer() { return RawPeer::greeted(daemon.socket_path()); }

    /// The first line with `text` in it, from its event on.
    std::string line_with(const std::string& text) {
        for (int i = 0; i < 10'000; ++i) {
            const std::string log = daemon.log();
            if (const std::size_t found = log.find(text); found != std::string::npos) {
                const std::size_t begin = log.find("event=", log.rfind('\n', found) + 1);
                return log.substr(begin, log.find('\n', found) - begin);
            }
            ::usleep(1000);
        }
        return "no line with " + text;
    }
    std::size_t lines_with(const std::string& text) {
        const std::string log = daemon.log();
        std::size_t count = 0;
        for (std::size_t at = 0; (at = log.find(text, at)) != std::string::npos; ++at) {
            ++count;
        }
        return count;
    }
};

TEST_F(DaemonLog, TellsWhoCameAndWhyTheyWent) {
    RawPeer p = peer();
    EXPECT_EQ(line_with("session_opened"), "event=session_opened session=1" + who + " client=\"raw peer\"");
    p.close();
    EXPECT_EQ(line_with("session_ended"), "event=session_ended session=1" + who + " client=\"raw peer\" reason=closed");
    RawPeer rude = peer();
    rude.send_raw("x");
    EXPECT_TRUE(
        line_with("session_cut").starts_with("event=session_cut session=2" + who + " client=\"raw peer\" reason="));
}

TEST_F(DaemonLog, TellsOfLeasesThatWereLost) {
    RawPeer producer = peer();
    RawPeer consumer = peer();
    producer.publish(make_tensor("a"));
    for (std::uint64_t lease = 1; lease <= 3; ++lease) {
        consumer.attach(lease, "a");
    }
    consumer.call<wire::Done>(wire::Release{{2}});
    consumer.close();
    EXPECT_EQ(line_with("leases_lost"), "event=leases_lost session=2" + who + " client=\"raw peer\" leases=2");
}

TEST_F(DaemonLog, RefusalNamesStatusFieldAndLimitAndNoName) {
    RawPeer p = peer();
    TestTensor odd = make_tensor("secret/name");
    odd.publish.segments[0].memory = wire::Memory::GpuVmm;
    p.next<Error>(p.send(odd.publish, {odd.fd.get()}));
    EXPECT_EQ(line_with("request_refused"), "event=request_refused session=1" + who +
                                                " client=\"raw peer\" status=HURRAY_ERR_UNSUPPORTED "
                                                "field=publish.segments[0].memory");
    TestTensor longer = make_tensor("secret/name");
    longer.publish.descriptor.resize(40'000);
    p.next<Error>(p.send(longer.publish, {longer.fd.get()}));
    EXPECT_EQ(line_with("status=HURRAY_ERR_LIMIT"),
              "event=request_refused session=1" + who +
                  " client=\"raw peer\" status=HURRAY_ERR_LIMIT field=publish.descriptor limit_name=descriptor_bytes "
                  "limit=32768 in_use=0 value=40000");
    p.call<Error>(wire::Attach{1, "secret/name", wire::Which::Latest, 0, 0}, 0);
    EXPECT_EQ(lines_with("secret"), 0u) << daemon.log();
    EXPECT_EQ(lines_with("HURRAY_ERR_NOT_FOUND"), 0u) << "an ordinary answer";
}

TEST_F(DaemonLog, NobodyFillsItByRepeating) {
    for (int i = 0; i < 100; ++i) {
        RawPeer rude = peer();
        rude.send_raw("x");
        rude.next<wire::Closing>();
    }
    RawPeer p = peer();
    for (int i = 0; i < 1000; ++i) {
        p.call<Error>(wire::Withdraw{{0, fresh_id()}});  // debug
        const auto id = p.send(wire::StatusRequest{}, {STDERR_FILENO});
        EXPECT_EQ(p.next<Error>(id).code, Errc::InvalidArgument);
    }
    EXPECT_EQ(lines_with("event=session_opened"), 60u);
    EXPECT_EQ(lines_with("event=session_cut"), 60u);
    EXPECT_EQ(lines_with("event=request_refused"), 60u);
    EXPECT_EQ(scrape(daemon.metrics_path()).at("hurray_log_lines_suppressed_total"), 41 + 40 + 940);
    p.close();
    const std::string log_before_end = daemon.log();
    daemon.end(SIGTERM);
    EXPECT_NE(daemon.log().find("event=lines_suppressed uid=" + std::to_string(::geteuid()) +
                                " of=request_refused lines=940"),
              std::string::npos)
        << daemon.log().substr(log_before_end.size());
    daemon.start();
}

// Its stderr is a file here, whatever the service manager said about the stderr that it gave.
TEST(DaemonLogSink, IsStderrWhenJournalStreamIsAboutAnother) {
    DaemonProcess daemon({.arguments = {}, .environment = {{"JOURNAL_STREAM", "8:1"}}, .descriptor_limit = {}});
    EXPECT_NE(daemon.log().find("event=serving"), std::string::npos);
    EXPECT_NE(daemon.log().find(" store=0 "), std::string::npos) << "nobody keeps anything for it";
}

}  // namespace
}  // namespace hurray::test
