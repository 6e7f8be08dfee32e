#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "tests/soak/actor.hpp"

namespace hurray::soak {

/// The processes of a run, each this program again with a part to play. Whatever still runs when this goes is killed.
///
/// They are executed afresh rather than only forked: so each has its own sanitizer, and it does not matter what this process has.
class Stage {
  public:
    Stage() = default;
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    ~Stage();

    /// Throws std::system_error.
    void start(Part part);
    /// How many of that role are running.
    [[nodiscard]] std::size_t running(const std::string& role) const;
    /// Takes note of who has ended. False if somebody ended otherwise than well, which is said.
    [[nodiscard]] bool look();
    /// Kills one of that role, whatever it is doing, and starts the next one in its place.
    void replace(const std::string& role, Random& random);

  private:
    struct Actor {
        Part part;
        pid_t pid;
    };
    std::vector<Actor> actors_;
};

/// The part that the program was started with by a Stage, if it was.
[[nodiscard]] std::optional<Part> part_of(int argc, char** argv);

}  // namespace hurray::soak
