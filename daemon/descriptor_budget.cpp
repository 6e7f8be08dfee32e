#include "daemon/descriptor_budget.hpp"

#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include <sys/resource.h>

namespace hurrayd {
namespace {

/// What comes and goes beside clients and segments: a client that is being turned away, a thread that starts.
constexpr std::uint64_t kPassing = 16;
/// Where /proc can't be read.
constexpr std::uint64_t kOwnGuess = 32;

std::uint64_t descriptor_limit() noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::uint64_t open_descriptors() {
    std::error_code failed;
    const std::filesystem::directory_iterator open("/proc/self/fd", failed);
    return failed ? kOwnGuess : static_cast<std::uint64_t>(std::distance(begin(open), end(open)));
}

}  // namespace

DescriptorBudget::DescriptorBudget(const SegmentTable& segments, const Closer& closer, std::uint64_t to_be_segments)
    : segments_(segments),
      closer_(closer),
      limit_(descriptor_limit()),
      own_(open_descriptors() + kPassing - to_be_segments) {}

hurray::Error DescriptorBudget::packet_refusal(std::uint32_t user) const {
    hurray::Error error{hurray::Errc::Limit, {}};
    if (const std::size_t unclosed = closer_.pending_of(user); unclosed > kMostUnclosed) {
        error.limit_name = "unclosed_descriptors";
        error.limit = kMostUnclosed;
        error.in_use = unclosed;
        error.message = std::to_string(unclosed) + " descriptors that user " + std::to_string(user) +
                        " sent and hurrayd did not keep are still being closed; it receives no more while there are " +
                        "over " + std::to_string(kMostUnclosed);
    } else {
        error.limit_name = "limits.descriptors";
        error.limit = limit_;
        error.in_use = in_use();
        error.message = "hurrayd has too few file descriptors left to receive any: " + std::to_string(in_use()) +
                        " of " + std::to_string(limit_) + " are in use, and it keeps " + std::to_string(kKeptFree) +
                        " free for what a packet can bring";
    }
    return error;
}

hurray::Error DescriptorBudget::client_refusal() const {
    hurray::Error error{hurray::Errc::Limit,
                        "hurrayd has no file descriptor left for another client: " + std::to_string(in_use()) + " of " +
                            std::to_string(limit_) + " are in use"};
    error.limit_name = "limits.descriptors";
    error.limit = limit_;
    error.in_use = in_use();
    error.value = kOfClient;
    return error;
}

}  // namespace hurrayd
