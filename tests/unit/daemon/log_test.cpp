#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gtest/gtest.h>

#include "daemon/journal.hpp"
#include "daemon/log.hpp"
#include "daemon/peer_log.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurrayd {
namespace {

using Fields = std::map<std::string, std::string>;

/// A journal that keeps what it gets, read as journald reads it.
class FakeJournal {
  public:
    FakeJournal() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path().copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }

    [[nodiscard]] std::string path() const { return directory_ / "socket"; }
    void stop() { socket_.reset(); }

    std::optional<Fields> next() {
        std::vector<char> bytes(64 * 1024);
        const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (size < 0) {
            return std::nullopt;
        }
        Fields fields;
        std::string_view rest(bytes.data(), static_cast<std::size_t>(size));
        while (!rest.empty()) {
            const std::size_t end = rest.find_first_of("=\n");
            const std::string name(rest.substr(0, end));
            const bool is_text = rest.at(end) == '=';
            rest.remove_prefix(end + 1);
            std::size_t length = rest.find('\n');
            if (!is_text) {
                length = 0;
                for (std::size_t i = 0; i < 8; ++i) {
                    length |= static_cast<std::size_t>(static_cast<unsigned char>(rest.at(i))) << (8 * i);
                }
                rest.remove_prefix(8);
            }
            EXPECT_TRUE(fields.emplace(name, rest.substr(0, length)).second) << name << " twice";
            EXPECT_EQ(rest.at(length), '\n');
            rest.remove_prefix(length + 1);
        }
        return fields;
    }

  private:
    hurray::test::TemporaryDirectory directory_;
    hurray::UniqueFd socket_;
};

class LogTest : public testing::Test {
  protected:
    LogTest() { log::use_journal(&journal); }
    ~LogTest() override {
        log::use_journal(nullptr);
        log::set_level(log::Level::Info);
    }
    FakeJournal fake;
    Journal journal{fake.path()};
};

TEST_F(LogTest, LineIsFieldsInTheJournal) {
    log::warning("session_cut", {{"uid", 1000}, {"client", "two words"}});
    EXPECT_EQ(fake.next(), (Fields{{"MESSAGE", "event=session_cut uid=1000 client=\"two words\""},
                                   {"PRIORITY", "4"},
                                   {"SYSLOG_IDENTIFIER", "hurrayd"},
                                   {"HURRAY_EVENT", "session_cut"},
                                   {"HURRAY_UID", "1000"},
                                   {"HURRAY_CLIENT", "two words"}}));
}

// What a client calls itself must not become fields of its own, or another line.
TEST_F(LogTest, NobodyForgesAField) {
    const std::string label = "x\nPRIORITY=0\nMESSAGE=all is lost";
    log::info("session_opened", {{"client", label}});
    const auto fields = fake.next();
    ASSERT_TRUE(fields);
    EXPECT_EQ(fields->at("HURRAY_CLIENT"), label);
    EXPECT_EQ(fields->at("PRIORITY"), "6");
    EXPECT_EQ(fields->at("MESSAGE"), "event=session_opened client=\"x\\x0aPRIORITY=0\\x0aMESSAGE=all is lost\"");
    EXPECT_FALSE(fake.next());
}

TEST_F(LogTest, JournalThatReadsNothingCostsLinesAndNoTime) {
    const std::uint64_t before = log::dropped();
    std::uint64_t written = 0;
    while (log::dropped() == before) {  // would wait for ever
        log::info("line", {});
        ++written;
    }
    for (std::uint64_t read = 1; read < written; ++read) {
        ASSERT_TRUE(fake.next());
    }
    EXPECT_FALSE(fake.next());
    log::info("line", {});
    EXPECT_TRUE(fake.next());
}

TEST_F(LogTest, LinesGoToStderrWhileNoJournalIsThere) {
    fake.stop();
    testing::internal::CaptureStderr();
    log::info("serving", {{"socket", "/x"}});
    EXPECT_NE(testing::internal::GetCapturedStderr().find("level=info event=serving socket=/x"), std::string::npos);
}

TEST(Journal, IsFoundOnlyBehindTheDescriptorThatLeadsThere) {
    const hurray::test::TemporaryDirectory directory;
    const hurray::UniqueFd file(::creat((directory / "file").c_str(), 0600));
    struct stat status{};
    ASSERT_EQ(::fstat(file.get(), &status), 0);
    const std::string stream = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
    ::unsetenv("JOURNAL_STREAM");
    EXPECT_FALSE(Journal::behind(file.get()));
    ::setenv("JOURNAL_STREAM", (stream + "0").c_str(), 1);
    EXPECT_FALSE(Journal::behind(file.get())) << "stderr was redirected";
    ::setenv("JOURNAL_STREAM", stream.c_str(), 1);
    EXPECT_TRUE(Journal::behind(file.get()));
    EXPECT_FALSE(Journal::behind(-1));
    ::unsetenv("JOURNAL_STREAM");
}

class PeerLogTest : public LogTest {
  protected:
    asio::io_context io;
    PeerLog peer_log{io};
    Dispatcher::Peer alice{{1}, {1001, 1001, 77}, true, "camera"};
    Dispatcher::Peer bob{{2}, {1002, 1002, 78}, true, "viewer"};

    std::uint64_t lines(std::string_view event) {
        std::uint64_t found = 0;
        while (const auto fields = fake.next()) {
            found += fields->at("HURRAY_EVENT") == event ? 1 : 0;
        }
        return found;
    }
};

TEST_F(PeerLogTest, LineNamesTheClient) {
    peer_log.write(log::Level::Info, "session_ended", alice, {{"reason", "closed"}});
    const auto fields = fake.next();
    ASSERT_TRUE(fields);
    EXPECT_EQ(fields->at("MESSAGE"), "event=session_ended session=1 uid=1001 pid=77 client=camera reason=closed");
    peer_log.stop();
}

TEST_F(PeerLogTest, RepeatedLinesAreSuppressedAndCountedForEachUserAndEvent) {
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; i < PeerLog::kMostLines + 5; ++i) {
        peer_log.write(log::Level::Warning, "session_cut", alice);
        written += lines("session_cut");
    }
    EXPECT_EQ(written, PeerLog::kMostLines);
    EXPECT_EQ(peer_log.suppressed(), 5u);
    peer_log.write(log::Level::Warning, "session_cut", bob);
    EXPECT_EQ(lines("session_cut"), 1u) << "another user's lines are not affected";
    peer_log.write(log::Level::Warning, "client_turned_away", 1001, {{"reason", "full"}});
    EXPECT_EQ(lines("client_turned_away"), 1u) << "nor is another event";

    peer_log.stop();
    const auto fields = fake.next();
    ASSERT_TRUE(fields);
    EXPECT_EQ(fields->at("MESSAGE"), "event=lines_suppressed uid=1001 of=session_cut lines=5");
    EXPECT_FALSE(fake.next());
    io.run();  // has nothing to do any more
}

TEST_F(PeerLogTest, AtLevelDebugNothingIsSuppressed) {
    log::set_level(log::Level::Debug);
    std::map<std::string, int> by_priority;
    for (std::uint64_t i = 0; i < PeerLog::kMostLines + 5; ++i) {
        peer_log.write(log::Level::Warning, "session_cut", alice);
        const auto fields = fake.next();
        ASSERT_TRUE(fields);
        ++by_priority[fields->at("PRIORITY")];
    }
    EXPECT_EQ(by_priority, (std::map<std::string, int>{{"4", 60}, {"7", 5}}));
    EXPECT_EQ(peer_log.suppressed(), 0u);
    peer_log.stop();
}

}  // namespace
}  // namespace hurrayd
