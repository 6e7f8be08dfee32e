#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "daemon/registry.hpp"
#include "libhurray/base/checked_math.hpp"

// Who has how much, who may have more, and what it costs hurrayd to keep.

namespace hurrayd {
namespace {

/// How many of those who have most a refusal and a StatusReply name.
constexpr std::size_t kHolders = 3;
/// Entries of StatusReply.holders: up to 120 bytes each.
constexpr std::size_t kStatusHolders = 100;

/// What is counted of clients as it is of their users, under the name that StatusReply gives it.
struct Pair {
    std::string_view name;
    Quota of_user;
    Quota of_client;
};
constexpr auto kPairs = std::to_array<Pair>({{"capsules", Quota::Capsules, Quota::ClientCapsules},
                                             {"leases", Quota::Leases, Quota::ClientLeases},
                                             {"waiting", Quota::Waiting, Quota::ClientWaiting},
                                             {"watches", Quota::Watches, Quota::ClientWatches},
                                             {"bytes", Quota::Bytes, Quota::ClientBytes},
                                             {"daemon_bytes", Quota::DaemonBytes, Quota::ClientDaemonBytes}});

const Pair* pair_of(Quota of_user) noexcept {
    const auto* const found =
        std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.of_user == of_user; });
    return found != kPairs.end() ? found : nullptr;
}

// ---- What things cost: nodes, strings and arrays as the C++ library lays them out, in blocks as glibc cuts them

constexpr std::uint64_t block(std::uint64_t bytes) noexcept {
    return bytes == 0 ? 0 : std::max<std::uint64_t>(32, (bytes + 8 + 15) / 16 * 16);
}
template <class T>
constexpr std::uint64_t tree_node() noexcept {
    return block(32 + sizeof(T));
}
/// With its place in the table.
template <class T>
constexpr std::uint64_t hash_node() noexcept {
    return block(16 + sizeof(T)) + 8;
}
std::uint64_t text(std::string_view content) noexcept { return content.size() < 16 ? 0 : block(content.size() + 1); }

/// What a connection is elsewhere: in the server, in Outbound, with its two entries in the event loop.
constexpr std::uint64_t kConnection = 2048;
/// A segment where its descriptor is kept.
constexpr std::uint64_t kKeptDescriptor = hash_node<std::array<std::uint64_t, 7>>();

}  // namespace

// ---- How much there is ----------------------------------------------------------------------------------------------

std::uint64_t Registry::use_of(const Totals& user, Quota quota) noexcept {
    switch (quota) {
        case Quota::Capsules:
            return user.capsules;
        case Quota::Names:
            return user.names;
        case Quota::Leases:
            return user.leases + user.claims;
        case Quota::Waiting:
            return user.waiting;
        case Quota::Watches:
            return user.watches;
        case Quota::Reservations:
            return user.reservations;
        case Quota::Descriptors:
            return user.descriptors;
        case Quota::Bytes:
            return user.bytes + user.reserved;
        case Quota::DaemonBytes:
            return user.kept_bytes + user.queued_bytes;
        default:
            return user.clients;
    }
}

/// Of what is counted of clients.
std::uint64_t Registry::use_of(const Session& session, Quota quota) noexcept {
    switch (quota) {
        case Quota::Capsules:
            return session.capsules_size;
        case Quota::Leases:
            return session.leases.size() + session.claimed.size();
        case Quota::Waiting:
            return session.waiting.size() + session.pending;
        case Quota::Watches:
            return session.watches.size();
        case Quota::Bytes:
            return session.bytes;
        default:
            return session.kept_bytes + session.queued_bytes;
    }
}

/// The clients of a user that have most of something, whoever has most first. The connection of `asker`, if there is one, costs nothing.
std::vector<wire::Holder> Registry::holders(std::uint32_t uid, Quota quota, const Session* asker) const {
    const Pair* const pair = pair_of(quota);
    const auto sessions = sessions_of_.find(uid);
    if (pair == nullptr || sessions == sessions_of_.end()) {
        return {};
    }
    std::array<std::pair<std::uint64_t, const Session*>, kHolders + 1> most{};
    std::size_t found = 0;
    for (const Session& session : sessions->second) {
        const bool is_left_out = &session == asker && quota == Quota::DaemonBytes;
        const std::uint64_t left_out = is_left_out ? session.own_bytes + session.queued_bytes : 0;
        if (const std::uint64_t used = use_of(session, quota) - left_out; used != 0) {
            most.at(found) = {used, &session};
            for (std::size_t i = found; i > 0 && most.at(i).first > most.at(i - 1).first; --i) {
                std::swap(most.at(i), most.at(i - 1));
            }
            found = std::min(found + 1, kHolders);
        }
    }
    std::vector<wire::Holder> holders;
    for (std::size_t i = 0; i < found; ++i) {
        const auto& [used, session] = most.at(i);
        holders.push_back({std::string(pair->name), uid, session->identity.pid, session->identity.label, used,
                           quotas_.limit(pair->of_client)});
    }
    return holders;
}

void Registry::list_holders(std::uint32_t uid, const Session& asker, wire::StatusReply& reply) const {
    for (const Pair& pair : kPairs) {
        for (wire::Holder& holder : holders(uid, pair.of_user, &asker)) {
            if (reply.holders.size() == kStatusHolders) {
                return;
            }
            reply.holders.push_back(std::move(holder));
        }
    }
}

// ---- Who may have more ----------------------------------------------------------------------------------------------

/// Whether `session` may have `more` of what its user has a quota of, and itself. The refusal says which of the user's clients have most.
hurray::Result<void> Registry::admit(const Session& session, Quota quota, std::uint64_t more) {
    const std::uint32_t uid = session.identity.uid;
    const Pair* const pair = pair_of(quota);
    if (pair != nullptr && !quotas_.fits(pair->of_client, use_of(session, quota), more)) {
        return refuse_quota(uid, quota, quotas_.refuse(pair->of_client, uid, use_of(session, quota), more));
    }
    if (const std::uint64_t used = use_of(count(uid), quota); !quotas_.fits(quota, used, more)) {
        return refuse_quota(uid, quota, quotas_.refuse(quota, uid, used, more));
    }
    // Without that limit one user's reservations, which are but numbers, take nothing from another one: the sum may wrap.
    if (quota == Quota::Bytes && quotas_.limit(Quota::AllBytes) != 0 &&
        !quotas_.fits(Quota::AllBytes, all_bytes_, more)) {
        return refuse_quota(uid, quota, quotas_.refuse(Quota::AllBytes, uid, all_bytes_, more));
    }
    return {};
}

/// With who of that user has most.
tl::unexpected<hurray::Error> Registry::refuse_quota(std::uint32_t uid, Quota quota,
                                                     tl::unexpected<hurray::Error> refused) const {
    const char* before = "; of user ";
    for (const wire::Holder& holder : holders(uid, quota)) {
        std::string& message = refused.value().message;
        if (before[0] == ';') {
            message += before + std::to_string(uid) + " the most has ";
        } else {
            message += before;
        }
        message += holder.client_name.empty() ? "a client" : "\"" + holder.client_name + "\"";
        message += " (pid " + std::to_string(holder.pid) + "): " + std::to_string(holder.used);
        before = ", then ";
    }
    return refused;
}

hurray::Result<void> Registry::admit_bytes(const Session& session, std::uint64_t more, std::string field) {
    auto admitted = admit(session, Quota::Bytes, more);
    if (!admitted) {
        admitted.error().field = std::move(field);
    }
    return admitted;
}

/// Whether there is room on the books for a capsule, its segments and its name, which `known` is, if there is one.
hurray::Result<void> Registry::admit_capsule(const Session& producer, const wire::Publish& publish,
                                             Names::const_iterator known) {
    auto admitted = admit(producer, Quota::Capsules);
    const bool names_afresh = !publish.name.empty() && known == names_.end();
    if (admitted && names_afresh && publish.group == 0) {  // those of a group are made, and counted, by its commit
        admitted = admit(producer, Quota::Names);
    }
    if (admitted) {
        const auto fresh =
            std::count_if(publish.segments.begin(), publish.segments.end(),
                          [&](const wire::Segment& segment) { return !producer.segments.contains(segment.number); });
        std::uint64_t cost = cost_of(publish) + static_cast<std::uint64_t>(fresh) * cost_of_segment();
        cost += publish.group != 0 ? cost_of_staging(publish.name) : (names_afresh ? cost_of_name(publish.name) : 0);
        admitted = admit(producer, Quota::DaemonBytes, cost);
    }
    return admitted;
}

hurray::Result<void> Registry::admit_lease(const Session& consumer, bool once) {
    auto admitted = admit(consumer, Quota::Leases);
    if (admitted) {
        admitted = admit(consumer, Quota::DaemonBytes, cost_of_lease(once));
    }
    return admitted;
}

/// A claim is what becomes a lease, or may.
bool Registry::admit_claim(const Session& consumer) {
    return admit(consumer, Quota::Leases) &&
           admit(consumer, Quota::DaemonBytes, std::max(cost_of_claim(), cost_of_lease(true)));
}

bool Registry::is_user_full(SessionNumber number) const noexcept {
    const auto found = sessions_.find(number.value);
    const std::uint64_t limit = quotas_.limit(Quota::DaemonBytes);
    if (found == sessions_.end() || limit == 0) {
        return false;
    }
    const auto use = uses_.find(found->second.identity.uid);
    return use != uses_.end() && use_of(use->second, Quota::DaemonBytes) >= limit;
}

// ---- What it costs --------------------------------------------------------------------------------------------------

/// Puts `bytes` on a user's bill, and on that of the session with which they go, if there is one.
void Registry::charge(Session* session, std::uint32_t uid, std::uint64_t bytes) {
    count(uid).kept_bytes += bytes;
    cost_ += bytes;
    if (session != nullptr) {
        session->kept_bytes += bytes;
    }
}

void Registry::discharge(Session* session, std::uint32_t uid, std::uint64_t bytes) {
    count(uid).kept_bytes -= bytes;
    cost_ -= bytes;
    if (session != nullptr) {
        session->kept_bytes -= bytes;
    }
}

void Registry::note_queued(SessionNumber number, std::uint64_t bytes) noexcept {
    if (const auto found = sessions_.find(number.value); found != sessions_.end()) {
        std::uint64_t& queued = found->second.queued_bytes;
        std::uint64_t& of_user = uses_.at(found->second.identity.uid).queued_bytes;
        of_user = of_user - queued + bytes;
        cost_ = cost_ - queued + bytes;
        queued = bytes;
    }
}

/// They are used from now on, which takes memory where they leave gaps.
void Registry::book_leases(Session& session, std::uint64_t number, bool with_all_below) {
    const std::size_t before = session.used_leases.size();
    with_all_below ? session.used_leases.insert_up_to(number) : session.used_leases.insert(number);
    if (session.used_leases.size() > kMostRanges) {
        session.used_leases.close_lowest_gap();
    }
    if (session.used_leases.size() != before) {
        charge_anew(session);
    }
}

/// A gap between forgotten segments may be one that is still to be published: they are numbered when they are allocated. So it never counts.
void Registry::book_forgotten(Session& session, std::uint64_t number) {
    session.forgotten.insert(number);
    if (session.forgotten.size() > kMostRanges) {
        session.forgotten.drop_lowest();
    }
    charge_anew(session);
}

/// What the session itself is has changed.
void Registry::charge_anew(Session& session) {
    const std::uint64_t before = std::exchange(session.own_bytes, cost_of(session));
    if (session.own_bytes != before) {
        discharge(&session, session.identity.uid, before);
        charge(&session, session.identity.uid, session.own_bytes);
    }
}

std::uint64_t Registry::cost_of(const Session& session) noexcept {
    return hash_node<std::pair<const std::uint64_t, Session>>() + tree_node<decltype(session_ids_)::value_type>() +
           kConnection + block(session.identity.groups.size() * sizeof(std::uint32_t)) + text(session.identity.label) +
           (session.used_leases.size() + session.forgotten.size()) *
               tree_node<std::pair<const std::uint64_t, std::uint64_t>>();
}

/// A capsule, its name left out. Equal descriptors are kept once, but each is counted with each capsule: whose it would be else?
std::uint64_t Registry::cost_of_capsule(std::string_view descriptor, std::size_t segments, std::size_t placements,
                                        bool once, bool lingers) noexcept {
    return hash_node<std::pair<const wire::CapsuleId, Capsule>>() + hash_node<std::pair<std::string, std::size_t>>() +
           text(descriptor) + block(segments * sizeof(Segment*) + placements * sizeof(wire::Placement)) +
           (once ? block(sizeof(wire::LeaseId)) : 0) +
           (lingers ? block(sizeof(Lingering)) + tree_node<Expiries::value_type>() : 0);
}

std::uint64_t Registry::cost_of(const wire::Publish& publish) noexcept {
    return cost_of_capsule(publish.descriptor, publish.segments.size(), publish.placements.size(), publish.once,
                           publish.linger_ms.has_value());
}

std::uint64_t Registry::cost_of(const Capsule& capsule) noexcept {
    const auto& content = capsule.content;
    return cost_of_capsule(content.descriptor(), content.segments().size(), content.placements().size(), capsule.once,
                           capsule.lingering != nullptr);
}

std::uint64_t Registry::cost_of_name(const std::string& name) noexcept {
    return name.empty() ? 0 : tree_node<Names::value_type>() + text(name);
}

/// That a capsule is a member of a group: with the name that it wants, which is as much as it will be, and where the group keeps it.
std::uint64_t Registry::cost_of_staging(const std::string& name) noexcept {
    return block(sizeof(Staged)) + cost_of_name(name) + text(name);
}

/// A publish that waits, with what it brought.
std::uint64_t Registry::cost_of(const Pending& pending) noexcept {
    const wire::Publish& publish = pending.publication.request;
    return sizeof(Pending) + text(publish.name) + text(publish.descriptor) +
           block(publish.segments.size() * sizeof(wire::Segment)) +
           block(publish.placements.size() * sizeof(wire::Placement)) +
           block(pending.publication.brought.size() * sizeof(BroughtSegment)) + pending.descriptors * kKeptDescriptor;
}

/// An attach that waits: with what finds it by its lease, its time, its name or id.
std::uint64_t Registry::cost_of(const wire::Attach& attach) noexcept {
    const auto* name = std::get_if<std::string>(&attach.what);
    return hash_node<std::pair<const std::uint64_t, Waiter>>() + hash_node<std::uint64_t>() +
           2 * tree_node<std::pair<const std::uint64_t, Waiter*>>() +
           hash_node<std::pair<const std::string, WaiterList>>() + (name != nullptr ? 2 * text(*name) : 0);
}

std::uint64_t Registry::cost_of_watch(const std::string& pattern) noexcept {
    return tree_node<std::pair<const std::uint64_t, Watch>>() + hash_node<std::pair<const std::string, WatchList>>() +
           2 * text(pattern) + block(wire::kMaxNameBytes + 2);
}

/// An event that waits for the end of a snapshot.
std::uint64_t Registry::cost_of(const wire::Watched& kept_back) noexcept {
    return sizeof kept_back + text(kept_back.name);
}

/// `once`: of a take.
std::uint64_t Registry::cost_of_lease(bool once) noexcept {
    return hash_node<std::pair<const std::uint64_t, Lease>>() +
           (once ? hash_node<std::pair<const std::uint64_t, Lease*>>() : 0);
}

std::uint64_t Registry::cost_of_segment() noexcept {
    return hash_node<std::pair<const std::uint64_t, Segment>>() +
           tree_node<std::pair<const wire::FileIdentity, File>>() +
           tree_node<std::pair<const std::uint64_t, Segment*>>() + kKeptDescriptor;
}

std::uint64_t Registry::cost_of_reservation() noexcept {
    return hash_node<std::pair<const std::uint64_t, Reservation>>();
}

std::uint64_t Registry::cost_of_group() noexcept { return tree_node<std::pair<const std::uint64_t, Group>>(); }

/// A claim that waits for its capsule, and the answer that may wait for it.
std::uint64_t Registry::cost_of_claim() noexcept {
    return tree_node<Claims::value_type>() + hash_node<std::pair<const wire::CapsuleId, Claims>>() +
           hash_node<std::pair<const std::uint64_t, wire::CapsuleId>>() +
           hash_node<std::pair<const std::uint64_t, Answer>>();
}

}  // namespace hurrayd
