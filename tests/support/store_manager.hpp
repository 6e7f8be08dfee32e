#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "libhurray/base/unique_fd.hpp"

namespace hurray::test {

/// A service manager with a descriptor store, and its one service, a real hurrayd. It does as systemd does: the listening socket is its own
/// and comes first, then what was stored, the newest first; one datagram may bring several descriptors under one name; removing takes all of
/// a name; the same open file under a second name, and what is over the maximum, is dropped without a word; a name that can't be one
/// becomes "stored".
///
/// It is a process of its own, so that daemons die and are born beside busy threads of a test. Make it before the first thread.
/// Failures are std::runtime_error. Threads: one.
class StoreManager {
  public:
    struct Options {
        std::vector<std::string> arguments = {};  ///< of hurrayd
        std::vector<std::pair<std::string, std::string>> environment = {};
        std::size_t most = 4096;  ///< entries
        bool says_so = true;      ///< in $FDSTORE
    };
    /// The first hurrayd serves when this returns.
    explicit StoreManager(const Options& options);
    StoreManager() : StoreManager(Options{}) {}
    StoreManager(const StoreManager&) = delete;
    StoreManager& operator=(const StoreManager&) = delete;
    /// Ends hurrayd with SIGTERM.
    ~StoreManager();

    [[nodiscard]] const std::string& socket_path() const noexcept { return socket_path_; }

    /// SIGKILL. What it had sent before is read.
    void kill() { (void)ask("kill"); }
    /// SIGTERM. It has to end well.
    void stop() { (void)ask("stop"); }
    /// The next one, with what is stored; it serves when this returns.
    void start() { (void)ask("start"); }
    void restart() {
        kill();
        start();
    }
    /// Kills it as soon as its `count`th message about the store from now on has come, and starts the next one at once. 0: no more.
    void kill_at(std::size_t count) { (void)ask("kill_at " + std::to_string(count)); }
    /// How often that has happened.
    [[nodiscard]] std::size_t deaths() { return std::stoull(ask("deaths")); }

    /// The names of what is stored, the oldest first.
    [[nodiscard]] std::vector<std::string> entries();
    /// Those that begin so.
    [[nodiscard]] std::vector<std::string> entries(const std::string& prefix);
    /// The bytes of an entry.
    [[nodiscard]] std::uint64_t size_of(const std::string& name) { return std::stoull(ask("size " + name)); }
    /// An entry goes missing.
    void lose(const std::string& name) { (void)ask("lose " + name); }
    /// An entry is there once more under another name, as another file with a byte inverted.
    void damage(const std::string& name, std::size_t offset) {
        (void)ask("damage " + name + " " + std::to_string(offset));
    }
    /// An entry ends early.
    void cut(const std::string& name, std::size_t size) { (void)ask("cut " + name + " " + std::to_string(size)); }
    /// Something that hurrayd never stored.
    void add(const std::string& name) { (void)ask("add " + name); }

    /// What the daemons have logged; the end of it, if it is much.
    [[nodiscard]] std::string log() { return ask("log"); }
    [[nodiscard]] pid_t pid() { return static_cast<pid_t>(std::stol(ask("pid"))); }

  private:
    std::string ask(const std::string& what);

    UniqueFd line_;
    pid_t keeper_ = -1;
    std::string socket_path_;
};

}  // namespace hurray::test
