#include "daemon/process_watch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/child.hpp"

namespace hurrayd {
namespace {

using hurray::UniqueFd;
using hurray::test::Child;

/// A client's process, as far as it is seen here.
struct Process {
    std::unique_ptr<Child> child = std::make_unique<Child>([] {});
    UniqueFd pidfd{static_cast<int>(::syscall(SYS_pidfd_open, child->pid(), 0))};
};

class ProcessWatchTest : public testing::Test {
  protected:
    /// Until there is nothing to do at once: a death that waits has been told.
    void run() {
        io_.restart();
        io_.poll();
    }

    asio::io_context io_;
    std::map<std::uint64_t, int> told_;  ///< how often, by session
    ProcessWatch watch_{io_, [this](SessionNumber session) {
                            ++told_[session.value];
                            if (on_death_) {
                                on_death_(session);
                            }
                        }};
    std::function<void(SessionNumber)> on_death_;
};

TEST_F(ProcessWatchTest, TellsEachDeathOnceAndNobodyElses) {
    std::vector<Process> processes(3);
    for (std::size_t i = 0; i < processes.size(); ++i) {
        watch_.add(processes[i].pidfd.get(), {i});
    }
    run();
    EXPECT_TRUE(told_.empty());
    processes[1].child->kill();
    run();
    run();
    EXPECT_EQ(told_, (std::map<std::uint64_t, int>{{1, 1}}));
    processes[0].child->kill();
    run();
    EXPECT_EQ(told_, (std::map<std::uint64_t, int>{{0, 1}, {1, 1}}));
}

TEST_F(ProcessWatchTest, TellsOfOneThatHasDiedBefore) {
    Process process;
    process.child->kill();
    watch_.add(process.pidfd.get(), {7});
    run();
    EXPECT_EQ(told_, (std::map<std::uint64_t, int>{{7, 1}}));
}

TEST_F(ProcessWatchTest, TellsManyThatDieAtOnce) {
    constexpr std::uint64_t kMany = 150;  // more than are told in one turn
    std::vector<Process> processes(kMany);
    for (std::uint64_t i = 0; i < kMany; ++i) {
        watch_.add(processes[i].pidfd.get(), {i});
    }
    for (Process& process : processes) {
        process.child->kill();
    }
    run();
    EXPECT_EQ(told_.size(), kMany);
    for (const auto& [session, times] : told_) {
        EXPECT_EQ(times, 1) << session;
    }
}

TEST_F(ProcessWatchTest, SaysNothingOfWhoseDescriptorIsClosed) {
    Process process;
    watch_.add(process.pidfd.get(), {1});
    process.pidfd.reset();
    process.child->kill();
    run();
    EXPECT_TRUE(told_.empty());
}

TEST_F(ProcessWatchTest, SessionsMayEndWhileDeathsAreTold) {
    std::vector<Process> processes(8);
    for (std::size_t i = 0; i < processes.size(); ++i) {
        watch_.add(processes[i].pidfd.get(), {i});
        processes[i].child->kill();
    }
    on_death_ = [&](SessionNumber) {
        for (Process& process : processes) {
            process.pidfd.reset();
        }
    };
    run();
    EXPECT_GE(told_.size(), 1U);
    for (const auto& [session, times] : told_) {
        EXPECT_EQ(times, 1) << session;
    }
}

TEST_F(ProcessWatchTest, MayBeStoppedFromItsOwnCall) {
    std::vector<Process> processes(3);
    for (std::size_t i = 0; i < processes.size(); ++i) {
        watch_.add(processes[i].pidfd.get(), {i});
        processes[i].child->kill();
    }
    on_death_ = [&](SessionNumber) { watch_.stop(); };
    run();
    EXPECT_EQ(told_.size(), 1U) << "no call comes after stop";
    EXPECT_TRUE(io_.stopped()) << "nothing is left to wait for";
}

TEST_F(ProcessWatchTest, WhatCannotBeWatchedIsSaid) { EXPECT_THROW(watch_.add(-1, {1}), boost::system::system_error); }

}  // namespace
}  // namespace hurrayd
