#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hurray::model {

/// What a model can come to, all of it.
struct Exploration {
    std::size_t states = 0;
    std::size_t steps = 0;
    std::size_t ends = 0;                ///< states in which nobody can move, and all is well
    std::optional<std::string> mistake;  ///< what is wrong first, and by which steps it came to that
};

/// Visits every state of `Model`, nearest first, so that a mistake is told with as few steps as it can be made in.
///
/// A model has
///   State                      compared and hashed by its bytes: no padding, nothing left over in it
///   State first() const
///   void for_each_step(const State&, Visit visit) const      visit(const State& next, std::string_view what)
///   std::optional<std::string> wrong(const State&) const     what must never be so
///   std::optional<std::string> wrong_at_rest(const State&) const   what must not be so where nobody can move any more
///   std::string describe(const State&) const
///
/// Beside those two, a state from which no rest can be reached is a mistake: some would run for ever.
template <typename Model>
class Explorer {
  public:
    explicit Explorer(const Model& model) : model_(model) {}

    Exploration explore() {
        find(model_.first(), kNobody, {});
        for (std::size_t at = 0; at < known_.size(); ++at) {
            const State state = *known_[at].state;  // what follows may move everything
            if (auto wrong = model_.wrong(state)) {
                return told(at, *wrong);
            }
            bool moves = false;
            model_.for_each_step(state, [&](const State& next, std::string_view what) {
                moves = true;
                const std::size_t to = find(next, at, what);
                edges_.emplace_back(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(to));
            });
            if (!moves) {
                if (auto wrong = model_.wrong_at_rest(state)) {
                    return told(at, *wrong);
                }
                ends_.push_back(at);
            }
        }
        if (const auto restless = find_restless()) {
            return told(*restless, "from here nobody ever comes to rest");
        }
        return {known_.size(), edges_.size(), ends_.size(), std::nullopt};
    }

  private:
    using State = typename Model::State;
    static constexpr std::size_t kNobody = SIZE_MAX;

    struct Known {
        const State* state;  // the index's own, which stays
        std::size_t from;
        std::string_view what;  // a literal of the model's
    };
    struct Hash {
        std::size_t operator()(const State& state) const noexcept {
            return std::hash<std::string_view>()(std::string_view(reinterpret_cast<const char*>(&state), sizeof state));
        }
    };

    std::size_t find(const State& state, std::size_t from, std::string_view what) {
        const auto [place, is_new] = index_.emplace(state, known_.size());
        if (is_new) {
            known_.push_back({&place->first, from, what});
        }
        return place->second;
    }

    /// The nearest state from which no rest can be reached.
    std::optional<std::size_t> find_restless() const {
        std::vector<std::vector<std::uint32_t>> before(known_.size());
        for (const auto& [from, to] : edges_) {
            before[to].push_back(from);
        }
        std::vector<bool> rests(known_.size());
        std::deque<std::size_t> open(ends_.begin(), ends_.end());
        for (const std::size_t end : ends_) {
            rests[end] = true;
        }
        for (; !open.empty(); open.pop_front()) {
            for (const std::uint32_t from : before[open.front()]) {
                if (!rests[from]) {
                    rests[from] = true;
                    open.push_back(from);
                }
            }
        }
        for (std::size_t at = 0; at < rests.size(); ++at) {
            if (!rests[at]) {
                return at;
            }
        }
        return std::nullopt;
    }

    Exploration told(std::size_t at, const std::string& wrong) const {
        std::string steps;
        for (std::size_t i = at; known_[i].from != kNobody; i = known_[i].from) {
            steps = "  " + std::string(known_[i].what) + "\n" + steps;
        }
        return {known_.size(), edges_.size(), ends_.size(),
                wrong + "\n" + steps + "  -> " + model_.describe(*known_[at].state) + "\n"};
    }

    const Model& model_;
    std::unordered_map<State, std::size_t, Hash> index_;
    std::vector<Known> known_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
    std::vector<std::size_t> ends_;
};

template <typename Model>
Exploration explore(const Model& model) {
    return Explorer<Model>(model).explore();
}

}  // namespace hurray::model
