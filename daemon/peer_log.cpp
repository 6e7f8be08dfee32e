#include "daemon/peer_log.hpp"

#include <algorithm>
#include <vector>

namespace hurrayd {

void PeerLog::write(log::Level level, std::string_view event, const Dispatcher::Peer& peer,
                    std::initializer_list<log::Field> more) {
    if (!log::is_enabled(level)) {
        return;
    }
    const log::Level admitted = admit(level, event, peer.credentials.uid);
    if (!log::is_enabled(admitted)) {
        return;
    }
    std::vector<log::Field> fields = {{"session", peer.number.value},
                                      {"uid", peer.credentials.uid},
                                      {"pid", peer.credentials.pid},
                                      {"client", peer.label}};
    fields.insert(fields.end(), more.begin(), more.end());
    log::write(admitted, event, fields);
}

void PeerLog::write(log::Level level, std::string_view event, std::uint32_t uid,
                    std::initializer_list<log::Field> more) {
    if (!log::is_enabled(level)) {
        return;
    }
    const log::Level admitted = admit(level, event, uid);
    if (!log::is_enabled(admitted)) {
        return;
    }
    std::vector<log::Field> fields = {{"uid", uid}};
    fields.insert(fields.end(), more.begin(), more.end());
    log::write(admitted, event, fields);
}

/// The level that the line has now.
log::Level PeerLog::admit(log::Level level, std::string_view event, std::uint32_t uid) {
    if (level == log::Level::Debug) {
        return level;
    }
    const auto now = Clock::now();
    Window& window = windows_.try_emplace({uid, event}, Window{now}).first->second;
    if (!armed_) {
        arm();
    }
    if (window.lines < kMostLines) {
        ++window.lines;
        return level;
    }
    if (!log::is_enabled(log::Level::Debug)) {
        ++window.suppressed;
        ++suppressed_;
    }
    return log::Level::Debug;
}

void PeerLog::close_windows(Clock::time_point now) {
    for (auto at = windows_.begin(); at != windows_.end();) {
        const auto& [key, window] = *at;
        if (now - window.begin < kWindow) {
            ++at;
            continue;
        }
        if (window.suppressed != 0) {
            log::warning("lines_suppressed", {{"uid", key.first}, {"of", key.second}, {"lines", window.suppressed}});
        }
        at = windows_.erase(at);
    }
}

/// For the end of the oldest window.
void PeerLog::arm() {
    const auto oldest = std::min_element(windows_.begin(), windows_.end(), [](const auto& one, const auto& other) {
        return one.second.begin < other.second.begin;
    });
    armed_ = true;
    window_end_.expires_at(oldest->second.begin + kWindow);
    window_end_.async_wait([this](const boost::system::error_code& failed) {
        if (failed) {
            return;
        }
        armed_ = false;
        close_windows(Clock::now());
        if (!windows_.empty()) {
            arm();
        }
    });
}

void PeerLog::stop() {
    close_windows(Clock::time_point::max());
    window_end_.cancel();
}

}  // namespace hurrayd
