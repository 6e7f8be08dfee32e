// Many threads on one client: who reads the socket changes all the time, and nothing may be lost, doubled or mixed up.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include "tests/integration/client_test.hpp"

namespace hurray::test {
namespace {

class Concurrency : public ClientTest {
  protected:
    static constexpr int kThreads = 8;
    static int rounds() { return test::rounds(300); }
    static void run_threads(const std::function<void(int)>& body) {
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back(body, i);
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
};

TEST_F(Concurrency, EachThreadGetsItsOwnReplies) {
    Client client = connect();
    run_threads([&](int i) {
        const std::string name = "own/" + std::to_string(i);
        for (int round = 0; round < rounds(); ++round) {
            const auto stamp = static_cast<std::uint32_t>(i * 1'000'000 + round);
            publish(client, name, 1 + static_cast<std::uint64_t>(round % 3), stamp);
            const Tensor tensor = client.attach(name);
            ASSERT_EQ(tensor.elements<std::uint32_t>()[0], stamp);
            ASSERT_EQ(tensor.name(), name);
        }
    });
    EXPECT_EQ(client.list().size(), static_cast<std::size_t>(kThreads));
    EXPECT_EQ(used(client, "leases"), 0U);
}

TEST_F(Concurrency, EveryReleaseAndEveryEndIsToldOnceWhoeverReads) {
    Client client = connect();
    std::atomic<int> released{0};
    std::atomic<int> ended{0};
    std::atomic<int> wrong{0};
    run_threads([&](int i) {
        const std::string name = "counted/" + std::to_string(i);
        for (int round = 0; round < rounds(); ++round) {
            PublishOptions options;
            options.on_event = [&](const Event& event) {
                released += event.kind == HURRAY_EVENT_LEASE_RELEASED ? 1 : 0;
                ended += event.kind == HURRAY_EVENT_ENDED ? 1 : 0;
                wrong += event.kind == HURRAY_EVENT_LEASE_LOST ? 1 : 0;
            };
            const CapsuleInfo info = publish(client, name, 1, 1, std::move(options));
            client.attach(name).release();
            client.withdraw(info.capsule);
        }
    });
    const int expected = kThreads * rounds();
    const auto barks = std::chrono::steady_clock::now() + kWatchdog;
    while (ended < expected && std::chrono::steady_clock::now() < barks) {
        client.list();
    }
    EXPECT_EQ(released, expected);
    EXPECT_EQ(ended, expected);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(used(client, "capsules"), 0U);
}

TEST_F(Concurrency, ThreadsPublishIntoOneGroupAndEachCapsuleLearnsItsOwnVersion) {
    Client producer = connect();
    Client consumer = connect();
    for (int round = 0; round < rounds() / 10; ++round) {
        Group group = producer.begin_group();
        std::vector<CapsuleId> capsules(kThreads);
        run_threads([&](int i) {
            PublishOptions options;
            options.group = group.number();
            const auto stamp = static_cast<std::uint32_t>(round * kThreads + i);
            capsules[static_cast<std::size_t>(i)] =
                publish(producer, "shared/" + std::to_string(i), 1, stamp, std::move(options)).capsule;
        });
        std::thread other([&] { consumer.list("shared/"); });
        group.commit();
        other.join();
        for (int i = 0; i < kThreads; ++i) {
            const Tensor tensor = consumer.attach("shared/" + std::to_string(i));
            ASSERT_EQ(tensor.elements<std::uint32_t>()[0], static_cast<std::uint32_t>(round * kThreads + i));
            ASSERT_EQ(producer.published(capsules[static_cast<std::size_t>(i)]).version, tensor.info().version);
        }
    }
}

// A publish that meets the end of its group is in it or refused, and nothing is left of either.
TEST_F(Concurrency, GroupsAreEndedWhileOthersPublishIntoThem) {
    Client producer = connect();
    EventLog log;
    std::atomic<std::size_t> published{0};
    for (int round = 0; round < rounds() / 10; ++round) {
        Group group = producer.begin_group();
        PublishOptions options;
        options.group = group.number();
        options.on_event = log.sink();
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&, i] {
                const HurrayStatus status =
                    status_of([&] { publish(producer, "met/" + std::to_string(i), 1, 1, options); });
                EXPECT_TRUE(status == HURRAY_OK || status == HURRAY_ERR_NOT_FOUND) << status;
                published += status == HURRAY_OK ? 1 : 0;
            });
        }
        if (round % 2 == 0) {
            group.commit();
        } else {
            group.abort();
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    EXPECT_EQ(used(producer, "staged"), 0U);
    for (const CapsuleInfo& left : producer.list("met/")) {
        producer.withdraw(left.capsule);
    }
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_ENDED, published));
    EXPECT_EQ(log.count(HURRAY_EVENT_ENDED), published);
    EXPECT_EQ(used(producer, "capsules"), 0U);
}

TEST_F(Concurrency, ContextsAreDestroyedByWhicheverThread) {
    Client producer = connect();
    Client consumer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "shared", 100, 5, std::move(options));
    std::vector<Tensor> tensors;
    const int each = rounds();
    for (int i = 0; i < kThreads * each; ++i) {
        tensors.push_back(consumer.attach("shared"));
    }
    run_threads([&](int i) {
        for (int k = 0; k < each; ++k) {
            tensors[static_cast<std::size_t>(i * each + k)].release();
        }
    });
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, tensors.size()));
    EXPECT_EQ(used(producer, "leases"), 0U);
}

TEST_F(Concurrency, WaitersSleepBesideABusyReaderAndAllWake) {
    Client client = connect();
    Client producer = connect();
    std::atomic<int> served{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < kThreads; ++i) {
        waiters.emplace_back([&, i] {
            std::uint64_t last = 0;
            for (int round = 0; round < 20; ++round) {
                AttachOptions options;
                options.timeout = kForever;
                options.newer_than = last;
                const Tensor tensor = client.attach("wait/" + std::to_string(i), options);
                last = tensor.info().version;
                ++served;
            }
        });
    }
    std::minstd_rand random(4711);
    while (served < kThreads * 20) {
        publish(producer, "wait/" + std::to_string(random() % kThreads), 1, 1);
        client.list();
    }
    for (std::thread& waiter : waiters) {
        waiter.join();
    }
    EXPECT_EQ(used(producer, "waiting"), 0U);
}

TEST_F(Concurrency, ClientsComeAndGoWhileTheirContextsLiveOn) {
    Client producer = connect();
    EventLog log;
    PublishOptions options;
    options.on_event = log.sink();
    publish(producer, "guest", 10, 3, std::move(options));
    const int each = std::max(rounds() / 10, 5);
    run_threads([&](int) {
        for (int k = 0; k < each; ++k) {
            std::optional<Tensor> tensor;
            {
                Client guest = connect();
                tensor = guest.attach("guest");
            }
            ASSERT_EQ(tensor->elements<std::uint32_t>()[9], 12U);
        }
    });
    EXPECT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED, static_cast<std::size_t>(kThreads * each)));
    EXPECT_EQ(log.count(HURRAY_EVENT_LEASE_LOST), 0U);
}

// Seven threads ask, attach, watch and publish; the eighth only polls. It learns of every event, also of the last ones, when no
// call comes any more that would bring them along.
TEST_F(Concurrency, ProgramThatPollsIsToldOfEveryEventWhicheverThreadHasReadIt) {
    Client client = connect(true);
    std::atomic<int> opened{0};
    std::atomic<int> released{0};
    std::atomic<int> ended{0};
    constexpr int kWorkers = kThreads - 1;
    const int expected = kWorkers * rounds();
    std::thread poller([&] {
        pollfd ready{client.poll_fd(), POLLIN, 0};
        while (ended < expected) {
            ASSERT_EQ(::poll(&ready, 1, 60'000), 1) << ended << " of " << expected << " ends were told";
            client.dispatch();
        }
    });
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i) {
        workers.emplace_back([&, i] {
            const std::string name = "polled/" + std::to_string(i);
            for (int round = 0; round < rounds(); ++round) {
                PublishOptions options;
                options.tell_opened = true;
                options.on_event = [&](const Event& event) {
                    opened += event.kind == HURRAY_EVENT_LEASE_OPENED ? 1 : 0;
                    released += event.kind == HURRAY_EVENT_LEASE_RELEASED ? 1 : 0;
                    ended += event.kind == HURRAY_EVENT_ENDED ? 1 : 0;
                };
                const auto stamp = static_cast<std::uint32_t>(i * 1'000'000 + round);
                const CapsuleInfo info = publish(client, name, 4, stamp, std::move(options));
                Tensor tensor = client.attach(name);
                ASSERT_EQ(tensor.elements<std::uint32_t>()[3], stamp + 3);
                if ((i + round) % 4 == 0) {
                    const Watch watch = client.watch(name, [](const Event&) {});
                    client.list(name);
                }
                client.withdraw(info.capsule);
                tensor.release();
            }
        });
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    poller.join();
    EXPECT_EQ(opened, expected);
    EXPECT_EQ(released, expected);
    EXPECT_EQ(ended, expected);
    EXPECT_EQ(used(client, "capsules"), 0U);
}

// Whatever its threads are in - reading, asleep until it is their turn, about to ask - a close ends it, and whoever pumps learns of it.
TEST_F(Concurrency, ClientIsClosedUnderThreadsThatWaitAskAndPoll) {
    Client producer = connect();
    publish(producer, "base", 4, 1);
    for (int round = 0; round < std::max(rounds() / 5, 10); ++round) {
        const bool by_caller = round % 2 == 0;
        Client client = connect(by_caller);
        std::atomic<int> busy{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads - 1; ++i) {
            threads.emplace_back([&, i] {
                ++busy;
                HurrayStatus status = HURRAY_OK;
                for (int k = 0; status == HURRAY_OK; ++k) {
                    status = status_of([&] {
                        switch ((i + k) % 4) {
                            case 0:
                                client.attach("base").release();
                                break;
                            case 1:
                                client.list();
                                break;
                            case 2:
                                publish(client, "mine/" + std::to_string(i), 1, 1, {});
                                break;
                            default: {
                                AttachOptions options;
                                options.timeout = k > 4 ? kForever : 1ms;
                                if (status_of([&] { client.attach("never", options); }) == HURRAY_ERR_CLOSED) {
                                    throw StatusError(HURRAY_ERR_CLOSED, "while it waited");
                                }
                            }
                        }
                    });
                }
                EXPECT_EQ(status, HURRAY_ERR_CLOSED);
            });
        }
        if (by_caller) {
            threads.emplace_back([&] {
                ++busy;
                pollfd ready{client.poll_fd(), POLLIN, 0};
                HurrayStatus status = HURRAY_OK;
                while (status == HURRAY_OK) {
                    ASSERT_EQ(::poll(&ready, 1, 60'000), 1) << "it is never told of the close";
                    status = status_of([&] { client.dispatch(); });
                }
                EXPECT_EQ(status, HURRAY_ERR_CLOSED);
            });
        }
        while (busy < static_cast<int>(threads.size())) {
            std::this_thread::yield();
        }
        for (int k = 0; k < round % 20; ++k) {
            producer.list();  // some time for them to get somewhere
        }
        client.close();
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    while (used(producer, "leases") != 0 || used(producer, "waiting") != 0 || used(producer, "capsules") != 1) {
        std::this_thread::yield();
    }
}

TEST_F(Concurrency, EverythingAtOnceWithSignalsInBetweenEndsInOrder) {
    Client producer = connect();
    publish(producer, "base", 8, 1);
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    ConnectOptions options;
    options.address = daemon_.socket_path();
    options.dispatch_by_caller = true;
    std::atomic<int> asked{0};
    std::atomic<bool> is_connected{false};
    options.interrupted = [&] { return is_connected && ++asked % 3 == 0; };
    Client client = Client::connect(std::move(options));
    is_connected = true;
    std::atomic<bool> stop{false};
    std::thread dispatcher([&] {
        while (!stop) {
            status_of([&] { client.dispatch(20ms); });
        }
    });
    std::vector<std::thread> workers;
    for (int i = 0; i < 7; ++i) {
        workers.emplace_back([&, i] {
            for (int round = 0; round < rounds(); ++round) {
                status_of([&] {
                    switch ((i + round) % 7) {
                        case 0: {
                            PublishOptions publish_options;
                            publish_options.tell_opened = true;
                            publish_options.on_event = [&](const Event& event) {
                                if (event.kind == HURRAY_EVENT_LEASE_OPENED) {
                                    status_of([&] { client.list("nothing"); });
                                }
                            };
                            publish(client, "s/" + std::to_string(i), 2, 7, std::move(publish_options));
                            break;
                        }
                        case 1:
                            client.attach("base").release();
                            break;
                        case 2: {
                            AttachOptions attach;
                            attach.timeout = 5ms;
                            client.attach("never", attach);
                            break;
                        }
                        case 3: {
                            auto slot = std::make_shared<std::optional<Watch>>();
                            std::atomic<bool> seen{false};
                            slot->emplace(client.watch("s/", [&](const Event&) { seen = true; }));
                            client.list();
                            slot->reset();
                            break;
                        }
                        case 4:
                            client.attach("s/" + std::to_string(round % 7)).release();
                            break;
                        case 5: {
                            std::optional<Tensor> tensor;
                            {
                                Client guest = connect(round % 2 == 0);
                                tensor = guest.attach("base");
                            }
                            break;
                        }
                        default:
                            client.status();
                    }
                });
            }
        });
    }
    std::atomic<bool> done{false};
    std::thread interrupter([&] {
        while (!done) {
            for (auto& worker : workers) {
                ::pthread_kill(worker.native_handle(), SIGUSR1);
            }
            ::pthread_kill(dispatcher.native_handle(), SIGUSR1);
            std::this_thread::sleep_for(2ms);
        }
    });
    // Joined only once the interrupter is gone, so that it signals living threads.
    std::this_thread::sleep_for(std::chrono::milliseconds(rounds() * 5));
    done = true;
    interrupter.join();
    for (auto& worker : workers) {
        worker.join();
    }
    stop = true;
    dispatcher.join();
    client.close();
    while (used(producer, "leases") != 0 || used(producer, "waiting") != 0) {
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_GT(asked, 0);
}

}  // namespace
}  // namespace hurray::test
