#include "client/watcher.hpp"

#include <utility>

#include "client/event.hpp"
#include "client/fork_guard.hpp"
#include "proto/wire/names.hpp"

namespace hurray::client {

namespace {

HurrayEventKind to_kind(wire::Watched::What what) {
    switch (what) {
        case wire::Watched::What::Present:
            return HURRAY_EVENT_PRESENT;
        case wire::Watched::What::SnapshotEnd:
            return HURRAY_EVENT_SNAPSHOT_END;
        case wire::Watched::What::Published:
            return HURRAY_EVENT_PUBLISHED;
        case wire::Watched::What::Retired:
            return HURRAY_EVENT_RETIRED;
        case wire::Watched::What::ProducerLost:
            return HURRAY_EVENT_PRODUCER_LOST;
        case wire::Watched::What::Gap:
            break;
    }
    return HURRAY_EVENT_GAP;
}

}  // namespace

Result<std::uint64_t> Watcher::watch(Connection& connection, std::string pattern, HurrayEventFn callback,
                                     void* context) {
    if (auto checked = wire::check_pattern(pattern, "pattern"); !checked) {
        return fail(std::move(checked.error()));
    }
    if (connection.in_child()) {
        return fail(forked());
    }
    auto made = std::make_shared<Watch>();
    made->pattern = pattern;
    made->callback = callback;
    made->context = context;
    std::uint64_t number = 0;
    {
        // On the books before it is sent: its first event may be read by another thread.
        const std::lock_guard lock(mutex_);
        number = ++last_watch_;
        watches_.emplace(number, made);
    }
    Connection::CallOptions options;
    options.on_reply = [&made](const wire::PacketMessage& answer, std::vector<UniqueFd>&, bool) {
        made->is_answered = std::holds_alternative<wire::Done>(answer);
    };
    auto reply = connection.call(wire::Watch{number, std::move(pattern)}, options);
    if (!reply) {
        {
            const std::lock_guard lock(mutex_);
            watches_.erase(number);
        }
        silence(*made);
        connection.post(wire::Unwatch{number});  // it may have begun all the same
        return fail(std::move(reply.error()));
    }
    return number;
}

void Watcher::silence(Watch& watch) {
    std::unique_lock lock(watch.mutex);
    watch.cancelled = true;
    watch.idle.wait(lock,
                    [&] { return watch.running == std::thread::id() || watch.running == std::this_thread::get_id(); });
}

Result<void> Watcher::unwatch(Connection& connection, std::uint64_t watch) {
    if (connection.in_child()) {
        return fail(forked());
    }
    std::shared_ptr<Watch> found;
    {
        const std::lock_guard lock(mutex_);
        auto node = watches_.extract(watch);
        if (node.empty()) {
            return fail_field(Errc::NotFound, "watch", "there is no watch " + std::to_string(watch));
        }
        found = std::move(node.mapped());
    }
    silence(*found);
    connection.post(wire::Unwatch{watch});
    return {};
}

void Watcher::on_watched(wire::Watched&& event, std::vector<Notice>& notices) {
    std::shared_ptr<Watch> watch;
    {
        const std::lock_guard lock(mutex_);
        const auto found = watches_.find(event.watch);
        if (found == watches_.end()) {
            return;
        }
        watch = found->second;
    }
    note(watch, std::move(event), notices);
}

/// Keeps account of what the user believes, and tells what is news.
void Watcher::note(const std::shared_ptr<Watch>& watch, wire::Watched&& event, std::vector<Notice>& notices) {
    using What = wire::Watched::What;
    EventRecord record{to_kind(event.what), 0, HURRAY_OK, event.capsule, event.version, 0, std::move(event.name)};
    switch (event.what) {
        case What::Present:
        case What::Published: {
            const auto [shown, fresh] =
                watch->shown.try_emplace(event.capsule, Watch::Shown{record.name, event.version});
            if (!fresh) {
                shown->second.is_back = true;
                return;  // told before, in this connection or in an earlier one
            }
            if (watch->shown.size() > kMostShown) {
                watch->shown.clear();
                watch->knows_all = false;
            }
            if (watch->is_comparing) {
                record.kind = watch->has_told_snapshot ? HURRAY_EVENT_PUBLISHED : HURRAY_EVENT_PRESENT;
            }
            break;
        }
        case What::Retired:
        case What::ProducerLost:
            if (watch->shown.erase(event.capsule) == 0 && watch->is_comparing && watch->knows_all) {
                return;  // came and went again
            }
            break;
        case What::SnapshotEnd:
            if (watch->is_comparing) {
                end_comparison(watch, notices);
                return;
            }
            watch->has_told_snapshot = true;
            break;
        case What::Gap:
            break;
    }
    tell(watch, std::move(record), notices);
}

/// All that has come back was shown.
void Watcher::end_comparison(const std::shared_ptr<Watch>& watch, std::vector<Notice>& notices) {
    watch->is_comparing = false;
    watch->knows_all = watch->knows_all || watch->shown.size() < kMostShown / 2;
    for (auto at = watch->shown.begin(); at != watch->shown.end();) {
        if (at->second.is_back) {
            ++at;
            continue;
        }
        tell(watch, {HURRAY_EVENT_RETIRED, 0, HURRAY_OK, at->first, at->second.version, 0, at->second.name}, notices);
        at = watch->shown.erase(at);
    }
    EventRecord mark;
    if (!std::exchange(watch->has_told_snapshot, true)) {
        mark.kind = HURRAY_EVENT_SNAPSHOT_END;
        tell(watch, mark, notices);
    }
    mark.kind = HURRAY_EVENT_GAP;
    tell(watch, std::move(mark), notices);
}

Result<void> Watcher::watch_again(Connection& connection, std::vector<Notice>& notices) {
    std::vector<std::pair<std::uint64_t, std::shared_ptr<Watch>>> all;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [number, watch] : watches_) {
            if (watch->is_answered) {  // else whoever waits for the answer has failed
                all.emplace_back(number, watch);
            }
        }
    }
    for (const auto& [number, watch] : all) {
        watch->is_comparing = true;
        for (auto& [capsule, shown] : watch->shown) {
            shown.is_back = false;
        }
        Connection::CallOptions options;
        options.interruptible = false;
        const auto reply = connection.call(wire::Watch{number, watch->pattern}, options);
        if (!reply) {
            if (reply.error().code == Errc::ConnectionLost || reply.error().code == Errc::Closed) {
                return fail(reply.error());
            }
            end_comparison(watch, notices);  // refused: nothing more comes
        }
        const std::lock_guard lock(mutex_);
        if (!watches_.contains(number)) {
            connection.post(wire::Unwatch{number});
        }
    }
    return {};
}

/// Queues an event, or says that some are left out.
void Watcher::tell(const std::shared_ptr<Watch>& watch, EventRecord record, std::vector<Notice>& notices) {
    {
        const std::lock_guard lock(watch->mutex);
        const bool may_be_dropped = record.kind != HURRAY_EVENT_SNAPSHOT_END;  // somebody may wait for it
        if (watch->cancelled || (watch->gap && may_be_dropped)) {
            return;
        }
        const std::size_t most = record.kind == HURRAY_EVENT_PRESENT ? kMostOfSnapshot : kMostUntold;
        if (watch->untold >= most && may_be_dropped) {
            watch->gap = true;
            record = EventRecord{};
            record.kind = HURRAY_EVENT_GAP;
        }
        ++watch->untold;
    }
    notices.push_back([watch, record = std::move(record)] {
        {
            const std::lock_guard lock(watch->mutex);
            --watch->untold;
            watch->gap = watch->gap && record.kind != HURRAY_EVENT_GAP;
            if (watch->cancelled) {
                return false;
            }
            watch->running = std::this_thread::get_id();
        }
        const std::uint32_t born = fork_generation();
        record.tell(watch->callback, watch->context);
        if (fork_generation() != born) {
            return true;  // it forked, and this is the child: the lock may have been another thread's, which isn't here
        }
        const std::lock_guard lock(watch->mutex);
        watch->running = {};
        watch->idle.notify_all();
        return true;
    });
}

std::vector<std::uint64_t> Watcher::cancel_all() {
    std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> all;
    {
        const std::lock_guard lock(mutex_);
        all = watches_;  // still there for unwatch() to wait for
    }
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, watch] : all) {
        numbers.push_back(number);
        const std::lock_guard lock(watch->mutex);
        watch->cancelled = true;
    }
    return numbers;
}

}  // namespace hurray::client
