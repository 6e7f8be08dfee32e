// Tensors that outlive the programs that published them, while the daemon lives.
#include <csignal>
#include <optional>
#include <string>

#include <unistd.h>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"

namespace hurray::test {
namespace {

PublishOptions lingering(std::chrono::milliseconds linger = kForever, EventFunction on_event = {}) {
    PublishOptions options;
    options.on_event = std::move(on_event);
    options.linger = linger;
    return options;
}

class ClientLinger : public ClientTest {
  protected:
    /// The one capsule of that name, once the daemon has noticed that its producer is gone.
    static CapsuleInfo without_producer(const Client& client, const std::string& name) {
        for (;;) {
            const auto listed = client.list(name);
            if (listed.size() != 1 || listed[0].producer_gone) {
                return listed.empty() ? CapsuleInfo{} : listed[0];
            }
        }
    }
    static void wait_until_gone(const Client& client, const std::string& name) {
        while (!client.list(name).empty()) {
        }
    }
};

TEST_F(ClientLinger, StaysWhenItsProducerIsClosed) {
    std::optional<Client> producer = connect();
    Client consumer = connect();
    const CapsuleInfo published = publish(*producer, "model", 1000, 7, lingering());
    EXPECT_TRUE(published.lingering);
    EXPECT_TRUE(producer->published(published.capsule).lingering);
    publish(*producer, "plain", 1000, 8);
    std::optional<Tensor> before = consumer.attach("model");
    EXPECT_FALSE(consumer.list("model").at(0).producer_gone);
    producer.reset();
    const CapsuleInfo info = without_producer(consumer, "model");
    EXPECT_TRUE(info.lingering && info.producer_gone && !info.retired);
    EXPECT_EQ(info.expires, 0ms);
    EXPECT_EQ(before->state(), HURRAY_OK);
    EXPECT_EQ(first_of(consumer.attach("model")), 7U);
    EXPECT_EQ(status_of([&] { consumer.attach("plain"); }), HURRAY_ERR_NOT_FOUND);
    consumer.withdraw(info.capsule);
    EXPECT_EQ(status_of([&] { consumer.attach("model"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(first_of(*before), 7U);
    before.reset();
    wait_until_gone(consumer, "model");
    EXPECT_EQ(used(consumer, "bytes"), 0U);
}

TEST_F(ClientLinger, StaysWhenItsProducerIsKilled) {
    Child producer([&] {
        static std::optional<Client> client;  // lives on when this is done
        client = connect();
        publish(*client, "model", 1000, 7, lingering());
    });
    Client consumer = connect();
    const Tensor before = consumer.attach("model");
    producer.kill();
    without_producer(consumer, "model");
    EXPECT_EQ(before.state(), HURRAY_OK);
    EXPECT_EQ(first_of(before), 7U);
    EXPECT_EQ(first_of(consumer.attach("model")), 7U);
}

TEST_F(ClientLinger, ExpiresWhenItsProducerWasGoneForSoLong) {
    std::optional<Client> producer = connect();
    Client consumer = connect();
    publish(*producer, "short", 10, 1, lingering(1ms));
    publish(*producer, "long", 10, 2, lingering(std::chrono::hours(1)));
    const Tensor held = consumer.attach("short");
    producer.reset();
    const CapsuleInfo of_long = without_producer(consumer, "long");
    EXPECT_GT(of_long.expires, 0ms);
    EXPECT_LE(of_long.expires, std::chrono::hours(1));
    while (!consumer.list("short").at(0).retired) {
    }
    EXPECT_EQ(status_of([&] { consumer.attach("short"); }), HURRAY_ERR_NOT_FOUND);
    EXPECT_EQ(first_of(held), 1U);
}

TEST_F(ClientLinger, IsReplacedByTheNextProducer) {
    std::optional<Client> first = connect();
    Client second = connect();
    publish(*first, "model", 10, 1, lingering());
    first.reset();
    without_producer(second, "model");
    publish(second, "model", 10, 2);
    EXPECT_EQ(first_of(second.attach("model")), 2U);
    EXPECT_EQ(second.list("model").size(), 1U);
}

TEST_F(ClientLinger, WhoWasCutOffHasItAgainAndLearnsWhoLetGo) {
    EventLog connection;
    ConnectOptions options;
    options.address = daemon_.socket_path();
    options.on_event = connection.sink();
    Client producer = Client::connect(std::move(options));
    EventLog log;
    EventLog of_plain;
    PublishOptions plain;
    plain.on_event = of_plain.sink();
    const CapsuleInfo info = publish(producer, "model", 1000, 7, lingering(kForever, log.sink()));
    publish(producer, "plain", 1000, 7, std::move(plain));

    cut_off(daemon_.socket_path());
    ASSERT_TRUE(connection.wait_for(HURRAY_EVENT_CONNECTION, 2));
    ASSERT_TRUE(of_plain.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_EQ(log.all().size(), 0U);
    EXPECT_EQ(producer.list("").size(), 1U);
    EXPECT_FALSE(producer.list("model").at(0).producer_gone);
    EXPECT_EQ(producer.list("model").at(0).version, info.version);

    Client consumer = connect();
    consumer.attach("model").release();
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_LEASE_RELEASED));
    producer.withdraw(info.capsule);
    ASSERT_TRUE(log.wait_for(HURRAY_EVENT_ENDED));
    EXPECT_FALSE(log.all().back().event.reusable);  // somebody may hold it whom nobody knows of
}

TEST_F(ClientLinger, AQueueIsWorkedOffWhenItsProducerIsGone) {
    std::optional<Client> producer = connect();
    Client worker = connect();
    for (std::uint32_t job = 1; job <= 3; ++job) {
        PublishOptions options = lingering();
        options.once = true;
        publish(*producer, "jobs", 1, job, std::move(options));
    }
    producer.reset();
    for (std::uint32_t job = 1; job <= 3; ++job) {
        EXPECT_EQ(first_of(worker.take("jobs")), job);
    }
    EXPECT_EQ(status_of([&] { worker.take("jobs"); }), HURRAY_ERR_NOT_FOUND);
    wait_until_gone(worker, "jobs");
}

TEST_F(ClientLinger, ATimeThatIsNoneIsRefused) {
    Client client = connect();
    EXPECT_EQ(status_of([&] { publish(client, "model", 1, 1, lingering(0ms)); }), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(status_of([&] { publish(client, "model", 1, 1, lingering(-2ms)); }), HURRAY_ERR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace hurray::test
