#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "bench/system_calls.hpp"

/// Both ways of handing a tensor over, measured alike.
///
/// A block of rounds begins with as many fresh segments, each with its first byte written, and ends with freeing them; that is
/// not timed. Each round is the same:
///
/// 1. The consumer is known to wait. The producer publishes, the descriptor travels, the consumer maps the segment, reads the
///    first byte, lets the tensor go, and the producer learns of it.
/// 2. The consumer attaches the same once more. It has kept the mapping.
/// 3. The producer withdraws it and publishes the same memory again: no descriptor travels, and the consumer has its mapping.
///
/// In between the consumer sleeps in a read of a pipe, until the producer has been told: so nothing that is timed runs beside
/// something else.
namespace bench {

struct HandoverSamples {
    std::vector<std::uint64_t> publish_to_view;     ///< the producer begins to publish -> the consumer has read a byte
    std::vector<std::uint64_t> publish_to_release;  ///< ... -> the producer knows that the consumer is done
    std::vector<std::uint64_t> attach;              ///< the consumer asks for what is there -> it has read a byte
    std::vector<std::uint64_t> again_to_view;       ///< as the first two, of memory that both have mapped
    std::vector<std::uint64_t> again_to_release;
};

enum class Step { Publish, Attach, Again };
inline constexpr std::size_t kSteps = 3;

/// Who takes part. The broker is hurrayd, or the floor's.
struct Processes {
    pid_t producer = 0;
    pid_t consumer = 0;
    pid_t broker = 0;
};

/// What the three do in each step, over all counted rounds. The producer says when a step begins and ends; when all sleep then, nothing
/// is counted to the wrong step.
class StepCounts {
  public:
    explicit StepCounts(const CallCounts& counts) : counts_(counts) {}
    void begin(const Processes& processes);
    void end(const Processes& processes, Step step);

    using Sides = std::array<Activity, 3>;  ///< producer, consumer, broker
    [[nodiscard]] const Sides& of(Step step) const { return steps_[static_cast<std::size_t>(step)]; }

  private:
    const CallCounts& counts_;
    Sides before_;
    std::array<Sides, kSteps> steps_;
};

/// A page that producer and consumer share besides, for times only.
struct SharedTimes {
    std::atomic<std::uint64_t> viewed{0};
    std::atomic<std::uint64_t> attached{0};
};
[[nodiscard]] SharedTimes& make_shared_times();

/// Lets the consumer go on: one byte through a pipe. By writev and readv, which nothing else here calls, so that counting can leave
/// them out.
class Baton {
  public:
    Baton();
    void pass() const;  ///< by the producer
    void take() const;  ///< by the consumer: sleeps until it is passed
    /// For the producer, once the consumer is forked: its end of the pipe closes with the producer.
    void close_reading_end();
    void close_writing_end();

  private:
    int ends_[2] = {-1, -1};
};

/// One byte, read so that the compiler can't leave it out.
void touch(const void* data);

/// The first rounds of a block are not counted: making the segments has emptied the caches.
inline constexpr int kUncounted = 2;

/// Called between making the segments and the first round: spends processor time. Making a gigabyte does that, making a page
/// does not, and who has spent less runs first where two are woken on one processor. So all sizes are in the same state:
/// that of a producer which has just filled its tensor.
void settle();

/// Puts this process on `processor`, unless that is negative.
void place_consumer(int processor);

/// The floor: three processes, the messages, descriptors and system calls that the work needs, and nothing else.
class Floor {
  public:
    /// The consumer runs on `consumer_processor`, unless that is negative.
    explicit Floor(int consumer_processor);
    ~Floor();
    Floor(const Floor&) = delete;
    Floor& operator=(const Floor&) = delete;
    /// One block: `rounds` rounds that are timed, or counted if there are `counts`.
    void run(std::uint64_t size, int rounds, HandoverSamples& samples, StepCounts* counts = nullptr);

  private:
    SharedTimes& times_;
    Baton baton_;
    int socket_ = -1;
    Processes processes_;
};

/// The same through hurrayd, whose socket $HURRAY_SOCKET names.
class Brokered {
  public:
    explicit Brokered(int consumer_processor);
    ~Brokered();
    Brokered(const Brokered&) = delete;
    Brokered& operator=(const Brokered&) = delete;
    /// One block: `rounds` rounds that are timed, or counted if there are `counts`.
    void run(std::uint64_t size, int rounds, HandoverSamples& samples, StepCounts* counts = nullptr);

  private:
    struct State;
    SharedTimes& times_;
    Baton baton_;
    State* state_;
};

}  // namespace bench
