#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

namespace bench {

/// Runs this program again, with the same arguments, under a daemon of its own: by hurrayctl, which lies beside it. Returns
/// only where $HURRAY_SOCKET names a daemon already.
void ensure_private_daemon(char** argv);

/// The process that listens there.
[[nodiscard]] pid_t daemon_pid(const std::string& address);

/// A hurrayd on a socket of its own, with a configuration, for whoever needs more than one or other limits. It starts to listen
/// soon after it was made.
class PrivateDaemon {
  public:
    /// `configuration`: the text of its file.
    explicit PrivateDaemon(std::string_view configuration);
    ~PrivateDaemon();
    PrivateDaemon(const PrivateDaemon&) = delete;
    PrivateDaemon& operator=(const PrivateDaemon&) = delete;

    /// `kill -9`, and another one in its place, which starts to listen soon.
    void restart();

    [[nodiscard]] const std::string& address() const noexcept { return address_; }
    [[nodiscard]] pid_t process() const noexcept { return process_; }

  private:
    void start();

    std::string directory_;
    std::string address_;
    std::string file_;  ///< its configuration
    pid_t process_ = -1;
};

/// The path of the program of that name that lies beside this one.
[[nodiscard]] std::string program_beside(const char* name);

}  // namespace bench
