#include "daemon/store/keeper.hpp"

#include <csignal>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gtest/gtest.h>

#include "daemon/store/files.hpp"
#include "proto/wire/packet_socket.hpp"
#include "tests/support/temporary_directory.hpp"

// What the journal holds, as the service manager would hand it to the next life.

namespace hurrayd::store {
namespace {

using hurray::UniqueFd;

/// Files can't grow beyond so many bytes: the kernel has no more, as far as this process can tell.
class NoMoreRoom {
  public:
    explicit NoMoreRoom(rlim_t most) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{most, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~NoMoreRoom() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        ::signal(SIGXFSZ, handler_);
    }
    NoMoreRoom(const NoMoreRoom&) = delete;
    NoMoreRoom& operator=(const NoMoreRoom&) = delete;

  private:
    rlimit before_{};
    void (*handler_)(int);
};

class KeeperTest : public testing::Test {
  protected:
    KeeperTest() : manager_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = directory_ / "notify";
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(manager_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
        notify_ = std::make_unique<NotifySocket>();
        ::unsetenv("NOTIFY_SOCKET");
        keeper_ = std::make_unique<Keeper>(*notify_, segments_, [](std::vector<keep::Note>& /*none*/) {});
    }

    /// The journal that was stored last.
    UniqueFd stored() {
        hurray::wire::BurstReader reader(1);
        UniqueFd journal;
        for (;;) {
            auto burst = reader.read(manager_.get(), 1);
            if (!burst || burst->front().kind != hurray::wire::Received::Kind::Packet) {
                return journal;
            }
            if (!burst->front().fds.empty()) {
                journal = std::move(burst->front().fds.front());
            }
        }
    }

    static std::vector<keep::Note> notes_in(const UniqueFd& journal) {
        struct stat status{};
        EXPECT_EQ(::fstat(journal.get(), &status), 0);
        std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
        EXPECT_EQ(::pread(journal.get(), bytes.data(), bytes.size(), 0), status.st_size);
        auto read = read_journal(bytes);
        EXPECT_TRUE(read.has_value()) << read.error().message;
        return read ? read->notes : std::vector<keep::Note>{};
    }

    void note(std::uint64_t version) {
        const keep::Step step = keep::Note(keep::LastVersion{version});
        keeper_->keep(std::span(&step, 1));
    }

    hurray::test::TemporaryDirectory directory_;
    UniqueFd manager_;
    std::unique_ptr<NotifySocket> notify_;
    Closer closer_{[](std::uint64_t) {}};
    SegmentTable segments_{closer_};
    std::unique_ptr<Keeper> keeper_;
};

TEST_F(KeeperTest, WhatTheJournalHadNoRoomForIsInItAsSoonAsThereIsSome) {
    ASSERT_TRUE(keeper_->begin({}).has_value());
    const UniqueFd journal = stored();
    ASSERT_TRUE(journal);
    note(1);
    struct stat status{};
    ASSERT_EQ(::fstat(journal.get(), &status), 0);
    {
        const NoMoreRoom limit(static_cast<rlim_t>(status.st_size) + 3);  // a note's first bytes fit
        note(2);
        note(3);
    }
    note(4);
    EXPECT_EQ(notes_in(journal), (std::vector<keep::Note>{keep::LastVersion{1}, keep::LastVersion{2},
                                                          keep::LastVersion{3}, keep::LastVersion{4}}));
}

TEST_F(KeeperTest, WhatTheJournalHadNoRoomForNeedsNoOtherNoteToBeInIt) {
    ASSERT_TRUE(keeper_->begin({}).has_value());
    const UniqueFd journal = stored();
    {
        const NoMoreRoom limit(1);
        note(1);
    }
    EXPECT_TRUE(keeper_->is_behind());
    keeper_->keep({});
    EXPECT_FALSE(keeper_->is_behind());
    EXPECT_EQ(notes_in(journal), (std::vector<keep::Note>{keep::LastVersion{1}}));
}

TEST_F(KeeperTest, AJournalThatNeverGetsRoomDoesNotGrowInMemoryForEver) {
    ASSERT_TRUE(keeper_->begin({}).has_value());
    const UniqueFd first = stored();
    std::size_t journals = 0;
    {
        const NoMoreRoom limit(100);
        for (std::uint64_t version = 1; version <= 200'000; ++version) {
            note(version);
            journals += version % 1000 == 0 && stored() ? 1 : 0;
        }
    }
    note(200'001);
    // Begun anew when it would have been too long, which needs no room to speak of.
    EXPECT_GE(journals, 1U);
}

}  // namespace
}  // namespace hurrayd::store
