#pragma once

#include <functional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "libhurray/base/unique_fd.hpp"
#include "proto/wire/messages.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::test {

/// A daemon that does as it is told, for one client: says what a test wants to each request, and dies where it wants it to. Requests that bring
/// descriptors are beyond it.
class PuppetDaemon {
  public:
    /// What it says to a request, in that order; nothing: it dies, and the next life listens.
    using Answers = std::vector<wire::PacketMessage>;
    using Play = std::function<Answers(const wire::Request&)>;

    /// `before_welcome` runs before each Hello is answered.
    explicit PuppetDaemon(Play play, std::function<void()> before_welcome = {});
    PuppetDaemon(const PuppetDaemon&) = delete;
    PuppetDaemon& operator=(const PuppetDaemon&) = delete;
    ~PuppetDaemon() { join(); }

    [[nodiscard]] std::string path() const { return directory_ / "hurrayd.sock"; }
    /// Waits until its client has gone. Then `requests` are all that it was asked.
    void join() {
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    std::vector<wire::Request> requests;

    template <class Message>
    [[nodiscard]] std::vector<Message> asked() const {
        std::vector<Message> found;
        for (const wire::Request& request : requests) {
            if (const auto* message = std::get_if<Message>(&request.message)) {
                found.push_back(*message);
            }
        }
        return found;
    }

    /// A grant of an empty tensor.
    static wire::AttachReply grant();

  private:
    bool live();

    const Play play_;
    const std::function<void()> before_welcome_;
    TemporaryDirectory directory_;
    UniqueFd listener_;
    std::thread thread_;
};

}  // namespace hurray::test
