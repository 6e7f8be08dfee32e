#include "daemon/store/journal_state.hpp"

#include <algorithm>
#include <variant>

namespace hurrayd::store {

void JournalState::apply(const keep::Note& note) {
    struct Visitor {
        JournalState& state;

        void operator()(const keep::Name& name) const {
            state.last_version = std::max(state.last_version, name.version);
            state.names.insert_or_assign(name.name, name);
        }
        void operator()(const keep::NameEnded& name) const { state.names.erase(name.name); }
        void operator()(const keep::LastVersion& last) const {
            state.last_version = std::max(state.last_version, last.version);
        }
        void operator()(const keep::Taken& taken) const { state.taken.insert_or_assign(taken.capsule, taken); }
        void operator()(const keep::TakenDropped& taken) const { state.taken.erase(taken.capsule); }
        void operator()(const keep::Answered& answered) const {
            state.answered.insert(answered.capsule);
            state.gone.erase(answered.capsule);
            state.left.erase(answered.capsule);
        }
        void operator()(const keep::Expires& expires) const {
            if (expires.at_ms != 0) {
                state.expires.insert_or_assign(expires.capsule, expires.at_ms);
            } else {
                state.expires.erase(expires.capsule);
            }
        }
        void operator()(const keep::Gone& gone) const { forget(gone.capsule); }
        void operator()(const keep::Left& left) const {
            forget(left.capsule);
            state.left.insert_or_assign(left.capsule, left.version);
        }
        void operator()(const keep::Committed& committed) const { state.committed.insert(committed.group); }
        void forget(const wire::CapsuleId& capsule) const {
            state.answered.erase(capsule);
            state.expires.erase(capsule);
            state.gone.insert(capsule);
        }
    };
    std::visit(Visitor{*this}, note);
}

}  // namespace hurrayd::store
