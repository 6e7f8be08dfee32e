#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/static_vector.hpp>
#include <boost/intrusive/set.hpp>

#include "daemon/access.hpp"

namespace hurrayd {

/// Capsules in the order of name and version, so kept that whoever looks comes across nothing that he may not read: neither a cursor nor
/// the time that a look takes tells of others' capsules.
///
/// A capsule stands on the shelf of each kind of reader that it has. A viewer's `View` is the merge of the shelves that are for
/// him. One that stands on two of them is seen once.
///
/// | shelf | capsules |
/// |---|---|
/// | Owner(uid) | that this user published and may read |
/// | Members(gid) | that the group may read, and others not |
/// | Everybody | that the group and others may read |
/// | Strangers(gid) | that others may read, and the group not |
/// | Nobody | that root alone may read |
///
/// So a viewer merges his own shelf, one for each group that he is in and that has one, that of everybody, and those of groups that are kept
/// out of something, if he is in none of them. All that he finds there he may read, but for capsules of his own user, from which that user has
/// shut itself out. Root merges all of them.
///
/// A `Capsule` has an `id`, an `access`, a `place()` and `standings`, none of which change while it is here; it stands in one of them at a
/// time. Threads: one.
template <class Capsule>
class Shelves {
  public:
    using Place = std::pair<std::string_view, std::uint64_t>;

    /// A capsule's place on one shelf.
    struct Standing : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
        Capsule* capsule = nullptr;
    };
    /// What a capsule has of them.
    using Standings = std::array<Standing, 2>;

    void add(Capsule& capsule) {
        auto standing = capsule.standings.begin();
        for (const Key& key : keys_of(capsule)) {
            standing->capsule = &capsule;
            shelves_[key].insert(*standing++);
        }
        ++size_;
    }
    void remove(Capsule& capsule) {
        auto standing = capsule.standings.begin();
        for (const Key& key : keys_of(capsule)) {
            const auto shelf = shelves_.find(key);
            shelf->second.erase(shelf->second.iterator_to(*standing++));
            if (shelf->second.empty()) {
                shelves_.erase(shelf);
            }
        }
        --size_;
    }

  private:
    struct PlaceOf {
        using type = Place;
        Place operator()(const Standing& standing) const { return standing.capsule->place(); }
    };
    using Shelf = boost::intrusive::set<Standing, boost::intrusive::key_of_value<PlaceOf>,
                                        boost::intrusive::constant_time_size<false>>;

  public:
    /// What a viewer has before him, from some place on. Good until something is added or removed.
    class View {
      public:
        /// In the order of places; null at the end.
        [[nodiscard]] Capsule* next() {
            while (!ranges_.empty()) {
                std::pop_heap(ranges_.begin(), ranges_.end(), is_later);
                Range& first = ranges_.back();
                Capsule* const capsule = first.at->capsule;
                if (++first.at == first.end) {
                    ranges_.pop_back();
                } else {
                    std::push_heap(ranges_.begin(), ranges_.end(), is_later);
                }
                if (last_ != capsule) {
                    last_ = capsule;
                    return capsule;
                }
            }
            return nullptr;
        }

      private:
        friend class Shelves;
        struct Range {
            typename Shelf::const_iterator at;
            typename Shelf::const_iterator end;
        };
        static bool is_later(const Range& a, const Range& b) { return b.at->capsule->place() < a.at->capsule->place(); }

        void add(const Shelf& shelf, const Place& after) {
            const auto at = shelf.upper_bound(after);
            if (at != shelf.end()) {
                ranges_.push_back({at, shelf.end()});
                std::push_heap(ranges_.begin(), ranges_.end(), is_later);
            }
        }

        std::vector<Range> ranges_;  // a heap: what comes next is in front
        const Capsule* last_ = nullptr;
    };

    /// Adds to `view` what `viewer`, whose groups are sorted, sees behind `after`. Costs O(log n) for each shelf that is for him.
    void show(View& view, const Identity& viewer, const Place& after) const {
        visit_shelves(viewer, [&](const Shelf& shelf) { view.add(shelf, after); });
    }

    /// The last one under `name` that `viewer` sees and that `is_good`; null: there is none. Costs O(log n) for each shelf that is for him, and
    /// looks at what is not good.
    template <class IsGood>
    [[nodiscard]] Capsule* last_under(std::string_view name, const Identity& viewer, IsGood&& is_good) const {
        Capsule* last = nullptr;
        visit_shelves(viewer, [&](const Shelf& shelf) {
            for (auto at = shelf.upper_bound(Place{name, UINT64_MAX}); at != shelf.begin();) {
                Capsule* const capsule = (--at)->capsule;
                const Place place = capsule->place();
                if (place.first != name || (last != nullptr && place.second <= last->place().second)) {
                    break;
                }
                if (is_good(*capsule)) {
                    last = capsule;
                    break;
                }
            }
        });
        return last;
    }

    /// How many capsules there are; and on how many shelves they stand.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t places() const noexcept {
        std::size_t sum = 0;
        for (const auto& [key, shelf] : shelves_) {
            sum += shelf.size();
        }
        return sum;
    }
    /// Whether it stands on each shelf that it belongs on; then on how many.
    [[nodiscard]] std::optional<std::size_t> places_of(const Capsule& capsule) const {
        const auto keys = keys_of(capsule);
        const bool all = std::all_of(keys.begin(), keys.end(), [&](const Key& key) {
            const auto shelf = shelves_.find(key);
            if (shelf == shelves_.end()) {
                return false;
            }
            const auto found = shelf->second.find(capsule.place());
            return found != shelf->second.end() && found->capsule == &capsule;
        });
        return all ? std::optional(keys.size()) : std::nullopt;
    }

    enum class Kind : std::uint8_t { Owner, Members, Everybody, Strangers, Nobody };
    struct Key {
        Kind kind;
        std::uint32_t id;
        friend auto operator<=>(const Key&, const Key&) = default;
    };

    static boost::container::static_vector<Key, 2> keys_of(const Capsule& capsule) {
        const wire::Access& access = capsule.access;
        const auto grants_read = [&](unsigned shift) { return ((access.mode >> shift) & 4U) != 0; };
        boost::container::static_vector<Key, 2> keys;
        if (grants_read(6)) {
            keys.push_back({Kind::Owner, capsule.id.uid});
        }
        if (grants_read(3) && grants_read(0)) {
            keys.push_back({Kind::Everybody, 0});
        } else if (grants_read(3)) {
            keys.push_back({Kind::Members, access.gid});
        } else if (grants_read(0)) {
            keys.push_back({Kind::Strangers, access.gid});
        } else if (keys.empty()) {
            keys.push_back({Kind::Nobody, 0});
        }
        return keys;
    }

  private:
    template <class Visit>
    void visit_shelves(const Identity& viewer, Visit&& visit) const {
        if (viewer.is_root) {
            for (const auto& [key, shelf] : shelves_) {
                visit(shelf);
            }
            return;
        }
        for (const Key& key : {Key{Kind::Owner, viewer.uid}, Key{Kind::Everybody, 0}}) {
            if (const auto shelf = shelves_.find(key); shelf != shelves_.end()) {
                visit(shelf->second);
            }
        }
        // There may be thousands of groups on either side: whichever is behind leaps to where the other one is.
        auto group = viewer.groups.begin();
        auto shelf = shelves_.lower_bound({Kind::Members, 0});
        while (group != viewer.groups.end() && shelf != shelves_.end() && shelf->first.kind == Kind::Members) {
            if (shelf->first.id < *group) {
                shelf = shelves_.lower_bound({Kind::Members, *group});
            } else if (*group < shelf->first.id) {
                group = std::lower_bound(group, viewer.groups.end(), shelf->first.id);
            } else {
                visit(shelf->second);
                ++group;
                ++shelf;
            }
        }
        for (shelf = shelves_.lower_bound({Kind::Strangers, 0});
             shelf != shelves_.end() && shelf->first.kind == Kind::Strangers; ++shelf) {
            if (!std::binary_search(viewer.groups.begin(), viewer.groups.end(), shelf->first.id)) {
                visit(shelf->second);
            }
        }
    }

    std::map<Key, Shelf> shelves_;  // none empty
    std::size_t size_ = 0;
};

}  // namespace hurrayd
