// Sharing with a group by the client library: who reads what, and that memory keeps its readers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/other_user.hpp"

namespace hurray::test {
namespace {

class ClientAccess : public ClientTest {
  protected:
    static CapsuleInfo publish_for(Client& client, const std::string& name, const std::optional<Access>& access,
                                   std::uint64_t count = 4) {
        Allocation allocation = client.allocate<std::uint32_t>({count}, {.access = access});
        std::ranges::fill(allocation.elements<std::uint32_t>(), 7U);
        return client.publish(name, std::move(allocation));
    }
    static std::uint64_t segments_made(const Client& client) {
        return nlohmann::json::parse(client.status()).at("client").at("memory").at("segments_made");
    }
};

TEST_F(ClientAccess, GroupReadsAndOthersDoNot) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root to connect as other users";
    }
    admit_everybody(daemon_.socket_path());
    const auto connect_as = [this](uid_t uid, const std::vector<gid_t>& groups) {
        const AsUser user(uid, groups);
        return connect();
    };
    Client alice = connect_as(kAlice, {kVideoGroup});
    Client bob = connect_as(kBob, {kVideoGroup});
    Client carol = connect_as(kCarol, {});
    const Access shared{kVideoGroup, 0640};
    const auto publish_as = [](uid_t uid, Client& client, const std::optional<Access>& access, const char* name) {
        const AsUser user(uid);  // whose the memory is
        return publish_for(client, name, access);
    };
    const CapsuleInfo published = publish_as(kAlice, alice, shared, "camera");
    EXPECT_EQ(published.access, shared);
    EXPECT_EQ(alice.published(published.capsule).access, shared);

    const Tensor tensor = bob.attach("camera");
    EXPECT_EQ(tensor.elements<std::uint32_t>()[3], 7U);
    EXPECT_EQ(tensor.info().access, shared);
    EXPECT_EQ(bob.list().at(0).access, shared);
    EXPECT_TRUE(carol.list().empty());
    EXPECT_EQ(status_of([&] { carol.attach("camera"); }), HURRAY_ERR_NOT_FOUND);

    std::string message;
    EXPECT_EQ(status_of([&] { publish_as(kBob, bob, {}, "camera"); }, &message), HURRAY_ERR_NOT_PERMITTED);
    EXPECT_NE(message.find("\"camera\" is held by a capsule of user 54321 with group 54401 and mode 0640"),
              std::string::npos)
        << message;
    EXPECT_EQ(status_of([&] { bob.withdraw(published.capsule); }), HURRAY_ERR_NOT_PERMITTED);
    EXPECT_EQ(status_of([&] { publish_as(kCarol, carol, shared, "mine"); }, &message), HURRAY_ERR_NOT_PERMITTED);
    EXPECT_NE(message.find("was not in group 54401"), std::string::npos) << message;

    publish_as(kAlice, alice, Access{kVideoGroup, 0660}, "camera");
    publish_as(kBob, bob, {}, "camera");
    EXPECT_EQ(status_of([&] { alice.attach("camera"); }), HURRAY_ERR_NOT_FOUND) << "Bob's is his alone";
}

TEST_F(ClientAccess, MemoryIsUsedAgainForTheSameAccessAlone) {
    Client client = connect();
    const std::optional<Access> rules[] = {std::nullopt, Access{.mode = 0640}, Access{.mode = 0660}};
    for (const std::uint64_t count : {std::uint64_t{4}, std::uint64_t{1} << 18}) {  // in an arena, and alone
        const std::uint64_t before = segments_made(client);
        std::uint64_t made = 0;
        for (const auto& access : rules) {
            client.withdraw(publish_for(client, "", access, count).capsule);
            EXPECT_EQ(segments_made(client), before + ++made) << "not that of those before";
        }
        for (int round = 0; round < 3; ++round) {
            for (const auto& access : rules) {
                client.withdraw(publish_for(client, "", access, count).capsule);
            }
        }
        client.withdraw(publish_for(client, "", Access{.mode = 0600}, count).capsule);  // as the daemon's default
        client.withdraw(publish_for(client, "", Access{::getegid(), 0640}, count).capsule);
        EXPECT_EQ(segments_made(client), before + made);
    }
}

TEST_F(ClientAccess, IsThatOfTheAllocation) {
    Client client = connect();
    std::string message;
    Allocation allocation = client.allocate<std::uint32_t>({4}, {.access = Access{.mode = 0640}});
    EXPECT_EQ(
        status_of([&] { client.publish("n", std::move(allocation), {.access = Access{.mode = 0600}}); }, &message),
        HURRAY_ERR_INVALID_ARGUMENT);
    const std::string group = "group " + std::to_string(::getegid());
    EXPECT_NE(message.find("was allocated for " + group + " and mode 0640, and can't be published with " + group +
                           " and mode 0600"),
              std::string::npos)
        << message;
    EXPECT_TRUE(client.list().empty());
    client.publish("n", std::move(allocation), {.access = Access{.mode = 0640}});
    EXPECT_EQ(client.list().at(0).access, (Access{::getegid(), 0640}));

    Allocation plain = client.allocate<std::uint32_t>({4});
    EXPECT_EQ(status_of([&] { client.publish("m", std::move(plain), {.access = Access{.mode = 0640}}); }, &message),
              HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(message.find("was allocated for " + group + " and mode 0600"), std::string::npos) << message;
    EXPECT_EQ(client.publish("m", std::move(plain)).access, (Access{::getegid(), 0600})) << "the daemon's default";
    EXPECT_EQ(client.list("m").at(0).access, (Access{::getegid(), 0600}));
}

TEST_F(ClientAccess, CopyAndEmptyTensorHaveTheAccessThatTheyArePublishedWith) {
    Client client = connect();
    const float values[] = {1.0F, 2.0F};
    client.publish_copy<float>("copy", {2}, values, {.access = Access{.mode = 0644}});
    EXPECT_EQ(client.attach("copy").info().access, (Access{::getegid(), 0644}));
    publish_for(client, "empty", Access{.mode = 0660}, 0);
    EXPECT_EQ(client.attach("empty").info().access, (Access{::getegid(), 0660}));
}

TEST_F(ClientAccess, ModeThatMeansNothingIsRefusedWhereItIsSaid) {
    Client client = connect();
    std::string message;
    for (const std::uint32_t mode : {0700U, 0001U, 01600U, 0xffffffffU}) {
        EXPECT_EQ(status_of([&] { client.allocate<std::uint32_t>({4}, {.access = Access{.mode = mode}}); }, &message),
                  HURRAY_ERR_INVALID_ARGUMENT);
        EXPECT_NE(message.find("options->access.mode"), std::string::npos) << message;
    }
    const std::uint64_t size = 64;
    HurrayAllocateOptions options{};
    options.struct_size = sizeof options;
    options.access.mode = 0640;
    HurrayAllocation* allocation = nullptr;
    EXPECT_EQ(hurray_client_allocate(client.handle(), &size, 1, &options, &allocation), HURRAY_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(hurray_last_error_message()).find("options->access.is_set"), std::string::npos)
        << "a mode that would not count";
}

}  // namespace
}  // namespace hurray::test
