// Work queues: what is published once goes to one taker, whoever is killed when.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <semaphore>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/codec.hpp"
#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/mortal_daemon.hpp"
#include "tests/support/puppet_daemon.hpp"
#include "tests/support/raw_peer.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/test_tensor.hpp"

namespace hurray::test {
namespace {

PublishOptions once(EventFunction on_event = {}) {
    PublishOptions options;
    options.on_event = std::move(on_event);
    options.once = true;
    return options;
}

AttachOptions wait_for(std::chrono::milliseconds timeout) {
    AttachOptions options;
    options.timeout = timeout;
    return options;
}

class ClientTake : public ClientTest {};

TEST_F(ClientTake, TheOldestIsTakenAndItsProducerIsTold) {
    Client producer = connect();
    Client taker = connect();
    EventLog log;
    publish(producer, "jobs", 1, 1, once(log.sink()));
    publish(producer, "jobs", 1, 2, once());
    Tensor first = taker.take("jobs");
    EXPECT_EQ(first.elements<std::uint32_t>()[0], 1U);
    EXPECT_TRUE(first.info().once);
    EXPECT_EQ(taker.take("jobs").elements<std::uint32_t>()[0], 2U);
    EXPECT_EQ(status_of([&] { taker.take("jobs"); }), HURRAY_ERR_NOT_FOUND);
    first.release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.kinds(),
              (std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_TAKEN, HURRAY_EVENT_LEASE_RELEASED, HURRAY_EVENT_ENDED}));
    EXPECT_EQ(log.all()[0].event.remaining, 1U);
    EXPECT_TRUE(log.all()[2].event.reusable);
}

TEST_F(ClientTake, WhatIsTakenIsNotAttachedAndTheOtherWayRound) {
    Client client = connect();
    const CapsuleInfo job = publish(client, "jobs", 1, 1, once());
    const CapsuleInfo plain = publish(client, "plain", 1, 1);
    EXPECT_EQ(status_of([&] { client.attach("jobs"); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(status_of([&] { client.take("plain"); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(status_of([&] { client.take(plain.capsule); }), HURRAY_ERR_UNSUPPORTED);
    EXPECT_EQ(status_of([&] { publish(client, "jobs", 1, 1); }), HURRAY_ERR_ALREADY_EXISTS);
    EXPECT_EQ(status_of([&] { publish(client, "plain", 1, 1, once()); }), HURRAY_ERR_ALREADY_EXISTS);
    AttachOptions of_a_version;
    of_a_version.version = job.version;
    EXPECT_EQ(status_of([&] { client.take("jobs", of_a_version); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(client.take(job.capsule).info().version, job.version);
}

TEST_F(ClientTake, ListSaysWhatIsQueuedAndWhatIsTaken) {
    Client client = connect();
    const CapsuleInfo job = publish(client, "jobs", 1, 1, once());
    EXPECT_TRUE(client.published(job.capsule).once);
    ASSERT_EQ(client.list("jobs").size(), 1U);
    EXPECT_TRUE(client.list("jobs")[0].once);
    EXPECT_FALSE(client.list("jobs")[0].retired);
    EXPECT_EQ(used(client, "queued"), 1U);
    const Tensor taken = client.take("jobs");
    EXPECT_TRUE(client.list("jobs")[0].retired);
    EXPECT_TRUE(client.published(job.capsule).retired);
    EXPECT_EQ(used(client, "queued"), 0U);
}

TEST_F(ClientTake, RetainKeepsOlderVersionsAttachable) {
    Client client = connect();
    PublishOptions retain;
    retain.retain = 2;
    const CapsuleInfo first = publish(client, "model", 1, 1, std::move(retain));
    retain.retain = 2;
    publish(client, "model", 1, 2, std::move(retain));
    AttachOptions of_first;
    of_first.version = first.version;
    EXPECT_EQ(client.attach("model", of_first).elements<std::uint32_t>()[0], 1U);
    AttachOptions newer;
    newer.newer_than = first.version;
    EXPECT_EQ(client.attach("model", newer).elements<std::uint32_t>()[0], 2U);
    publish(client, "model", 1, 3);
    EXPECT_EQ(status_of([&] { client.attach("model", of_first); }), HURRAY_ERR_NOT_FOUND);
    PublishOptions too_many;
    too_many.retain = 4097;
    std::string message;
    EXPECT_EQ(status_of([&] { publish(client, "model", 1, 4, std::move(too_many)); }, &message), HURRAY_ERR_LIMIT);
    EXPECT_NE(message.find("options->retain is 4097; at most 4096"), std::string::npos) << message;
}

TEST_F(ClientTake, AWaitThatWasGivenUpTakesNothing) {
    Client producer = connect();
    Client taker = connect();
    EXPECT_EQ(status_of([&] { taker.take("jobs", wait_for(1ms)); }), HURRAY_ERR_TIMED_OUT);
    std::thread waiting(
        [&] { EXPECT_EQ(status_of([&] { taker.take("jobs", wait_for(kForever)); }), HURRAY_ERR_CLOSED); });
    while (used(producer, "waiting") != 1) {
        std::this_thread::yield();
    }
    taker.close();
    waiting.join();
    publish(producer, "jobs", 1, 7, once());
    EXPECT_EQ(producer.take("jobs").elements<std::uint32_t>()[0], 7U);
}

TEST_F(ClientTake, ManyThreadsOfOneClientGetEachJobOnce) {
    constexpr int kThreads = 4;
    const int jobs = rounds(200);
    Client producer = connect();
    Client taker = connect();
    EventLog log;
    std::atomic<int> left{jobs};
    std::array<std::vector<std::uint32_t>, kThreads> got;
    std::vector<std::thread> threads;
    for (auto& mine : got) {
        threads.emplace_back([&] {
            while (left.fetch_sub(1) > 0) {
                mine.push_back(taker.take("jobs", wait_for(kForever)).elements<std::uint32_t>()[0]);
            }
        });
    }
    for (int i = 0; i < jobs; ++i) {
        publish(producer, "jobs", 1, static_cast<std::uint32_t>(i), once(log.sink()));
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::set<std::uint32_t> all;
    for (const auto& mine : got) {
        EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));  // each got the oldest there was
        all.insert(mine.begin(), mine.end());
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(jobs));
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, static_cast<std::size_t>(jobs)));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_TAKEN), static_cast<std::size_t>(jobs));
}

TEST_F(ClientTake, EachJobIsHadByOneHoweverClosingAndTakingMeet) {
    Client producer = connect();
    for (int round = 0; round < rounds(200); ++round) {
        Client taker = connect();
        HurrayStatus status = HURRAY_OK;
        std::thread taking([&] { status = status_of([&] { taker.take("jobs", wait_for(kForever)); }); });
        while (used(producer, "waiting") != 1) {
            std::this_thread::yield();
        }
        publish(producer, "jobs", 1, 1, once());
        std::this_thread::sleep_for(std::chrono::microseconds(round % 40 * 5));  // any moment is right to be closed
        taker.close();
        taking.join();
        if (status != HURRAY_OK) {
            EXPECT_EQ(status, HURRAY_ERR_CLOSED);
            EXPECT_EQ(status_of([&] { producer.take("jobs", wait_for(kWatchdog)); }), HURRAY_OK) << "round " << round;
        }
        EXPECT_EQ(status_of([&] { producer.take("jobs"); }), HURRAY_ERR_NOT_FOUND);
    }
}

// What was granted when its taker was closed was given back like what can't be used: after the third time the job ended.
TEST_F(ClientTake, TakersThatAreClosedWhileTheyMapEndNoJob) {
    Client producer = connect();
    EventLog log;
    PublishOptions options = once(log.sink());
    options.tell_opened = true;
    publish(producer, "jobs", 16U << 20U, 1, std::move(options));  // so large that mapping all of it takes a while
    HurrayStatus status = HURRAY_ERR_CLOSED;
    for (std::size_t grant = 1; grant <= 3 && status == HURRAY_ERR_CLOSED; ++grant) {
        Client taker = connect();
        std::thread taking([&] {
            AttachOptions attach = wait_for(kWatchdog);
            attach.populate = Populate::Yes;
            status = status_of([&] { taker.take("jobs", attach); });
        });
        EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_OPENED, grant));
        std::this_thread::sleep_for(std::chrono::microseconds(grant * 200));  // most often it is at it then
        taker.close();
        taking.join();
    }
    if (status == HURRAY_ERR_CLOSED) {  // each time before it had read the grant
        status = status_of([&] { producer.take("jobs", wait_for(kWatchdog)); });
    }
    ASSERT_EQ(status, HURRAY_OK);
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_TAKEN));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
}

// ---- Confirms that are refused, or not answered -----------------------------------------------------------------------

using State = wire::Claims::State;

class ClientConfirm : public ::testing::Test {
  protected:
    /// Takes from a daemon that answers confirms so, one after the other, and all else well.
    void take(const std::vector<PuppetDaemon::Answers>& confirms) {
        std::size_t next = 0;
        daemon_.emplace([&, next](const wire::Request& request) mutable -> PuppetDaemon::Answers {
            if (std::holds_alternative<wire::Attach>(request.message)) {
                return {PuppetDaemon::grant()};
            }
            const auto* claims = std::get_if<wire::Claims>(&request.message);
            if (std::holds_alternative<wire::Confirm>(request.message) ||
                (claims != nullptr && claims->claims.at(0).state == State::Confirmed)) {
                return confirms.at(next++);
            }
            return {wire::Done{}};
        });
        {
            ConnectOptions options;
            options.address = daemon_->path();
            Client client = Client::connect(std::move(options));
            const Tensor taken = client.take("jobs", wait_for(kWatchdog));
            EXPECT_EQ(taken.name(), "jobs");
            EXPECT_EQ(taken.state(), HURRAY_OK);
        }
        daemon_->join();
    }
    /// The leases of a life of before that it has claimed, as which.
    [[nodiscard]] std::vector<std::pair<std::uint64_t, State>> claimed() const {
        std::vector<std::pair<std::uint64_t, State>> found;
        for (const wire::Claims& claims : daemon_->asked<wire::Claims>()) {
            for (const wire::Claims::Claim& claim : claims.claims) {
                found.emplace_back(claim.lease, claim.state);
            }
        }
        return found;
    }

    std::optional<PuppetDaemon> daemon_;
};

TEST_F(ClientConfirm, ARefusedOneLetsTheTakeGoOnUnderANewLease) {
    take({{Error{Errc::ProducerLost, "gone"}}, {wire::Done{}}});
    const auto attached = daemon_->asked<wire::Attach>();
    const auto confirmed = daemon_->asked<wire::Confirm>();
    ASSERT_EQ(attached.size(), 2U);
    ASSERT_EQ(confirmed.size(), 2U);
    EXPECT_TRUE(attached[0].take);
    EXPECT_LT(attached[0].lease, attached[1].lease);
    EXPECT_EQ(confirmed[0].lease, attached[0].lease);
    EXPECT_EQ(confirmed[1].lease, attached[1].lease);
}

TEST_F(ClientConfirm, OneThatTheDaemonDiedOverIsRepeatedToTheNextOne) {  // confirm_repeated
    take({{}, {wire::Done{}}});
    ASSERT_EQ(daemon_->asked<wire::Attach>().size(), 1U);
    const std::uint64_t lease = daemon_->asked<wire::Attach>()[0].lease;
    // Not as one that is held, before it is confirmed.
    EXPECT_EQ(claimed(), (std::vector{std::pair(lease, State::Confirmed)}));
}

TEST_F(ClientConfirm, OneThatTwoDaemonsDiedOverIsRepeatedToTheThird) {  // confirm_repeated
    take({{}, {}, {wire::Done{}}});
    const std::uint64_t lease = daemon_->asked<wire::Attach>().at(0).lease;
    EXPECT_EQ(claimed(), (std::vector{std::pair(lease, State::Confirmed), std::pair(lease, State::Confirmed)}));
}

TEST_F(ClientConfirm, OneThatTheNextDaemonRefusesLetsTheTakeGoOn) {  // confirm_refused_at_end
    take({{}, {wire::ClaimsRefused{{1}}, wire::Done{}}, {wire::Done{}}});
    const auto attached = daemon_->asked<wire::Attach>();
    ASSERT_EQ(attached.size(), 2U);
    EXPECT_EQ(attached[0].lease, 1U);
    EXPECT_GT(attached[1].lease, 1U);
}

// The daemon ends its window with the last ResumeDone, if all names are back: a confirm that came after it was refused, and its job lost.
TEST_F(ClientConfirm, IsRepeatedBeforeTheDaemonIsToldThatAllIsSaid) {  // confirm_repeated
    PuppetDaemon daemon([died = false](const wire::Request& request) mutable -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::Confirm>(request.message) && !std::exchange(died, true)) {
            return {};
        }
        return {wire::Done{}};
    });
    {
        EventLog log;
        ConnectOptions options;
        options.address = daemon.path();
        options.on_event = log.sink();
        Client client = Client::connect(std::move(options));
        EXPECT_EQ(client.take("jobs").state(), HURRAY_OK);
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2));
    }
    daemon.join();
    std::vector<std::string> said;
    for (const wire::Request& request : daemon.requests) {
        if (const auto* claims = std::get_if<wire::Claims>(&request.message)) {
            EXPECT_EQ(claims->claims.at(0).state, State::Confirmed);
            said.emplace_back("Claims");
        } else if (std::holds_alternative<wire::ResumeDone>(request.message)) {
            said.emplace_back("ResumeDone");
        }
    }
    EXPECT_EQ(said, (std::vector<std::string>{"Claims", "ResumeDone"}));
}

TEST_F(ClientConfirm, WhatIsConfirmedIsHeldOverTheNextDeath) {  // take_returns_late, held_claimed
    std::atomic<bool> dies{false};
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::List>(request.message) && dies.exchange(false)) {
            return {};
        }
        return {wire::Done{}};
    });
    {
        EventLog log;
        ConnectOptions options;
        options.address = daemon.path();
        options.on_event = log.sink();
        Client client = Client::connect(std::move(options));
        const Tensor taken = client.take("jobs");
        dies = true;
        EXPECT_EQ(status_of([&] { client.list(); }), HURRAY_ERR_CONNECTION_LOST);
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2));
        EXPECT_EQ(taken.state(), HURRAY_OK);
    }
    daemon.join();
    const auto claims = daemon.asked<wire::Claims>();
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_EQ(claims[0].claims.at(0).state, State::Held);
    EXPECT_EQ(daemon.asked<wire::Confirm>().size(), 1U);
}

// A job that was confirmed was given back by a close: it counted as done, and nobody had had it.
TEST_F(ClientConfirm, OneThatIsOnItsWayIsWaitedForThoughItsClientIsClosed) {
    std::binary_semaphore asked{0};
    std::binary_semaphore is_closed{0};
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::Confirm>(request.message)) {
            asked.release();
            is_closed.acquire();
        }
        return {wire::Done{}};
    });
    {
        ConnectOptions options;
        options.address = daemon.path();
        Client client = Client::connect(std::move(options));
        std::thread closer([&] {
            asked.acquire();
            client.close();
            is_closed.release();
        });
        const Tensor taken = client.take("jobs", wait_for(kWatchdog));
        closer.join();
        EXPECT_EQ(taken.state(), HURRAY_OK);
        EXPECT_EQ(status_of([&] { client.take("jobs"); }), HURRAY_ERR_CLOSED);
    }
    daemon.join();
    EXPECT_TRUE(daemon.asked<wire::Cancel>().empty());
    ASSERT_EQ(daemon.asked<wire::Release>().size(), 1U);
    EXPECT_EQ(daemon.asked<wire::Release>()[0].leases, (std::vector{daemon.asked<wire::Confirm>().at(0).lease}));
}

// It was told to the next daemon as released: the producer of a job that the first one had told as taken took it for done.
TEST_F(ClientConfirm, OneThatIsGivenUpWhileTheDaemonIsAwayIsNotSaidToBeReleased) {
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::Confirm>(request.message)) {
            std::filesystem::rename(daemon.path(), daemon.path() + ".away");
            return {};
        }
        return {wire::Done{}};
    });
    {
        EventLog log;
        ConnectOptions options;
        options.address = daemon.path();
        options.on_event = log.sink();
        options.interrupted = [] { return true; };
        Client client = Client::connect(std::move(options));
        EXPECT_EQ(status_of([&] { client.take("jobs", wait_for(kForever)); }), HURRAY_ERR_INTERRUPTED);
        std::filesystem::rename(daemon.path() + ".away", daemon.path());
        ASSERT_TRUE(log.wait_for(HURRAY_EVENT_CONNECTION, 2));
    }
    daemon.join();
    EXPECT_TRUE(daemon.asked<wire::Claims>().empty());
    EXPECT_TRUE(daemon.asked<wire::Release>().empty());
}

// The daemon must see the connection's end: a release would say that the job is done.
TEST_F(ClientConfirm, OneThatIsNotAnsweredAfterACloseEndsTheConnectionAndReleasesNothing) {
    std::binary_semaphore asked{0};
    std::binary_semaphore is_over{0};
    PuppetDaemon daemon([&](const wire::Request& request) -> PuppetDaemon::Answers {
        if (std::holds_alternative<wire::Attach>(request.message)) {
            return {PuppetDaemon::grant()};
        }
        if (std::holds_alternative<wire::Confirm>(request.message)) {
            asked.release();
            is_over.acquire();
        }
        return {wire::Done{}};
    });
    {
        ConnectOptions options;
        options.address = daemon.path();
        Client client = Client::connect(std::move(options));
        std::thread closer([&] {
            asked.acquire();
            client.close();
        });
        EXPECT_EQ(status_of([&] { client.take("jobs", wait_for(kForever)); }), HURRAY_ERR_CONNECTION_LOST);
        closer.join();
    }
    is_over.release();
    daemon.join();
    EXPECT_TRUE(daemon.asked<wire::Release>().empty());
}

// ---- A daemon that is killed ------------------------------------------------------------------------------------------

TEST(ClientTakeOverDeaths, EachJobIsTakenOnceHoweverOftenTheDaemonDies) {
    constexpr std::uint32_t kProducers = 2;
    constexpr std::uint32_t kJobs = 60;
    const TemporaryDirectory directory;
    const std::string config = directory / "hurrayd.toml";
    std::ofstream(config) << "[resume]\nwindow = 2\n";
    MortalDaemon mortal({.arguments = {"--config", config}, .environment = {}, .descriptor_limit = {}});
    const auto connect = [&] {
        ConnectOptions options;
        options.address = mortal.socket_path();
        return Client::connect(std::move(options));
    };

    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::map<std::uint32_t, int> taken;
    std::vector<std::thread> takers;
    for (int i = 0; i < 3; ++i) {
        takers.emplace_back([&, client = connect()]() mutable {
            while (!stop) {
                const HurrayStatus status = status_of([&] {
                    const Tensor job = client.take("jobs", wait_for(100ms));
                    std::this_thread::sleep_for(20ms);  // at work, so that some wait in the queue
                    const std::lock_guard lock(mutex);
                    ++taken[job.elements<std::uint32_t>()[0]];
                });
                EXPECT_TRUE(status == HURRAY_OK || status == HURRAY_ERR_TIMED_OUT ||
                            status == HURRAY_ERR_CONNECTION_LOST)
                    << status;
            }
        });
    }
    std::array<EventLog, kProducers> logs;
    std::vector<std::thread> producers;
    for (std::uint32_t p = 0; p < kProducers; ++p) {
        producers.emplace_back([&, p, client = connect()]() mutable {
            for (std::uint32_t i = 0; i < kJobs; ++i) {
                Allocation allocation = client.allocate<std::uint32_t>({1});
                allocation.elements<std::uint32_t>()[0] = p * kJobs + i;
                PublishOptions options = once(logs[p].sink());
                options.timeout = kWatchdog;
                client.publish("jobs", std::move(allocation), std::move(options));
                std::this_thread::sleep_for(10ms);  // any moment is right to be killed
            }
            EXPECT_TRUE(logs[p].wait_for(HURRAY_EVENT_ENDED, kJobs));
        });
    }
    std::minstd_rand random(20261130);
    for (int death = rounds(3); death > 0; --death) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
        mortal.restart();
    }
    for (std::thread& producer : producers) {
        producer.join();
    }
    stop = true;
    for (std::thread& taker : takers) {
        taker.join();
    }
    EXPECT_EQ(taken.size(), std::size_t{kProducers} * kJobs);
    for (const auto& [job, times] : taken) {
        EXPECT_EQ(times, 1) << "job " << job;
    }
    for (const EventLog& log : logs) {
        EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_TAKEN), kJobs);
        EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), kJobs);
    }
}

// ---- Processes that are killed --------------------------------------------------------------------------------------

/// A forked process that ends when `work` is done, well if that throws nothing. For programs without threads.
pid_t spawn(const std::function<void()>& work) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            work();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
            ::_exit(1);
        }
        ::_exit(0);
    }
    return pid;
}

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            throw std::runtime_error("pipe2");
        }
        read_end = UniqueFd(ends[0]);
        write_end = UniqueFd(ends[1]);
    }
    /// In one piece, since it is short.
    template <class T>
    void put(const T& what) const {
        if (::write(write_end.get(), &what, sizeof what) != sizeof what) {
            throw std::runtime_error("write");
        }
    }
    /// False once nobody can write any more.
    template <class T>
    bool get(T& what) const {
        return ::read(read_end.get(), &what, sizeof what) == sizeof what;
    }
    UniqueFd read_end;
    UniqueFd write_end;
};

/// How a job ended, as its producer was told.
struct Fate {
    std::uint32_t job = 0;
    std::uint32_t taken = 0;
    std::uint32_t lost = 0;
    std::uint32_t ended = 0;
};

/// A taker that dies of SIGKILL: after the grant, while it confirms, or after the confirm.
enum class Death : std::uint8_t { BeforeConfirm, Meanwhile, Afterwards };

class TakersThatDie : public ::testing::Test {
  protected:
    Client connect() const {
        ConnectOptions options;
        options.address = daemon_.socket_path();
        return Client::connect(std::move(options));
    }

    /// Publishes jobs, and tells of each one's fate when all have ended.
    void produce(std::uint32_t first, std::uint32_t count, const Pipe& fates) const {
        Client client = connect();
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<Fate> told(count);
        std::uint32_t ended = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            Allocation allocation = client.allocate<std::uint32_t>({1});
            allocation.elements<std::uint32_t>()[0] = told[i].job = first + i;
            client.publish("jobs", std::move(allocation), once([&, i](const Event& event) {
                               const std::lock_guard lock(mutex);
                               told[i].taken += event.kind == HURRAY_EVENT_LEASE_TAKEN ? 1 : 0;
                               told[i].lost += event.kind == HURRAY_EVENT_LEASE_LOST ? 1 : 0;
                               told[i].ended += event.kind == HURRAY_EVENT_ENDED ? 1 : 0;
                               ended += event.kind == HURRAY_EVENT_ENDED ? 1 : 0;
                               changed.notify_all();
                           }));
        }
        std::unique_lock lock(mutex);
        if (!changed.wait_for(lock, kWatchdog, [&] { return ended == count; })) {
            throw std::runtime_error("jobs did not end");
        }
        for (const Fate& fate : told) {
            fates.put(fate);
        }
    }

    /// Takes jobs until it is killed, and tells which.
    void work(const Pipe& taken) const {
        Client client = connect();
        for (;;) {
            const Tensor job = client.take("jobs", wait_for(kForever));
            taken.put(job.elements<std::uint32_t>()[0]);
        }
    }

    /// Takes one job by hand, says so in `granted`, and stays until it is killed. What it is sure to have it tells in `taken`.
    void take_and_die(Death death, const Pipe& granted, const Pipe& taken) const {
        RawPeer peer = RawPeer::greeted(daemon_.socket_path());
        wire::Attach take{1, std::string("jobs")};
        take.take = true;
        const std::uint64_t request = peer.send(take, {}, 200);
        const Incoming incoming = peer.receive();
        const auto* grant = std::get_if<wire::AttachReply>(&incoming.packet.message);
        if (grant == nullptr || incoming.packet.request_id != request) {
            return;  // all are at work elsewhere
        }
        const auto job = [&] {
            std::uint32_t value = 0;
            const auto offset = static_cast<off_t>(grant->placements.at(0).offset);
            if (::pread(incoming.fds.at(0).get(), &value, sizeof value, offset) != sizeof value) {
                throw std::runtime_error("pread");
            }
            return value;
        };
        if (death == Death::BeforeConfirm) {
            granted.put('g');
        } else if (death == Death::Meanwhile) {
            peer.send(wire::Confirm{1});
            granted.put('g');
            (void)peer.receive();
        } else {
            (void)peer.call<wire::Done>(wire::Confirm{1});
            taken.put(job());
            granted.put('g');
        }
        for (;;) {
            ::pause();
        }
    }

    /// Runs one that dies. False: there was nothing to take.
    bool let_one_die(Death death, const Pipe& taken) const {
        Pipe granted;
        const pid_t pid = spawn([&] {
            granted.read_end.reset();
            take_and_die(death, granted, taken);
        });
        granted.write_end.reset();
        char got = 0;
        const bool was_granted = granted.get(got);
        ::kill(pid, SIGKILL);
        (void)wait_for_end(pid);
        return was_granted;
    }

    DaemonProcess daemon_;
};

TEST_F(TakersThatDie, NoJobIsLostAndNoneIsDoneTwice) {
    constexpr std::uint32_t kProducers = 3;
    constexpr int kWorkers = 3;
    const auto jobs = static_cast<std::uint32_t>(rounds(150));
    const int deaths = rounds(60);
    const std::uint32_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);

    Pipe taken;
    Pipe fates;
    ASSERT_EQ(::fcntl(taken.write_end.get(), F_SETPIPE_SZ, 1 << 16), 1 << 16);
    std::vector<pid_t> workers;
    std::vector<pid_t> producers;
    for (std::uint32_t i = 0; i < kProducers; ++i) {
        producers.push_back(spawn([&] { produce(1 + i * jobs, jobs, fates); }));
    }
    std::uint32_t uncertain = 0;  // whether they had confirmed, only the producer knows
    for (int i = 0; i < deaths; ++i) {
        const auto death = static_cast<Death>(random() % 3);
        const bool died = let_one_die(death, taken);
        uncertain += died && death == Death::Meanwhile ? 1 : 0;
        if (i % 20 == 0 && workers.size() < kWorkers) {
            workers.push_back(spawn([&] {
                fates.write_end.reset();  // it must end for the parent while this one lives
                work(taken);
            }));
        }
    }
    fates.write_end.reset();
    std::map<std::uint32_t, Fate> told;
    for (Fate fate; fates.get(fate);) {
        EXPECT_TRUE(told.emplace(fate.job, fate).second);
    }
    for (const pid_t producer : producers) {
        EXPECT_EQ(wait_for_end(producer), 0);
    }
    for (const pid_t worker : workers) {
        ::kill(worker, SIGKILL);
        (void)wait_for_end(worker);
    }
    taken.write_end.reset();
    std::set<std::uint32_t> got;
    for (std::uint32_t job = 0; taken.get(job);) {
        EXPECT_TRUE(got.insert(job).second) << "job " << job << " was taken twice";
    }

    ASSERT_EQ(told.size(), std::size_t{kProducers} * jobs);
    std::uint32_t unaccounted = 0;
    for (const auto& [job, fate] : told) {
        EXPECT_EQ(fate.ended, 1U) << "job " << job;
        EXPECT_TRUE(fate.taken == 1 || (fate.taken == 0 && fate.lost == 3)) << "job " << job << " was lost";
        EXPECT_TRUE(fate.taken == 1 || !got.contains(job)) << "job " << job;
        unaccounted += fate.taken == 1 && !got.contains(job) ? 1 : 0;
    }
    EXPECT_LE(unaccounted, uncertain);  // those who died before they could tell
    Client witness = connect();
    EXPECT_TRUE(witness.list("").empty());
}

TEST_F(TakersThatDie, WhatKillsThreeTakersIsLeftToNobody) {  // three_deliveries
    Pipe taken;
    RawPeer producer = RawPeer::greeted(daemon_.socket_path());
    TestTensor poison = make_tensor("jobs");
    poison.publish.once = true;
    producer.publish(poison);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(let_one_die(Death::BeforeConfirm, taken));
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(producer.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Opened);
        EXPECT_EQ(producer.next<wire::LeaseEvent>().what, wire::LeaseEvent::What::Lost);
    }
    EXPECT_FALSE(producer.next<wire::Ended>().reusable);
    EXPECT_FALSE(let_one_die(Death::BeforeConfirm, taken));
}

}  // namespace
}  // namespace hurray::test
