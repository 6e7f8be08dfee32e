// Where there is little room, or others clear it away: shared memory has no name and no place that somebody else could fill or empty.
// A program of its own: its tests fork before they have threads.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/integration/client_test.hpp"
#include "tests/support/child.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {
namespace {

constexpr int kRefused = 77;  // the kernel does not let us
constexpr int kBusError = 99;

/// What `work` does in a forked process: 0 if all was well, else what it exited with, or a signal's number below 0.
int in_child(const std::function<void()>& work) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct sigaction noticed{};
        noticed.sa_handler = [](int) { ::_exit(kBusError); };
        ::sigaction(SIGBUS, &noticed, nullptr);
        try {
            work();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "child: %s\n", failure.what());
            std::fflush(stderr);
            ::_exit(1);
        }
        ::_exit(0);
    }
    const int status = wait_for_end(pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void require(bool is_so, const std::string& what) {
    if (!is_so) {
        throw std::runtime_error(what);
    }
}

/// Puts this process into a mount and IPC namespace of its own, where /dev/shm has one mebibyte. Or ends it, if that is not permitted.
void enter_small_place() {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (::unshare((user == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWNS | CLONE_NEWIPC) != 0) {
        ::_exit(kRefused);
    }
    if (user != 0) {
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << user << " " << user << " 1";
        std::ofstream("/proc/self/gid_map") << group << " " << group << " 1";
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m,mode=1777") != 0) {
        ::_exit(kRefused);
    }
}

#define SKIP_IF_REFUSED(code)                                                                       \
    if ((code) == kRefused) {                                                                       \
        GTEST_SKIP() << "NOT TESTED: this kernel refuses mount or user namespaces to this process"; \
    }

Client connect_to(const DaemonProcess& daemon) {
    ConnectOptions options;
    options.address = daemon.socket_path();
    return Client::connect(std::move(options));
}

CapsuleInfo publish_bytes(Client& client, const std::string& name, std::uint64_t size, std::uint8_t first,
                          PublishOptions options = {}) {
    Allocation allocation = client.allocate<std::uint8_t>({size});
    const auto elements = allocation.elements<std::uint8_t>();
    std::iota(elements.begin(), elements.end(), first);
    return client.publish(name, std::move(allocation), std::move(options));
}

void require_bytes(const Tensor& tensor, std::uint64_t size, std::uint8_t first) {
    const auto elements = tensor.elements<std::uint8_t>();
    require(elements.size() == size && tensor.info().byte_size == size, tensor.name() + " has another size");
    for (std::uint64_t i = 0; i < size; ++i) {
        require(elements[i] == static_cast<std::uint8_t>(first + i), tensor.name() + " has other bytes");
    }
}

// case A1
TEST(SmallSharedMemory, CostsNobodyABusError) {
    const int code = in_child([] {
        enter_small_place();
        DaemonProcess daemon;
        {
            Client producer = connect_to(daemon);
            Client consumer = connect_to(daemon);
            for (int i = 0; i < 200; ++i) {
                publish_bytes(producer, "a/" + std::to_string(i), 1024, static_cast<std::uint8_t>(i));
            }
            publish_bytes(producer, "large", 32U << 20, 5);
            for (int i = 0; i < 200; ++i) {
                require_bytes(consumer.attach("a/" + std::to_string(i)), 1024, static_cast<std::uint8_t>(i));
            }
            require_bytes(consumer.attach("large"), 32U << 20, 5);
        }
        require(daemon.end(SIGTERM) == 0, "the daemon did not end well");
    });
    SKIP_IF_REFUSED(code)
    EXPECT_EQ(code, 0) << (code == kBusError ? "SIGBUS" : "");
}

// case A1
TEST(SmallBudget, IsRefusedWithWhatWasAskedForAndWhatIsThere) {
    const TemporaryDirectory directory;
    for (const std::uint64_t budget : {4096U, 65536U}) {
        const std::string file = directory / "hurrayd.toml";
        std::ofstream(file) << "[quota]\nbytes = " << budget << "\n";
        DaemonProcess daemon({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
        Client producer = connect_to(daemon);
        Client consumer = connect_to(daemon);
        std::uint64_t published = 0;
        std::string message;
        HurrayStatus status = HURRAY_OK;
        while (status == HURRAY_OK) {
            ASSERT_LT(published, 1000U);
            status = status_of(
                [&] {
                    publish_bytes(producer, "a/" + std::to_string(published), 1024,
                                  static_cast<std::uint8_t>(published));
                    ++published;
                },
                &message);
        }
        EXPECT_EQ(status, HURRAY_ERR_OVER_QUOTA);
        EXPECT_NE(message.find(std::to_string(budget) + " are allowed (quota.bytes)"), std::string::npos) << message;
        EXPECT_NE(message.find("are asked for"), std::string::npos) << message;
        EXPECT_EQ(published, budget == 4096 ? 0U : 16U) << "one a page of what an arena has";
        for (std::uint64_t i = 0; i < published; ++i) {
            require_bytes(consumer.attach("a/" + std::to_string(i)), 1024, static_cast<std::uint8_t>(i));
        }
    }
}

// case A3
TEST(SmallSharedMemory, MakesNoDifferenceOnEitherSideOfAnyThreshold) {
    const int code = in_child([] {
        enter_small_place();
        DaemonProcess daemon;
        Client producer = connect_to(daemon);
        Client consumer = connect_to(daemon);
        std::vector<std::uint64_t> sizes = {0, 1};
        for (const std::uint64_t threshold : {4096U, 65536U, 1U << 20, 2U << 20}) {  // a page, an arena's, huge pages
            sizes.insert(sizes.end(), {threshold - 1, threshold, threshold + 1});
        }
        for (const std::uint64_t size : sizes) {
            EventLog log;
            PublishOptions options;
            options.tell_opened = true;
            options.on_event = log.sink();
            const CapsuleInfo info = publish_bytes(producer, "size", size, 3, std::move(options));
            require_bytes(consumer.attach("size"), size, 3);
            producer.withdraw(info.capsule);
            require(log.wait_for(HURRAY_EVENT_ENDED), "it did not end");
            require(log.kinds() == std::vector<std::uint32_t>{HURRAY_EVENT_LEASE_OPENED, HURRAY_EVENT_LEASE_RELEASED,
                                                              HURRAY_EVENT_ENDED},
                    std::to_string(size) + " bytes: its lease was told otherwise");
        }
    });
    SKIP_IF_REFUSED(code)
    EXPECT_EQ(code, 0) << (code == kBusError ? "SIGBUS" : "");
}

/// Writes each page, and looks at each, without as much ado.
void publish_large(Client& client, const std::string& name, std::uint64_t size) {
    Allocation allocation = client.allocate<std::uint8_t>({size});
    std::memset(allocation.buffer().data(), 7, size);
    client.publish(name, std::move(allocation));
}

void require_large(const Tensor& tensor, std::uint64_t size) {
    require(tensor.buffer().size() == size, tensor.name() + " has another size");
    for (std::uint64_t at = 0; at < size; at += 4096) {
        require(tensor.buffer()[at] == std::byte{7}, tensor.name() + " has other bytes");
    }
}

/// What the daemon counts under that name.
std::uint64_t used(const Client& client, const std::string& name) {
    std::uint64_t sum = 0;
    const auto status = nlohmann::json::parse(client.status());
    for (const auto& use : status.at("uses")) {
        sum += use.at("name") == name ? use.at("used").get<std::uint64_t>() : 0;
    }
    return sum;
}

/// What has a name that all processes of this namespace see.
std::string snapshot() {
    std::ostringstream all;
    for (const char* folder : {"/dev/shm", "/dev/mqueue"}) {
        std::error_code absent;
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
            names.insert(entry.path());
        }
        std::ranges::copy(names, std::ostream_iterator<std::string>(all, "\n"));
    }
    for (const char* list : {"/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"}) {
        all << std::ifstream(list).rdbuf();
    }
    return all.str();
}

// case C10
TEST(NamedMemory, IsNeitherMadeNorMissedWhenItIsClearedAway) {
    const int code = in_child([] {
        enter_small_place();
        const std::string before = snapshot();
        DaemonProcess daemon;
        Client producer = connect_to(daemon);
        Client consumer = connect_to(daemon);
        std::vector<Tensor> views;
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t size = i % 10 == 0 ? 100'000 : 1000;
            publish_bytes(producer, "n/" + std::to_string(i % 50), size, static_cast<std::uint8_t>(i));
            views.push_back(consumer.attach("n/" + std::to_string(i % 50)));
            if (views.size() > 100) {
                views.erase(views.begin());
            }
            if (i == 500) {
                require(snapshot() == before, "something has a name meanwhile");
                std::ofstream("/dev/shm/of-this-user") << "x";
                for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
                    std::filesystem::remove_all(entry.path());
                }
            }
        }
        for (std::size_t i = 0; i < views.size(); ++i) {
            const std::size_t number = 1000 - views.size() + i;
            require_bytes(views[i], number % 10 == 0 ? 100'000 : 1000, static_cast<std::uint8_t>(number));
        }
        require(snapshot() == before, "something has a name afterwards");
    });
    SKIP_IF_REFUSED(code)
    EXPECT_EQ(code, 0);
}

// ---- A control group's limit ----------------------------------------------------------------------------------------

/// A memory control group of its own, of either kind; nothing where there is none to be had.
class MemoryGroup {
  public:
    static std::optional<MemoryGroup> make(std::uint64_t bytes) {
        namespace fs = std::filesystem;
        const std::string name = "/hurray-test-" + std::to_string(::getpid());
        const bool is_second = fs::exists("/sys/fs/cgroup/cgroup.controllers");
        const std::string folder = (is_second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + name;
        std::error_code failed;
        if (!fs::create_directory(folder, failed)) {
            return std::nullopt;
        }
        std::optional<MemoryGroup> made(MemoryGroup{folder});
        const std::string limit = std::to_string(bytes);
        // Without the controller the files are not there.
        const bool is_set = is_second ? write(folder + "/memory.max", limit) && write(folder + "/memory.swap.max", "0")
                                      : write(folder + "/memory.limit_in_bytes", limit);
        return is_set ? std::move(made) : std::nullopt;
    }
    explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}
    MemoryGroup(MemoryGroup&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
    MemoryGroup& operator=(MemoryGroup&&) = delete;
    MemoryGroup(const MemoryGroup&) = delete;
    MemoryGroup& operator=(const MemoryGroup&) = delete;
    ~MemoryGroup() {
        // What has ended leaves it a moment later.
        for (int tries = 0; !folder_.empty() && ::rmdir(folder_.c_str()) != 0 && tries < 1000; ++tries) {
            ::usleep(1000);
        }
    }

    /// Moves this process there.
    void enter() const {
        if (!write(folder_ + "/cgroup.procs", std::to_string(::getpid()))) {
            ::_exit(kRefused);
        }
    }

  private:
    static bool write(const std::string& file, const std::string& what) {
        std::ofstream out(file);
        return out.is_open() && (out << what << std::flush);
    }
    std::string folder_;
};

constexpr std::uint64_t kMiB = 1U << 20;
constexpr std::uint64_t kLimit = (kIsSanitized ? 256 : 64) * kMiB;  // a sanitizer's own memory has to fit, too
constexpr std::uint64_t kTensor = (kIsSanitized ? 512 : 256) * kMiB;

#define SKIP_WITHOUT_GROUP(group)                                                               \
    if (!(group)) {                                                                             \
        GTEST_SKIP() << "NOT TESTED: there is no memory control group that could be made here"; \
    }

// case A9
TEST(MemoryGroupLimit, OfAProducerHurtsNobodyElse) {
    const auto group = MemoryGroup::make(kLimit);
    SKIP_WITHOUT_GROUP(group)
    const TemporaryDirectory directory;
    const std::string file = directory / "hurrayd.toml";
    std::ofstream(file) << "[quota]\nbytes = " << 1024 * kMiB << "\n";
    DaemonProcess daemon({.arguments = {"--config", file}, .environment = {}, .descriptor_limit = {}});
    const pid_t process = daemon.pid();
    std::array<int, 2> go{};
    ASSERT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
    const pid_t limited = ::fork();
    if (limited == 0) {  // before there are threads here
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        group->enter();
        char word = 0;
        (void)!::read(go[0], &word, 1);
        const bool is_told = status_of([&] {
                                 Client client = connect_to(daemon);
                                 publish_large(client, "too/much", kTensor);
                             }) == HURRAY_ERR_NO_SPACE &&
                             std::string(hurray_last_error_message()).find("cgroup") != std::string::npos;
        ::_exit(is_told ? 0 : 1);
    }
    Client bystander = connect_to(daemon);
    publish_bytes(bystander, "theirs", 1000, 7);
    const Tensor view = bystander.attach("theirs");
    ASSERT_EQ(::write(go[1], "g", 1), 1);
    const int status = wait_for_end(limited);
    ::close(go[0]);
    ::close(go[1]);
    EXPECT_TRUE(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        << "neither refused by name nor killed: " << status;

    EXPECT_EQ(daemon.pid(), process);
    require_bytes(view, 1000, 7);
    while (used(bystander, "reserved") != 0) {  // its bytes come back
    }
    EXPECT_EQ(used(bystander, "capsules"), 1U);
    require_bytes(bystander.attach("theirs"), 1000, 7);
}

// case A9
TEST(MemoryGroupLimit, OfTheDaemonIsNotSpentOnClientsMemory) {
    const auto group = MemoryGroup::make(kLimit);
    SKIP_WITHOUT_GROUP(group)
    DaemonProcess daemon(
        {.arguments = {}, .environment = {}, .descriptor_limit = {}, .before_exec = [&group] { group->enter(); }});
    const pid_t process = daemon.pid();
    {
        Client producer = connect_to(daemon);
        Client consumer = connect_to(daemon);
        publish_large(producer, "large", kTensor);
        require_large(consumer.attach("large"), kTensor);
    }
    EXPECT_EQ(daemon.pid(), process);
    EXPECT_EQ(daemon.end(SIGTERM), 0) << daemon.log();
}

}  // namespace
}  // namespace hurray::test
