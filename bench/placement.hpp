#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace bench {

/// Which processors the processes of a benchmark run on.
enum class Placement {
    Apart,     ///< producer and daemon on one, the consumer on another of its own
    Together,  ///< all on one
    Free,      ///< where the scheduler likes
};

[[nodiscard]] std::optional<Placement> placement_from(std::string_view text) noexcept;
/// In words, for people.
[[nodiscard]] const char* to_string(Placement placement) noexcept;

/// The two processors that placing uses: of those that this process may run on the first, and the next that is not another thread
/// of the same core, if there is one. -1: there is no second.
struct Processors {
    int first = 0;
    int second = -1;
};
[[nodiscard]] Processors usable_processors();

/// Puts all threads of a process there; 0 is this one. False, with errno, where that isn't permitted.
[[nodiscard]] bool put(pid_t process, int processor);

/// Puts the daemons on the first, and this process, who asks them, on the second; as far as that is permitted. Does nothing if there
/// is no second.
void put_apart(std::initializer_list<pid_t> daemons, const Processors& processors);

}  // namespace bench
