#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

/// Both ways of handing a tensor over, measured alike.
///
/// A block of rounds begins with as many fresh segments, each with its first byte written, and ends with freeing them; that is
/// not timed. Each round is the same: the consumer is known to wait; the producer publishes, the consumer maps the segment and
/// reads the first byte, lets it go, and the producer learns of it; the consumer attaches the same once more; the producer
/// withdraws it.
namespace bench {

struct HandoverSamples {
    std::vector<std::uint64_t> publish_to_view;     ///< the producer begins to publish -> the consumer has read a byte
    std::vector<std::uint64_t> publish_to_release;  ///< ... -> the producer knows that the consumer is done
    std::vector<std::uint64_t> attach;              ///< the consumer asks for what is there -> it has read a byte
};

/// A page that producer and consumer share besides, for times only.
struct SharedTimes {
    std::atomic<std::uint64_t> viewed{0};
    std::atomic<std::uint64_t> attached{0};
};
[[nodiscard]] SharedTimes& make_shared_times();

/// One byte, read so that the compiler can't leave it out.
void touch(const void* data);

/// The first rounds of a block are not counted: making the segments has emptied the caches.
inline constexpr int kUncounted = 2;

/// Called between making the segments and the first round: spends processor time. Making a gigabyte does that, making a page
/// does not, and who has spent less runs first when the broker wakes two on one processor. So all sizes are in the same state:
/// that of a producer which has just filled its tensor.
void settle();

/// The floor: three processes, the messages, descriptors and system calls that the work needs, and nothing else.
class Floor {
  public:
    Floor();
    ~Floor();
    Floor(const Floor&) = delete;
    Floor& operator=(const Floor&) = delete;
    /// One block: `rounds` counted rounds.
    void run(std::uint64_t size, int rounds, HandoverSamples& samples);

  private:
    SharedTimes& times_;
    int socket_ = -1;
    int broker_ = -1;
    int consumer_ = -1;
};

/// The same through hurrayd, whose socket $HURRAY_SOCKET names.
class Brokered {
  public:
    Brokered();
    ~Brokered();
    Brokered(const Brokered&) = delete;
    Brokered& operator=(const Brokered&) = delete;
    /// One block: `rounds` counted rounds.
    void run(std::uint64_t size, int rounds, HandoverSamples& samples);

  private:
    struct State;
    SharedTimes& times_;
    State* state_;
};

}  // namespace bench
