#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace hurray::client {

/// The highest version of each name that this session was granted: after a restart of the daemon nothing older is taken for the latest,
/// before the newer one is back. Of many names some are forgotten.
///
/// Threads: any.
class SeenVersions {
  public:
    static constexpr std::size_t kMostNames = 16'384;

    void note(const std::string& name, std::uint64_t version) {
        if (name.empty()) {
            return;
        }
        const std::lock_guard lock(mutex_);
        if (const auto known = versions_.find(name); known != versions_.end()) {
            known->second = std::max(known->second, version);
            return;
        }
        if (versions_.size() == kMostNames) {
            versions_.erase(versions_.begin());
        }
        versions_.emplace(name, version);
    }

    /// 0: none, as far as is known.
    [[nodiscard]] std::uint64_t version_of(const std::string& name) const {
        const std::lock_guard lock(mutex_);
        const auto known = versions_.find(name);
        return known != versions_.end() ? known->second : 0;
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::string, std::uint64_t> versions_;
};

}  // namespace hurray::client
