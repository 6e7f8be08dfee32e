#include <algorithm>
#include <utility>

#include "daemon/refusal.hpp"
#include "daemon/registry.hpp"
#include "proto/wire/access.hpp"
#include "proto/wire/names.hpp"

// What is shown of capsules to whoever may read them: lists, snapshots, and what watchers are told.

namespace hurrayd {
namespace {

using hurray::Errc;
using What = wire::Watched::What;

/// What one Info takes in a packet beside its name and descriptor, at most: every field with its tag and longest varint.
constexpr std::size_t kInfoOverhead = 128;
/// What a page may hold so that the packet around it fits, cursor included.
constexpr std::size_t kPageBytes = wire::kMaxPacketBytes - 1024;
/// Capsules that one List looks at: bounds the time that it keeps everybody else waiting (about a millisecond).
constexpr std::size_t kListBudget = 4096;
/// Packets of a snapshot at a time: fewer than a socket takes, so that a watcher that reads is never cut as slow.
constexpr std::size_t kSnapshotPackets = 128;
/// Changes kept back during a snapshot. More: GAP, and the watcher may look again.
constexpr std::size_t kMaxKeptBack = 1024;
/// What watchers are told at a time, in watches that are looked at: a packet costs as much as several. Keeps everybody else waiting for
/// some hundred microseconds.
constexpr std::size_t kAnnouncementPiece = 4096;
constexpr std::size_t kCostOfTelling = 32;

std::string encode_cursor(std::string_view name, std::uint64_t version) {
    std::string cursor(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        cursor[i] = static_cast<char>(version >> (8 * i));
    }
    return cursor.append(name);
}

bool decode_cursor(std::string_view cursor, std::string_view& name, std::uint64_t& version) {
    if (cursor.size() < 8 || cursor.size() > 8 + wire::kMaxNameBytes) {
        return false;
    }
    version = 0;
    for (std::size_t i = 0; i < 8; ++i) {
        version |= static_cast<std::uint64_t>(static_cast<unsigned char>(cursor[i])) << (8 * i);
    }
    name = cursor.substr(8);
    return true;
}

/// The patterns that a name matches: "", each prefix that ends with a slash, and the name. The size of the one after that of `size` bytes.
std::size_t next_pattern(std::string_view name, std::size_t size) {
    const std::size_t slash = name.find('/', size);
    return slash == std::string_view::npos ? name.size() : slash + 1;
}

}  // namespace

template <class Visit>
std::optional<std::pair<std::string, std::uint64_t>> Registry::visit_from(std::string_view pattern,
                                                                          std::string_view name, std::uint64_t version,
                                                                          const Session& viewer, std::size_t budget,
                                                                          Visit&& visit) const {
    using Place = Shelves<Capsule>::Place;
    const Place after = std::max(Place{pattern, 0}, Place{name, version});  // versions are above 0
    Shelves<Capsule>::View view;
    live_.show(view, viewer.identity, after);
    held_.show(view, viewer.identity, after);
    std::optional<std::pair<std::string, std::uint64_t>> seen;
    for (const Capsule* capsule = view.next(); capsule != nullptr && wire::matches(pattern, capsule->name->first);
         capsule = view.next()) {
        if (budget-- == 0 || (sees(viewer, *capsule) && !visit(capsule->name->first, *capsule))) {
            return seen;
        }
        seen.emplace(capsule->place());
    }
    return std::nullopt;
}

void Registry::list(SessionNumber from, std::uint64_t request_id, const wire::List& list, std::uint64_t now_ms,
                    Outbox& out) const {
    std::string_view name;
    std::uint64_t version = 0;
    if (!list.cursor.empty() && !decode_cursor(list.cursor, name, version)) {
        out.send(from, request_id, refusal(Errc::InvalidArgument, "list.cursor", "not a cursor of a page before"));
        return;
    }
    wire::ListReply page;
    std::size_t bytes = 0;
    const auto stopped = visit_from(
        list.pattern, name, version, session(from), kListBudget, [&](const std::string& text, const Capsule& capsule) {
            const std::string& descriptor = capsule.content.descriptor();
            const std::size_t more = kInfoOverhead + text.size() + (list.with_descriptor ? descriptor.size() : 0);
            if (bytes + more > kPageBytes || (list.limit != 0 && page.capsules.size() >= list.limit)) {
                return false;
            }
            bytes += more;
            wire::Info& info = page.capsules.emplace_back();
            info.capsule = capsule.id;
            info.name = text;
            info.version = capsule.version;
            info.bytes = capsule.buffer_bytes;
            info.leases = capsule.open_leases;
            info.access = capsule.access;
            info.retired = capsule.retired || !is_kept(capsule);
            info.lingering = lingers(capsule);
            info.producer_gone = info.lingering && live_producer(capsule) == nullptr;
            if (capsule.lingering && capsule.lingering->expiry) {
                const std::uint64_t due_ms = (*capsule.lingering->expiry)->first;
                info.expires_ms = due_ms > now_ms ? due_ms - now_ms : 1;
            }
            info.once = capsule.once;
            info.immutable = capsule.is_immutable();
            info.unsealed = capsule.is_unsealed();
            info.pid = capsule.pid;
            if (list.with_descriptor) {
                info.descriptor = descriptor;
            }
            return true;
        });
    if (stopped) {
        page.cursor = encode_cursor(stopped->first, stopped->second);
    }
    out.send(from, request_id, std::move(page));
}

void Registry::watch(SessionNumber from, std::uint64_t request_id, const wire::Watch& watch, Outbox& out) {
    Session& watcher = session(from);
    if (watcher.watches.contains(watch.watch)) {
        out.send(from, request_id,
                 refusal(Errc::AlreadyExists, "watch.watch",
                         "watch number " + std::to_string(watch.watch) + " is in use in this session"));
        return;
    }
    const std::uint64_t cost = cost_of_watch(watch.pattern);
    auto admitted = admit(watcher, Quota::Watches);
    if (admitted) {
        admitted = admit(watcher, Quota::DaemonBytes, cost);
    }
    if (!admitted) {
        out.send(from, request_id, std::move(admitted.error()));
        return;
    }
    charge(&watcher, watcher.identity.uid, cost);
    Watch& added = watcher.watches[watch.watch];
    added.number = watch.watch;
    added.pattern = watch.pattern;
    added.session = &watcher;
    added.place = ++last_watch_;
    watches_[watch.pattern].insert(added);
    ++watcher.snapshots;
    ++count(watcher.identity.uid).watches;
    out.send(from, request_id, wire::Done{});
    continue_snapshots(from, out);
}

bool Registry::has_snapshots(SessionNumber number) const noexcept {
    const auto found = sessions_.find(number.value);
    return found != sessions_.end() && found->second.snapshots != 0;
}

void Registry::continue_snapshots(SessionNumber number, Outbox& out) {
    // A snapshot shows what is. Changes that are still to be told belong before what it shows next.
    if (has_announcements()) {
        return;
    }
    Session& watcher = session(number);
    std::size_t budget = kSnapshotPackets;
    for (auto& [watch_number, watch] : watcher.watches) {
        if (budget == 0 || (watch.in_snapshot && !continue_snapshot(watch, budget, out))) {
            return;
        }
    }
}

/// Writes up to `budget` packets. True: the snapshot is complete.
bool Registry::continue_snapshot(Watch& watch, std::size_t& budget, Outbox& out) {
    Session& watcher = *watch.session;
    const auto stopped =
        visit_from(watch.pattern, watch.shown_name, watch.shown_version, watcher, kListBudget,
                   [&](const std::string& name, const Capsule& capsule) {
                       if (budget == 0) {
                           return false;
                       }
                       if (!capsule.retired) {
                           --budget;
                           out.send(watcher.number, 0,
                                    wire::Watched{watch.number, What::Present, capsule.id, name, capsule.version});
                       }
                       return true;
                   });
    if (stopped) {
        watch.shown_name = stopped->first;
        watch.shown_version = stopped->second;
        return false;
    }
    if (budget == 0) {
        // All is shown; the end and what was kept back come with the next piece. Nothing may be added to the snapshot now.
        watch.shown_name.assign(wire::kMaxNameBytes + 1, '\xff');
        return false;
    }
    watch.in_snapshot = false;
    --watcher.snapshots;
    if (is_window_open() && watcher.identity.resumes) {
        owed_ends_.push_back(watch);
    } else {
        out.send(watcher.number, 0, wire::Watched{watch.number, What::SnapshotEnd, {}, {}, 0});
    }
    for (wire::Watched& event : watch.kept_back) {
        out.send(watcher.number, 0, std::move(event));
    }
    if (watch.gap) {
        out.send(watcher.number, 0, wire::Watched{watch.number, What::Gap, {}, {}, 0});
    }
    watch.kept_back = {};
    discharge(&watcher, watcher.identity.uid, std::exchange(watch.kept_back_bytes, 0));
    watch.gap = false;
    budget = 0;
    return true;
}

void Registry::unwatch(SessionNumber from, std::uint64_t request_id, const wire::Unwatch& unwatch, Outbox& out) {
    Session& watcher = session(from);
    if (const auto watch = watcher.watches.find(unwatch.watch); watch != watcher.watches.end()) {
        remove_watch(watcher, watch);
    }
    out.send(from, request_id, wire::Done{});
}

void Registry::remove_watch(Session& watcher, std::map<std::uint64_t, Watch>::iterator watch) {
    if (watch->second.in_snapshot) {
        --watcher.snapshots;
    }
    watch->second.with_pattern.unlink();
    if (const auto list = watches_.find(watch->second.pattern); list->second.empty()) {
        watches_.erase(list);
    }
    --count(watcher.identity.uid).watches;
    discharge(&watcher, watcher.identity.uid, cost_of_watch(watch->second.pattern) + watch->second.kept_back_bytes);
    watcher.watches.erase(watch);
}

/// Whether anybody watches for a name.
bool Registry::is_watched(std::string_view name) const {
    for (std::size_t size = 0;; size = next_pattern(name, size)) {
        if (watches_.contains(std::string(name.substr(0, size)))) {
            return true;
        }
        if (size == name.size()) {
            return false;
        }
    }
}

/// Puts an event of `capsule` behind those that watchers are still to be told.
void Registry::announce(What what, const Capsule& capsule) {
    const std::string& name = capsule.name->first;
    if (!watches_.empty() && is_watched(name)) {
        announcements_.push_back({{0, what, capsule.id, name, capsule.version}, capsule.access});
        ++announced_;
    }
}

void Registry::continue_announcements(Outbox& out) {
    std::size_t budget = kAnnouncementPiece;
    while (has_announcements() && tell_next(budget, out)) {
        announcements_.pop_front();
    }
}

/// Goes on with the first announcement. True: whoever watches for it has been told. Those who have begun since are shown what is.
bool Registry::tell_next(std::size_t& budget, Outbox& out) {
    Announcement& next = announcements_.front();
    const wire::Watched& event = next.event;
    const std::string_view name = event.name;
    for (;;) {
        if (const auto list = watches_.find(std::string(name.substr(0, next.pattern_size))); list != watches_.end()) {
            for (auto at = list->second.upper_bound(next.told_up_to); at != list->second.end(); ++at) {
                if (budget < kCostOfTelling) {
                    return false;
                }
                Watch& watch = *at;
                next.told_up_to = watch.place;
                --budget;
                if (permits(watch.session->identity, event.capsule.uid, next.access, Right::Read)) {
                    budget -= kCostOfTelling - 1;
                    tell_watch(watch, {watch.number, event.what, event.capsule, event.name, event.version}, out);
                }
            }
        }
        if (next.pattern_size == name.size()) {
            return true;
        }
        next.pattern_size = next_pattern(name, next.pattern_size);
        next.told_up_to = 0;
    }
}

void Registry::tell_watch(Watch& watch, wire::Watched event, Outbox& out) {
    if (!watch.in_snapshot) {
        out.send(watch.session->number, 0, std::move(event));
        return;
    }
    if (std::pair(std::string_view(event.name), event.version) >
        std::pair(std::string_view(watch.shown_name), watch.shown_version)) {
        return;
    }
    if (watch.kept_back.size() >= kMaxKeptBack || is_user_full(watch.session->number)) {
        watch.gap = true;
        return;
    }
    const std::uint64_t cost = cost_of(event);
    charge(watch.session, watch.session->identity.uid, cost);
    watch.kept_back_bytes += cost;
    watch.kept_back.push_back(std::move(event));
}

}  // namespace hurrayd
