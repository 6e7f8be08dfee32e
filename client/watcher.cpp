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
    made->callback = callback;
    made->context = context;
    std::uint64_t number = 0;
    {
        // On the books before it is sent: its first event may be read by another thread.
        const std::lock_guard lock(mutex_);
        number = ++last_watch_;
        watches_.emplace(number, made);
    }
    auto reply = connection.call(wire::Watch{number, std::move(pattern)}, {});
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
    EventRecord record{to_kind(event.what), 0, HURRAY_OK, event.capsule, event.version, 0, std::move(event.name)};
    {
        const std::lock_guard lock(watch->mutex);
        if (watch->gap || watch->cancelled) {
            return;
        }
        if (watch->untold == kMostUntold) {
            watch->gap = true;
            record = EventRecord{};
            record.kind = HURRAY_EVENT_GAP;
        }
        ++watch->untold;
    }
    notices.push_back([watch = std::move(watch), record = std::move(record)] {
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
