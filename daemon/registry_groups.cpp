#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/registry.hpp"

// Groups: capsules that become visible together, or never. Apart from registry.cpp, which has what every capsule goes through.

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

[[gnu::cold]] tl::unexpected<Error> no_such_group(std::string field, std::uint64_t number) {
    return hurray::fail_field(Errc::NotFound, std::move(field),
                              "this session has no open group " + std::to_string(number));
}

/// Something of which there are `limit` already.
Error over_limit(std::string field, std::string limit_name, std::size_t limit, std::string message) {
    Error error{Errc::Limit, std::move(message) + "; at most " + std::to_string(limit) + " are allowed"};
    error.field = std::move(field);
    error.limit_name = std::move(limit_name);
    error.limit = limit;
    error.in_use = limit;
    error.value = limit + 1;
    return error;
}

}  // namespace

void Registry::group(SessionNumber from, std::uint64_t request_id, const wire::Group& group, Outbox& out) {
    using Action = wire::Group::Action;
    Session& producer = session(from);
    if (group.action == Action::Begin) {
        begin(producer, request_id, group.group, out);
        return;
    }
    if (const auto open = producer.groups.find(group.group); open != producer.groups.end()) {
        if (group.action == Action::Commit) {
            commit(producer, request_id, open->second, out);
        } else {
            abort(producer, request_id, open->second, out);
        }
        return;
    }
    if (const auto& last = producer.last_group; last && last->number == group.group && last->action == group.action) {
        wire::GroupReply again;
        for (std::size_t i = 0; i < last->size; ++i) {
            again.versions.push_back(last->first_version + i);
        }
        out.send(from, request_id, std::move(again));
        return;
    }
    out.send(from, request_id, no_such_group("group.group", group.group).value());
}

void Registry::begin(Session& producer, std::uint64_t request_id, std::uint64_t number, Outbox& out) {
    if (producer.groups.contains(number)) {
        out.send(producer.number, request_id,
                 Error{Errc::AlreadyExists, "group " + std::to_string(number) + " is open in this session already",
                       "group.group"});
        return;
    }
    if (producer.groups.size() >= wire::kMaxOpenGroups) {
        out.send(producer.number, request_id,
                 over_limit("group.group", "open_groups", wire::kMaxOpenGroups,
                            "this session has " + std::to_string(producer.groups.size()) + " open groups"));
        return;
    }
    if (auto admitted = admit(producer, Quota::DaemonBytes, cost_of_group()); !admitted) {
        out.send(producer.number, request_id, std::move(admitted.error()));
        return;
    }
    charge(&producer, producer.identity.uid, cost_of_group());
    producer.groups[number].number = number;
    if (producer.last_group && producer.last_group->number == number) {
        producer.last_group.reset();  // the number is another group's now
    }
    out.send(producer.number, request_id, wire::GroupReply{});
}

/// The group that a publish names, if it may join it.
hurray::Result<Registry::Group*> Registry::group_for(Session& producer, const wire::Publish& publish) {
    const auto open = producer.groups.find(publish.group);
    if (open == producer.groups.end()) {
        return no_such_group("publish.group", publish.group);
    }
    Group& group = open->second;
    if (group.size >= wire::kMaxGroupMembers) {
        return hurray::fail(
            over_limit("publish.group", "group_members", wire::kMaxGroupMembers,
                       "group " + std::to_string(group.number) + " has " + std::to_string(group.size) + " members"));
    }
    if (group.names.contains(publish.name) || (!publish.once && group.queues.contains(publish.name))) {
        // The later one would replace the earlier before anybody has seen it.
        return hurray::fail_field(
            Errc::AlreadyExists, "publish.name",
            "group " + std::to_string(group.number) + " has a member with the name \"" + publish.name + "\" already");
    }
    if (!group.members.empty() && (group.members.front().lingering != nullptr) != publish.linger_ms.has_value()) {
        // The end of its producer, or of the daemon, would leave half of it.
        return hurray::fail_field(Errc::InvalidArgument, "publish.linger_ms",
                                  "group " + std::to_string(group.number) + " has members that " +
                                      (publish.linger_ms ? "end with their producer" : "linger") +
                                      ": all of a group linger, or none of it");
    }
    return &group;
}

void Registry::stage(Capsule& capsule, Group& group, const std::string& name) {
    capsule.staged = std::make_unique<const Staged>(Staged{&group, name});
    group.members.push_back(capsule);
    ++group.size;
    if (name.empty()) {
        // It wants none.
    } else if (capsule.once) {
        ++group.queues[name];
    } else {
        group.names.insert(capsule.staged->wanted_name);
    }
    ++count(capsule.id.uid).staged;
    charge(capsule.producer, capsule.id.uid, cost_of_staging(name));
}

/// Returns the name that it wants.
std::string Registry::unstage(Capsule& capsule) {
    Group& group = *capsule.staged->group;
    std::string name = capsule.staged->wanted_name;
    if (!capsule.once) {
        group.names.erase(name);
    } else if (const auto queue = group.queues.find(name); queue != group.queues.end() && --queue->second == 0) {
        group.queues.erase(queue);
    }
    --group.size;
    capsule.in_session.unlink();
    capsule.staged = nullptr;
    --count(capsule.id.uid).staged;
    discharge(capsule.producer, capsule.id.uid, cost_of_staging(name));
    return name;
}

void Registry::commit(Session& producer, std::uint64_t request_id, Group& group, Outbox& out) {
    // A name may have become somebody else's since. Whatever can be refused is refused before anything changes.
    for (const Capsule& member : group.members) {
        const std::string& name = member.staged->wanted_name;
        if (auto checked = check_name_of_before(producer, name, 0); !checked) {
            checked.error().field = "group.group";
            out.send(producer.number, request_id, std::move(checked.error()));
            return;
        }
        const Names::const_iterator known = names_.find(name);
        if (const auto checked = check_name(producer, known); !checked) {
            const char* const why = checked.error().code == Errc::AlreadyExists
                                        ? "belongs to another user"
                                        : "is held by a capsule that you may not replace";
            out.send(producer.number, request_id,
                     Error{checked.error().code,
                           "group " + std::to_string(group.number) + " has a member with the name \"" + name +
                               "\", which " + why + " by now: nothing of the group is published",
                           "group.group"});
            return;
        }
        if (auto checked = check_kind(known, member.once, "group.group"); !checked) {
            out.send(producer.number, request_id, std::move(checked.error()));
            return;
        }
    }
    const auto count_fresh = [this](const auto& names, auto&& name_of) {
        return static_cast<std::uint64_t>(std::count_if(
            names.begin(), names.end(), [&](const auto& each) { return names_.find(name_of(each)) == names_.end(); }));
    };
    const std::uint64_t fresh_names =
        count_fresh(group.names, [](std::string_view name) { return name; }) +
        count_fresh(group.queues, [](const auto& queue) { return std::string_view(queue.first); });
    if (auto admitted = admit(producer, Quota::Names, fresh_names); !admitted) {
        admitted.error().field = "group.group";
        out.send(producer.number, request_id, std::move(admitted.error()));
        return;
    }
    const std::size_t first = out.packets.size();
    std::vector<Capsule*> members;
    members.reserve(group.size);
    wire::GroupReply reply;
    reply.versions.reserve(group.size);
    // all_of_a_group: first each that lingers is stored, then it is noted that they are all of them and what they replace is gone, in one
    // piece, then that goes. So whenever the daemon dies, its next life finds the whole group or nothing of it, and all of what it replaces
    // or nothing.
    const std::uint64_t number = next_version_;
    bool is_stored = false;
    while (!group.members.empty()) {
        Capsule& member = group.members.front();
        const std::string name = unstage(member);
        producer.capsules.push_back(member);
        put_under_name(member, name, next_version_++);
        store(member, out, number);
        is_stored = is_stored || (member.lingering && member.lingering->is_stored);
        members.push_back(&member);
        reply.versions.push_back(member.version);
    }
    const auto stored = static_cast<std::ptrdiff_t>(out.kept.size());
    if (is_stored) {
        out.kept.emplace_back(keep::Committed{number});
    }
    for (Capsule* member : members) {
        make_live(*member, out);         // ends no other member: those that replace others have names of their own
        note_answered(member->id, out);  // a commit that was not answered is not said again
    }
    std::stable_partition(out.kept.begin() + stored, out.kept.end(),
                          [](const keep::Step& step) { return std::holds_alternative<keep::Note>(step); });
    producer.last_group = EndedGroup{group.number, wire::Group::Action::Commit,
                                     members.empty() ? 0 : members.front()->version, members.size()};
    discharge(&producer, producer.identity.uid, cost_of_group());
    producer.groups.erase(std::uint64_t{group.number});
    out.send_after(first, producer.number, request_id, std::move(reply));
    for (Capsule* member : members) {
        serve_waiters(*member, out);
    }
    continue_announcements(out);
}

void Registry::abort(Session& producer, std::uint64_t request_id, Group& group, Outbox& out) {
    while (!group.members.empty()) {
        end(group.members.front(), out);
    }
    producer.last_group = EndedGroup{group.number, wire::Group::Action::Abort, 0, 0};
    discharge(&producer, producer.identity.uid, cost_of_group());
    producer.groups.erase(std::uint64_t{group.number});
    out.send(producer.number, request_id, wire::GroupReply{});
}

}  // namespace hurrayd
