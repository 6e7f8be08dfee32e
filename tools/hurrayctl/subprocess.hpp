#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hurrayctl {

/// How to start a program.
struct Launch {
    std::string file;                                              ///< looked up in PATH if it has no slash
    std::vector<std::string> arguments;                            ///< argv, the program's own name first
    std::vector<std::pair<std::string, std::string>> environment;  ///< set on top of our own
    bool set_apart = false;  ///< a session of its own, dies with us, no stdin, stdout goes to stderr
};

/// The signals that hurrayctl takes from a descriptor while it runs others.
///
/// From construction on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD are blocked and wait in `fd()`; started programs get the
/// mask that was there before. Signals that were ignored before stay ignored. One object a process, one thread.
class SignalQueue {
  public:
    SignalQueue();
    ~SignalQueue();
    SignalQueue(const SignalQueue&) = delete;
    SignalQueue& operator=(const SignalQueue&) = delete;

    struct Signal {
        int number;
        /// The terminal sent it to its whole foreground group: programs in our group have it already.
        bool from_terminal;
    };

    /// The next signal, or nothing after `timeout`; without one it waits for ever. A readable `other_fd` (-1: none) ends the
    /// wait too. Throws std::system_error.
    std::optional<Signal> wait(std::optional<std::chrono::milliseconds> timeout, int other_fd = -1);

    /// The signal mask to give to started programs.
    const sigset_t& old_mask() const { return old_mask_; }

  private:
    sigset_t old_mask_{};
    int fd_ = -1;
};

/// A child process. The destructor kills and reaps one that still runs.
class Subprocess {
  public:
    /// Starts a program. Returns once it is executing, so that a file that can't be executed is an error here.
    /// Throws std::system_error; its code is the errno of execvp.
    Subprocess(const Launch& launch, const SignalQueue& signals);
    ~Subprocess();
    Subprocess(const Subprocess&) = delete;
    Subprocess& operator=(const Subprocess&) = delete;

    /// Its wait status once it has ended, else nothing. Never blocks.
    std::optional<int> poll();

    /// Sends a signal; nothing happens if it has ended.
    void signal(int number);

    /// Asks it to end, waits for `patience`, then kills it. Returns its wait status.
    int end(SignalQueue& signals, std::chrono::milliseconds patience);

  private:
    pid_t pid_ = -1;
    std::optional<int> status_;
};

/// What a shell makes of a wait status: the exit code, or 128 + the signal.
int exit_code(int wait_status);

/// "exit code 3" or "signal 9 (Killed)".
std::string describe(int wait_status);

}  // namespace hurrayctl
