#include "daemon/config.hpp"

#include <array>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "libhurray/base/unique_fd.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::test::TemporaryDirectory;

class ConfigTest : public testing::Test {
  protected:
    TemporaryDirectory directory;
    const std::string file = directory / "hurrayd.toml";
    Environment user{false, "/run/user/7", {}};
    Environment system{true, {}, {}};
    CommandLine line;

    void write(const std::string& text) {
        std::ofstream(file) << text;
        line.config_file = file;
    }
    std::string message(const Environment& environment) {
        const auto config = load_config(line, environment);
        EXPECT_FALSE(config.has_value());
        if (config) {
            return "";
        }
        EXPECT_EQ(config.error().code, Errc::InvalidArgument);
        return config.error().message;
    }
};

TEST_F(ConfigTest, UsersOwnDaemonServesItsUserAlone) {
    write("");
    const auto config = load_config(line, user);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->socket.path, "/run/user/7/hurray/hurrayd.sock");
    EXPECT_EQ(config->socket.mode, 0600u);
    EXPECT_EQ(config->socket.directory_mode, 0700u);
    EXPECT_FALSE(config->socket.group.has_value());
    EXPECT_EQ(config->log_level, log::Level::Info);
    EXPECT_EQ(config->descriptors, 0u);
}

TEST_F(ConfigTest, SystemsDaemonServesItsGroup) {
    write("");
    const auto config = load_config(line, system);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->socket.path, "/run/hurray/hurrayd.sock");
    EXPECT_EQ(config->socket.mode, 0660u);
    EXPECT_EQ(config->socket.directory_mode, 0755u);
}

TEST_F(ConfigTest, WithoutRuntimeDirectoryThePathMustBeGiven) {
    write("");
    user.runtime_dir.reset();
    EXPECT_NE(message(user).find("--socket"), std::string::npos);
    line.socket = "/tmp/x";
    EXPECT_TRUE(load_config(line, user).has_value());
}

TEST_F(ConfigTest, CommandLineBeatsEnvironmentBeatsFileBeatsDefault) {
    write("[socket]\npath = \"/from/file\"\n[log]\nlevel = \"error\"\n");
    EXPECT_EQ(load_config(line, user)->socket.path, "/from/file");
    EXPECT_EQ(load_config(line, user)->log_level, log::Level::Error);
    user.socket = "/from/environment";
    EXPECT_EQ(load_config(line, user)->socket.path, "/from/environment");
    line.socket = "/from/line";
    line.log_level = "debug";
    EXPECT_EQ(load_config(line, user)->socket.path, "/from/line");
    EXPECT_EQ(load_config(line, user)->log_level, log::Level::Debug);
}

TEST_F(ConfigTest, AllKeysAreRead) {
    write("socket.path = \"/a/b\"\nsocket.mode = \"0640\"\nsocket.group = \"root\"\nlimits.descriptors = 512\n");
    const auto config = load_config(line, user);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->socket.mode, 0640u);
    EXPECT_EQ(config->socket.group, 0u);
    EXPECT_EQ(config->descriptors, 512u);
}

TEST_F(ConfigTest, ErrorsNameFileLineKeyValueAndWhatIsAllowed) {
    write("\n[limits]\ndescriptors = -3\n");
    EXPECT_EQ(message(user), file + ":3: limits.descriptors is -3, allowed: 0, or 300 to 1000000000");
    write("[socket]\nmode = \"0999\"\n");
    EXPECT_EQ(message(user), file + ":2: socket.mode is 0999, allowed: an octal mode up to \"0777\", or 0o777");
    write("[socket]\nmoode = \"0600\"\n");
    const std::string unknown = file + ":2: there is no key socket.moode, allowed: socket.path, socket.mode, ";
    EXPECT_EQ(message(user).substr(0, unknown.size()), unknown);
    write("[socket]\npath = true\n");
    EXPECT_EQ(message(user), file + ":2: socket.path must be a string or a whole number");
    write("[socket\n");
    EXPECT_TRUE(message(user).starts_with(file + ":1: ")) << message(user);
    write("socket.group = \"no such group here\"\n");
    EXPECT_EQ(
        message(user),
        file + ":1: socket.group is \"no such group here\", allowed: the name of a group of this system, or \"\"");
}

// 660 without quotes was taken for decimal, 0o1224: a socket that everybody could write to.
TEST_F(ConfigTest, ModeWithoutQuotesMustBeWrittenOctal) {
    write("socket.mode = 0o660\n");
    EXPECT_EQ(load_config(line, user)->socket.mode, 0660u);
    write("socket.mode = 660\n");
    EXPECT_EQ(message(user), file + ":1: socket.mode is 660, allowed: an octal mode up to \"0777\", or 0o777");
    write("socket.mode = 0o1777\n");
    EXPECT_EQ(message(user), file + ":1: socket.mode is 0o1777, allowed: an octal mode up to \"0777\", or 0o777");
}

// [sockt] with nothing in it started a daemon with the defaults.
TEST_F(ConfigTest, TableThatDoesNotExistIsRefusedAlsoIfItIsEmpty) {
    write("[sockt]\n");
    EXPECT_TRUE(message(user).starts_with(file + ":1: there is no key sockt, allowed: socket.path")) << message(user);
    write("[socket]\n");
    EXPECT_TRUE(load_config(line, user).has_value());
}

TEST_F(ConfigTest, PathWithNulIsRefused) {
    write("socket.path = \"/run/a\\u0000b\"\n");
    EXPECT_NE(message(user).find("socket.path"), std::string::npos);
}

TEST_F(ConfigTest, DirectoryIsNoConfigurationFile) {
    line.config_file = "/";
    EXPECT_EQ(message(user), "/: can't be read: Is a directory");
}

TEST_F(ConfigTest, FileThatIsNamedMustBeThere) {
    line.config_file = directory / "absent.toml";
    EXPECT_NE(message(user).find("absent.toml"), std::string::npos);
}

TEST_F(ConfigTest, WordsOnTheCommandLineAreCheckedLikeTheFiles) {
    line.config_file = "/dev/null";
    line.log_level = "loud";
    EXPECT_EQ(message(user), "--log-level: log.level is loud, allowed: debug, info, warning, error");
}

TEST_F(ConfigTest, MetricsAreBesideTheSocketForTheDaemonsUserAlone) {
    write("");
    const auto config = load_config(line, system);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->metrics.path, "/run/hurray/hurrayd-metrics.sock");
    EXPECT_FALSE(config->metrics.is_explicit);
    EXPECT_EQ(config->metrics.mode, 0600u);
    EXPECT_FALSE(config->metrics.group.has_value());
    line.socket = "/tmp/odd.name";
    EXPECT_EQ(load_config(line, system)->metrics.path, "/tmp/odd.name-metrics.sock");
}

TEST_F(ConfigTest, MetricsCanBeElsewhereForOthersOrNowhere) {
    write("[metrics]\npath = \"/m\"\nmode = \"0640\"\ngroup = \"root\"\n");
    auto config = load_config(line, user);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->metrics.path, "/m");
    EXPECT_TRUE(config->metrics.is_explicit);
    EXPECT_EQ(config->metrics.mode, 0640u);
    EXPECT_EQ(config->metrics.group, gid_t{0});
    write("[metrics]\npath = \"\"\n");
    config = load_config(line, user);
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(config->metrics.path, "");
    write("[metrics]\npath = \"relative\"\n");
    EXPECT_NE(message(user).find("metrics.path is relative, allowed: an absolute path"), std::string::npos);
}

TEST_F(ConfigTest, MemoryMayBeLimited) {
    write("[quota]\nbytes = 68719476736\nuser.bytes = 4096\nuser.reservations = 7\n");
    const auto config = load_config(line, user);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->limits.quotas.all_bytes, 68719476736u);
    EXPECT_EQ(config->limits.quotas.bytes, 4096u);
    EXPECT_EQ(config->limits.quotas.reservations, 7u);
    for (const char* bytes : {"4095", "-1", "\"1G\""}) {
        write(std::string("[quota]\nuser.bytes = ") + bytes + "\n");
        EXPECT_NE(message(user).find("allowed: 0, or 4096 or more"), std::string::npos) << bytes;
    }
}

TEST_F(ConfigTest, TheStoreIsAsLargeAsTheServiceManagerSaysAndNoLargerThanConfigured) {
    const auto store_max = [&](const char* config, std::optional<std::string> said) {
        write(config);
        user.fd_store = std::move(said);
        const auto loaded = load_config(line, user);
        EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
        return loaded ? loaded->store_max : 0;
    };
    EXPECT_EQ(store_max("", {}), 0u);
    EXPECT_EQ(store_max("", "16384"), 16384u);
    EXPECT_EQ(store_max("", "nonsense"), 0u);
    EXPECT_EQ(store_max("", "-5"), 0u);
    EXPECT_EQ(store_max("", "18446744073709551615"), 1'000'000'000u);
    EXPECT_EQ(store_max("store.max = 512\n", {}), 512u);
    EXPECT_EQ(store_max("store.max = 512\n", "16384"), 512u);
    EXPECT_EQ(store_max("store.max = 512\n", "0"), 0u);
    EXPECT_EQ(store_max("store.max = 0\n", "16384"), 0u);
    write("store.max = -1\n");
    EXPECT_NE(message(user).find("store.max is -1, allowed: 0 to 1000000000"), std::string::npos);
    write("[quota]\nuser.stored = 9\n");
    EXPECT_EQ(load_config(line, user)->limits.quotas.stored, 9u);
}

TEST_F(ConfigTest, DefaultAccessGrantsReadingAndWriting) {
    write("");
    EXPECT_EQ(load_config(line, user)->limits.default_mode, 0600u);
    write("[access]\ndefault_mode = \"0664\"\n");
    const auto config = load_config(line, user);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->limits.default_mode, 0664u);
    for (const char* mode : {"\"0700\"", "\"0601\"", "\"1600\"", "640", "\"rw\""}) {
        write(std::string("[access]\ndefault_mode = ") + mode + "\n");
        EXPECT_NE(message(user).find("allowed: an octal mode up to \"0666\" of read and write bits, or 0o666"),
                  std::string::npos)
            << mode;
    }
}

TEST_F(ConfigTest, QuotasOfUsersAndClientsGoWhereTheyBelong) {
    write(
        "[quota]\nbytes = 17000\n"
        "user.clients = 1\nuser.capsules = 2\nuser.names = 3\nuser.leases = 4\nuser.waiting = 5\nuser.watches = 6\n"
        "user.reservations = 7\nuser.descriptors = 8\nuser.stored = 20\nuser.bytes = 9000\nuser.daemon_bytes = 100000\n"
        "client.capsules = 11\nclient.leases = 12\nclient.waiting = 13\nclient.watches = 14\nclient.bytes = 15000\n"
        "client.daemon_bytes = 160000\nclient.request_rate = 18\nclient.request_burst = 19\n");
    const auto config = load_config(line, user);
    ASSERT_TRUE(config) << config.error().message;
    const Quotas quotas(config->limits.quotas);
    const std::array<std::uint64_t, kQuotas> expected = {1,      2,  3,  4,  5,  6,     7,      8,     20, 9000,
                                                         100000, 11, 12, 13, 14, 15000, 160000, 17000, 0};
    for (std::size_t i = 0; i < kQuotas; ++i) {
        EXPECT_EQ(quotas.limit(static_cast<Quota>(i)), expected.at(i)) << name_of(static_cast<Quota>(i));
        EXPECT_NE(describe_keys().find("  " + std::string(name_of(static_cast<Quota>(i))) + " ("), std::string::npos);
    }
    EXPECT_EQ(config->limits.requests.per_second, 18u);
    EXPECT_EQ(config->limits.requests.burst, 19u);
    for (const char* wrong : {"user.daemon_bytes = 65535", "client.daemon_bytes = 1", "user.capsules = 0",
                              "client.leases = -1", "client.request_burst = 0", "client.request_rate = 1000000001"}) {
        write(std::string("[quota]\n") + wrong + "\n");
        EXPECT_NE(message(user).find("allowed: "), std::string::npos) << wrong;
    }
}

TEST_F(ConfigTest, HelpShowsEveryKey) {
    for (const char* key : {"socket.path",
                            "socket.mode",
                            "socket.group",
                            "metrics.path",
                            "metrics.mode",
                            "metrics.group",
                            "access.default_mode",
                            "log.level",
                            "limits.descriptors",
                            "quota.user.clients",
                            "quota.user.waiting",
                            "quota.user.reservations",
                            "quota.user.stored",
                            "store.max",
                            "quota.user.bytes",
                            "quota.bytes",
                            "quota.user.unread_descriptors",
                            "quota.user.daemon_bytes",
                            "quota.client.leases",
                            "quota.client.request_rate"}) {
        EXPECT_NE(describe_keys().find(key), std::string::npos) << key;
    }
}

TEST(LogLine, IsDroppedWhereNobodyReads) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const hurray::UniqueFd reader(ends[0]);
    const hurray::UniqueFd writer(ends[1]);
    const std::string line(5000, 'x');
    int written = 0;
    while (log::write_or_drop(writer.get(), line)) {  // would wait for ever
        ++written;
    }
    EXPECT_GT(written, 0);
    std::array<char, 8192> buffer{};
    EXPECT_GT(::read(reader.get(), buffer.data(), buffer.size()), 0);
    EXPECT_TRUE(log::write_or_drop(writer.get(), line));
}

TEST(LogValue, NothingThatAPeerWroteCanForgeALine) {
    EXPECT_EQ(log::as_value("plain-1.2/x"), "plain-1.2/x");
    EXPECT_EQ(log::as_value(""), "\"\"");
    EXPECT_EQ(log::as_value("two words"), "\"two words\"");
    EXPECT_EQ(log::as_value("a=b"), "\"a=b\"");
    EXPECT_EQ(log::as_value("x\nlevel=error \"\\\x1b[0m\x80"), "\"x\\x0alevel=error \\\"\\\\\\x1b[0m\\x80\"");
}

}  // namespace
}  // namespace hurrayd
