#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "daemon/asio.hpp"
#include "daemon/dispatcher.hpp"
#include "daemon/log.hpp"

namespace hurrayd {

/// Log lines about clients, of which no user can cause more than kMostLines a kWindow for each event. What is beyond is written at
/// the level Debug; where that is off it is suppressed, and once the window is over a line `lines_suppressed` says how many
/// of which event.
///
/// Threads: the one that runs `io`.
class PeerLog {
  public:
    static constexpr std::uint64_t kMostLines = 60;
    static constexpr std::chrono::minutes kWindow{1};

    explicit PeerLog(asio::io_context& io) : window_end_(io) {}

    /// One line that names the session, its user, process and label, and `more`. `event` lives for ever.
    void write(log::Level level, std::string_view event, const Dispatcher::Peer& peer,
               std::initializer_list<log::Field> more = {});
    /// About somebody of whom only the user is known.
    void write(log::Level level, std::string_view event, std::uint32_t uid, std::initializer_list<log::Field> more);

    /// Says what was suppressed so far. Nothing is to be written after it, and `io` runs out of work.
    void stop();

    /// Lines since the start.
    [[nodiscard]] std::uint64_t suppressed() const noexcept { return suppressed_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Window {
        Clock::time_point begin;
        std::uint64_t lines = 0;
        std::uint64_t suppressed = 0;
    };
    using Windows = std::map<std::pair<std::uint32_t, std::string_view>, Window>;

    [[nodiscard]] log::Level admit(log::Level level, std::string_view event, std::uint32_t uid);
    void close_windows(Clock::time_point now);
    void arm();

    asio::steady_timer window_end_;
    bool armed_ = false;
    Windows windows_;  ///< by user and event; for as long as they last
    std::uint64_t suppressed_ = 0;
};

}  // namespace hurrayd
