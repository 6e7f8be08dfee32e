#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include "daemon/access.hpp"
#include "daemon/content.hpp"
#include "daemon/hash.hpp"
#include "daemon/number_ranges.hpp"
#include "daemon/outbox.hpp"
#include "daemon/quota.hpp"
#include "daemon/shelves.hpp"
#include "daemon/store/journal_state.hpp"
#include "daemon/store/keeping.hpp"
#include "daemon/types.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"
#include "proto/wire/segment_check.hpp"

namespace hurrayd {

/// What a publish brought for one of its segments, once checked and stored.
struct BroughtSegment {
    SegmentNumber number;  ///< the daemon's; none if it came without its descriptor
    wire::FileIdentity file;
};

/// A publish whose descriptors have been checked and stored.
struct Publication {
    wire::Publish request;
    /// For each of `request.segments`, in their order.
    std::vector<BroughtSegment> brought;
    /// Of the non-empty buffers together.
    std::uint64_t buffer_bytes = 0;
};

/// What a life of the daemon has left in the service manager's store.
struct Recovery {
    /// One whose segments are all there. Those of the request have the store's numbers.
    struct Capsule {
        std::uint32_t uid = 0;
        Publication publication;
        std::uint64_t group = 0;  ///< it is there if that was committed; 0: by itself
    };
    std::vector<Capsule> capsules;
    bool has_journal = false;
    store::JournalState journal;  ///< as that says
    keep::StoredSegment last_segment;
};

/// All that the daemon knows: sessions, capsules and the memory they lie in, names, leases, waiting attaches, watches. Plain logic: no descriptor,
/// clock or socket inside; what is to be sent goes to the Outbox, in the order that the protocol prescribes.
///
/// Every operation answers in the outbox, refusals too. A refused operation changes nothing. A session that was not
/// opened, or has ended, must not be named.
///
/// Rules that hold for all operations:
/// 1. Each capsule has an access for life: its publisher's user, a group, a mode. To whoever may not read it it does not exist. Writing is
///    replacing and withdrawing it, and needs reading too. The session that published a capsule may always write it.
/// 2. A capsule is attachable, then retired, then gone with its last lease. Of each name the newest versions are attachable, as many as
///    the last publish says (`retain`, as a rule 1). Before that it may be staged in a group: then it is counted, and for everybody but
///    its own session it does not exist.
/// 3. Each lease is told to the producer once as OPENED and once as RELEASED or LOST.
/// 4. Versions rise over all names, and over the daemon's lives if `first_version` is the realtime clock in nanoseconds.
/// 5. A segment is kept until its producer forgets it or is gone, and while a capsule lies in it. A producer's number means
///    one file for its whole session.
/// 6. A segment has the access of the first capsule that lay in it, for life: who has mapped it sees what is written there later.
/// 7. A user's memory is what is kept of it plus what it has reserved; neither it nor everybody's grows over its quota. Nor does anything
///    else that is counted, of a user or of one client: whatever would add to it is refused (OverQuota), and names who of that user has most.
///    What is kept here for a user is counted in bytes too (registry_quota.cpp), whatever it is.
/// 8. A life that follows another one opens with a *resume window*, in which the clients bring back what the life before knew:
///    producers offer their capsules again, with the versions of then, and consumers claim their leases. What is claimed is kept
///    for its capsule; what was there before does not end before the window does, since others may still claim it.
/// 9. A capsule that is published `once` replaces nothing and is not attached but *taken*, the oldest of its name first. It is queued, then
///    granted to one taker, then taken by its confirm: retired, with that one lease. A granted one whose lease ends without a confirm is
///    queued again, at most `kMaxDeliveries` times in all. Under one name lives either kind of capsule, never both.
/// 10. A capsule that is published to *linger* stays when its producer's session ends: its holders and watchers notice nothing, until it
///    is withdrawn, replaced, taken, or its time is over, which counts from that end. A later session of its user that publishes it or
///    offers it again, the same in all, adopts it, at any time. What is queued ends all the same with a session that was cut off, where
///    nothing keeps who takes it: whoever was may offer it to the next life as not taken.
///
/// Threads: one. Costs: O(log n) or O(1) in the number of capsules and sessions, but for what lists them.
class Registry {
  public:
    /// Its publisher's user and root.
    static constexpr std::uint32_t kDefaultMode = 0600;

    /// `default_mode` is that of capsules whose publisher names none. With a resume window until `window_end_ms`, on the clock of the
    /// operations below.
    explicit Registry(std::uint64_t first_version, Quotas::Limits quotas = {},
                      std::uint32_t default_mode = kDefaultMode,
                      std::optional<std::uint64_t> window_end_ms = std::nullopt) noexcept
        : first_version_(first_version),
          next_version_(first_version),
          window_end_ms_(window_end_ms),
          quotas_(quotas),
          default_mode_(default_mode) {}
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;
    ~Registry();

    [[nodiscard]] std::uint32_t default_mode() const noexcept { return default_mode_; }

    /// What lingers is kept over the daemon's death from now on: with each step the outbox says what is to be kept before its packets are sent,
    /// and it knows what `before` says. To be called before the first session, if ever.
    ///
    /// Capsules of before are there again; if several displace each other, as if they were published in the order of their versions. Names
    /// of before are their owners' until the window ends. It ends as soon as the last version of each has come back, but `kLeastWindowMs`
    /// after its start at the earliest: clients that wait for the daemon look for it every second.
    void recover(Recovery before, std::uint64_t now_ms, Outbox& out);
    static constexpr std::uint64_t kLeastWindowMs = 2000;
    /// How far above the version that this life began with the lives before may have come: on a clock in nanoseconds that was put back, a
    /// year and some weeks. Of one that has left a journal it is known.
    static constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 55U;
    /// Names of one user whose highest version is remembered while the window is open, each by itself. Of those beyond, the highest of all
    /// is: what else that user offers again below it comes in retired.
    static constexpr std::size_t kMostKnownNames = 65'536;
    /// Ranges of numbers that are remembered of a session. Of lease numbers the lowest gap counts as used beyond that: below it nothing is
    /// new. The lowest of the segments that it has forgotten are brought again if it says so.
    static constexpr std::size_t kMostRanges = 1024;
    /// All notes that say what is known now.
    void write_notes(std::vector<keep::Note>& notes) const;
    /// The answer to the publish of that capsule was sent. Also of one that has ended meanwhile.
    void note_answered(const wire::CapsuleId& capsule, Outbox& out);

    /// Fails: AlreadyExists  a session of this user that lives, or is still ending, has that session id
    [[nodiscard]] hurray::Result<void> open_session(SessionNumber number, const Identity& identity);

    /// Its leases are LOST, its capsules retire and their holders are told, but for those that linger; its waiting attaches and watches
    /// vanish. `is_cut_off`: its client did not leave, and may come back.
    ///
    /// From now on it must not be named, and nothing of it can be attached. There may be any number of leases and capsules,
    /// so others are told piece by piece: more is to be written as long as `has_endings`.
    void end_session(SessionNumber number, std::uint64_t now_ms, Outbox& out, bool is_cut_off = false);
    [[nodiscard]] bool has_endings() const noexcept { return !endings_.empty(); }
    void continue_endings(Outbox& out);

    /// Reply: PublishReply. Old version's producer: Retired, and Ended if nobody holds it, both before that reply. Then the
    /// waiting attaches that it satisfies, in the order they came; then watchers.
    /// The same publish again by the same session has the same answer.
    /// With `once` it queues and replaces nothing: it goes to the first that waits to take it.
    /// With a group it is staged there, in version 0, and that is all.
    /// A name belongs to the user that first published it, while a version of it lives. Under it may publish whoever may write its newest
    /// version, and its owner where that is another user's.
    /// Under a name of before that has not come back, and belongs to another user, it waits until the resume window ends, and is looked at then.
    /// What was stored, and ended before its publisher knew of it, is not published again: it is answered as it was, and has Ended.
    /// Fails: AlreadyExists    the id was published with another content, the name is held by a capsule that the publisher
    ///                         may not read or by those of the other kind (`once`), the group has a member of that name, or a
    ///                         segment's number means another file in this session
    ///        NotPermitted     the name is held by a capsule that the publisher may read but not write; the group of its access is not
    ///                         one of its own
    ///        NotFound         the session has no such group; a segment without its descriptor, or its reservation, is not
    ///                         known in this session
    ///        InvalidArgument  a known segment has another size or kind, or was used with another access; one file or
    ///                         reservation is named twice
    ///        Limit            the group has as many members as it may have
    ///        OverQuota        it is one capsule or name too many; what is new of it and not reserved is more memory than may be had; it
    ///                         lingers, and more descriptors would be stored than may be
    ///
    /// Of a publication with a version: a capsule of a former life. It comes back under that version, and displaces nothing that is
    /// newer: below the highest version of its name that this life has known it is retired. Reply: PublishReply, before it Retired (and
    /// Ended) to whose capsule it displaces; then what its claims set off, the waiting attaches that it satisfies, and watchers.
    /// Of one that lingers here without its producer: it is adopted, whether offered again or published, in the window or not. Reply:
    /// PublishReply; then what its producer has missed (Retired, TAKEN); once the window is over WindowClosed with its open leases.
    /// What was to linger and has ended in this life meanwhile comes in retired. Of the last takes of those it is known who took them: their
    /// producer is told TAKEN, and after the window Ended, too.
    /// Fails: Closed         the resume window is over
    ///        InvalidArgument  no life before can have given out that version
    ///        AlreadyExists  the capsule, or that version of the name, is here already; the name belongs to another user; or as a
    ///                       publish does
    ///        OverQuota
    void publish(SessionNumber from, std::uint64_t request_id, Publication publication, Outbox& out);

    /// What became of leases of a former life. Reply: Done, once the producers have been told of those RELEASED and CONFIRMED; what can't be
    /// told yet is told when its capsule is offered again, and answered at the window's end at the latest. Before it ClaimsRefused, of those
    /// CONFIRMED that can't be, and of those HELD that are not kept: the window is over, or the session is not one of before. Those that are kept wait for their capsule: then they
    /// are ordinary leases, if their holder sees it; without it, ProducerLost comes at the window's end.
    void claim(SessionNumber from, std::uint64_t request_id, const wire::Claims& claims, Outbox& out);

    /// The session has said all that it knows of before. Reply: Done.
    void resume_done(SessionNumber from, std::uint64_t request_id, Outbox& out);

    [[nodiscard]] bool is_window_open() const noexcept { return window_end_ms_.has_value(); }
    /// 0: it is not open.
    [[nodiscard]] std::uint64_t window_left_ms(std::uint64_t now_ms) const noexcept;
    /// Ends the window now; `expire` does it in time. There may be any number of capsules and claims, so what is to be told is
    /// written piece by piece as long as `has_window_rest`: WindowClosed to each producer of a capsule of before, with all its open leases,
    /// then Ended if it is retired and unused; ProducerLost to whose claims found no capsule; the answers that were due. So is what the
    /// claims of a capsule set off that has come back, in the window.
    void close_window(Outbox& out);
    [[nodiscard]] bool has_window_rest() const noexcept { return window_rest_ || !returns_.empty(); }
    void continue_window_rest(Outbox& out);

    /// Begins or ends a group. Reply: GroupReply, for the request that ended the session's last group once more if it is
    /// repeated.
    ///
    /// COMMIT makes all members visible in one step, as if each were published in turn, with consecutive versions: no other request
    /// sees some of them and not the others. Whose capsules they replace are told before the reply, as by `publish`; then come
    /// the waiting attaches, then the watchers. ABORT ends the members; their producer is told Ended of each, before the reply.
    /// Fails: AlreadyExists  BEGIN of a group that the session has
    ///        AlreadyExists, NotPermitted  COMMIT: a member's name can't be published under by now, as by `publish`, and the
    ///                       group stays as it is
    ///        NotFound       the session has no such group
    ///        Limit          BEGIN: the session has as many groups as it may have
    ///        OverQuota      COMMIT: its members need more new names than there may be, and the group stays as it is; BEGIN
    void group(SessionNumber from, std::uint64_t request_id, const wire::Group& group, Outbox& out);

    /// There may be more to tell watchers than others should wait for: a commit's events, or one that thousands watch for. The rest is written
    /// piece by piece as long as `has_announcements`. What happens meanwhile is told after it, so that no end comes to it unless whoever
    /// causes it waits: `announced` counts what was ever to be told.
    [[nodiscard]] bool has_announcements() const noexcept { return !announcements_.empty(); }
    [[nodiscard]] std::uint64_t announced() const noexcept { return announced_; }
    void continue_announcements(Outbox& out);

    /// Reply: AttachReply, after OPENED to the producer; now or when the version comes. What memory it lies in does not decide which
    /// version that is: one of a kind that was not asked for is refused, at once or when it comes.
    /// With `take` it is granted the oldest capsule of a queue, and nobody else is meanwhile; in the resume window it waits if
    /// something of a former life has come back under that name.
    /// Fails: Unsupported      immutable_only, and the version's memory is not; its memory is unsealed, without allow_unsealed; a take of
    ///                         what was not published `once`, or an attach of what was
    ///        NotFound         nothing to attach and `timeout_ms` is 0, or the version asked for can't come any more
    ///        TimedOut         by `expire`
    ///        Closed           by `cancel`
    ///        InvalidArgument  the lease number, or the request's while it waits, was used before
    ///        OverQuota        it is one lease too many, or would have to wait, and so many do already; also when what it waits for comes
    void attach(SessionNumber from, std::uint64_t request_id, const wire::Attach& attach,
                std::optional<std::uint64_t> timeout_ms, std::uint64_t now_ms, Outbox& out);

    /// What was granted to a take is the taker's. Reply: Done, after TAKEN to the producer; again if it is repeated.
    /// Fails: NotFound         the session holds no such lease
    ///        InvalidArgument  it is of no take
    ///        ProducerLost     the producer's session is over, and the capsule does not linger: the lease has ended. In place of Done it
    ///                         also comes if the producer is cut off before it was sent TAKEN: what it publishes again may be the same work
    void confirm(SessionNumber from, std::uint64_t request_id, const wire::Confirm& confirm, Outbox& out);
    /// Its taker was sent that ProducerLost: it is nobody's. Of a capsule that has ended: nothing.
    void note_unheard(const wire::CapsuleId& capsule);

    /// Reply: Done; room is kept for a segment that is about to be made, until a publish names the reservation.
    /// Fails: AlreadyExists  the number is in use
    ///        OverQuota
    void reserve(SessionNumber from, std::uint64_t request_id, const wire::Reserve& reserve, std::uint64_t now_ms,
                 Outbox& out);
    /// Reply: Done. An unknown one is fine.
    void unreserve(SessionNumber from, std::uint64_t request_id, const wire::Unreserve& unreserve, Outbox& out);
    /// Reply: Done; the segments go with the last capsule that lies in them, and their numbers are not used again. Unknown ones are fine.
    void forget(SessionNumber from, std::uint64_t request_id, const wire::Forget& forget, Outbox& out);

    /// Reply: Done, after the producers were told, of what lingers and was there before also those that come back in the resume window; at
    /// its end at the latest. Unknown leases are fine.
    void release(SessionNumber from, std::uint64_t request_id, const wire::Release& release, Outbox& out);

    /// What waits elsewhere until that session reads it, or is remembered for it there, in bytes: a part of what its user costs. Of a session
    /// that was not opened, or has ended: nothing.
    void note_queued(SessionNumber session, std::uint64_t bytes) noexcept;
    /// Whether its user costs as much as it may, or more.
    [[nodiscard]] bool is_user_full(SessionNumber session) const noexcept;

    /// Ends an attach or a publish that waits: Closed. Of anything else: nothing, its reply is sent or on its way. What was granted to a
    /// take is not counted as a delivery if it is now released.
    void cancel(SessionNumber from, const wire::Cancel& cancel, Outbox& out);

    /// Reply: Done. Of a capsule that this session has staged: it leaves its group. Of one whose publish waits: that is answered with
    /// Closed before.
    /// Fails: NotFound; NotPermitted  it may be read but not written
    void withdraw(SessionNumber from, std::uint64_t request_id, const wire::Withdraw& withdraw, Outbox& out);

    /// Reply: ListReply, a page that fits a packet; it may be short, or empty with a cursor, where much was passed over.
    /// Fails: InvalidArgument  no cursor of ours
    void list(SessionNumber from, std::uint64_t request_id, const wire::List& list, std::uint64_t now_ms,
              Outbox& out) const;

    /// Reply: Done, then the snapshot's first part; `continue_snapshots` writes more whenever the session has room. To a session that
    /// resumes, SNAPSHOT_END comes when the resume window is over, so that what lies before it is all that has come back.
    /// Fails: AlreadyExists  the number is in use
    ///        OverQuota
    void watch(SessionNumber from, std::uint64_t request_id, const wire::Watch& watch, Outbox& out);
    void unwatch(SessionNumber from, std::uint64_t request_id, const wire::Unwatch& unwatch, Outbox& out);
    [[nodiscard]] bool has_snapshots(SessionNumber number) const noexcept;
    void continue_snapshots(SessionNumber number, Outbox& out);

    /// Reply: StatusReply: the asker's user, for root every user (as many as fit a packet); without the asker's connection.
    void status(SessionNumber from, std::uint64_t request_id, std::string_view daemon_version, std::uint64_t uptime_ms,
                std::uint64_t now_ms, Outbox& out) const;

    /// Ends what is due: the resume window, lingering capsules whose time is over (not all of them if they are many), attaches that have
    /// waited as long as they may. When the next one is due: `next_deadline_ms`.
    void expire(std::uint64_t now_ms, Outbox& out);
    [[nodiscard]] std::optional<std::uint64_t> next_deadline_ms() const noexcept;

    /// What is held, over all users.
    struct Totals {
        std::uint64_t clients = 0;
        std::uint64_t capsules = 0;
        std::uint64_t staged = 0;  ///< of them
        std::uint64_t queued = 0;  ///< of them: to be taken
        std::uint64_t names = 0;
        std::uint64_t bytes = 0;     ///< of the segments that are kept
        std::uint64_t reserved = 0;  ///< bytes of reservations
        std::uint64_t reservations = 0;
        std::uint64_t leases = 0;
        std::uint64_t claims = 0;  ///< leases of a former life whose capsule is not back
        std::uint64_t waiting = 0;
        std::uint64_t watches = 0;
        std::uint64_t descriptors = 0;   ///< of the segments that are kept
        std::uint64_t stored = 0;        ///< descriptors in the service manager's store, or on their way there
        std::uint64_t kept_bytes = 0;    ///< what all this costs hurrayd, its clients included
        std::uint64_t queued_bytes = 0;  ///< beside that: what waits for clients to read
        friend bool operator==(const Totals&, const Totals&) = default;
    };
    [[nodiscard]] Totals totals() const noexcept;
    /// What users may have. Clients are counted by whom they connect to, the rest is here.
    [[nodiscard]] Quotas& quotas() noexcept { return quotas_; }

    /// What all this costs hurrayd, in bytes, with what waits elsewhere to be read.
    [[nodiscard]] std::uint64_t cost() const noexcept { return cost_; }
    /// Leases that a session holds, and would lose if it ended now.
    [[nodiscard]] std::size_t leases_of(SessionNumber number) const { return session(number).leases.size(); }

    /// What has happened since the start. As many leases were opened as ended and are held, together.
    struct History {
        std::uint64_t published =
            0;  ///< capsules, staged ones once they are committed, and those that were offered again
        std::uint64_t leases_opened = 0;  ///< claimed ones too, once their capsule is back
        std::uint64_t leases_released = 0;
        std::uint64_t leases_lost = 0;
        std::uint64_t taken = 0;     ///< takes that were confirmed
        std::uint64_t put_back = 0;  ///< takes that ended without a confirm
    };
    [[nodiscard]] const History& history() const noexcept { return history_; }

    /// Compares all that is known twice, by walking through everything: counts, lists, indices. What does not agree is a bug, and
    /// ends the process (HURRAY_CHECK). Nothing is compared while a session is half ended. For tests and fuzzing.
    void check_consistency() const;

  private:
    struct Session;
    struct Capsule;
    struct Group;
    using Hook = boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

    template <class T, Hook T::* hook>
    using ListOf = boost::intrusive::list<T, boost::intrusive::member_hook<T, Hook, hook>,
                                          boost::intrusive::constant_time_size<false>>;

    struct Lease {
        std::uint64_t number = 0;
        Session* holder = nullptr;
        Capsule* capsule = nullptr;
        std::uint64_t grant = 0;  ///< of a take that is not confirmed: the request that it answered
        bool is_told = false;     ///< a producer was told of it, in this life or the one before
        Hook in_session;
        Hook in_capsule;
    };

    /// An attach that waits.
    struct Waiter {
        std::uint64_t request_id = 0;
        wire::Attach attach;
        Session* session = nullptr;
        Hook in_session;
        Hook in_target;
        Hook of_window;  ///< linked: a take that waits for the window's end
        std::optional<std::multimap<std::uint64_t, Waiter*>::iterator> deadline;
        std::optional<std::multimap<std::uint64_t, Waiter*>::iterator> exact;
    };

    /// A producer's piece of memory.
    struct Segment {
        SegmentNumber number;
        std::uint32_t uid = 0;  ///< on whose account it is
        wire::Memory memory = wire::Memory::Reusable;
        std::uint64_t size = 0;
        wire::FileIdentity file;
        wire::Access access;         ///< of all capsules that ever lie in it, and of all segments of its file
        std::uint64_t capsules = 0;  ///< that lie in it
        bool is_known = true;  ///< its session can mention it by its own number; else it goes with its last capsule
    };

    /// A file that segments are made of: one, unless its producer brings it under several numbers or in several sessions.
    struct File {
        std::uint32_t uid = 0;
        wire::Access access;
        std::size_t segments = 0;
        std::size_t to_store = 0;  ///< capsules in it that are stored, or are to be once their group is committed
        keep::StoredSegment stored_as = {};  ///< none: it is not in the store
        Segment* unknown = nullptr;          ///< one of them that no session can mention, for whoever brings it again
    };

    /// Room for a segment to come.
    struct Reservation {
        std::uint64_t bytes = 0;
        std::uint64_t since_ms = 0;
        std::int32_t pid = 0;
        Hook in_user;
    };
    using ReservationList = ListOf<Reservation, &Reservation::in_user>;

    /// What a session said of a lease of a former life, until its capsule is here or the window ends.
    struct Claim {
        SessionNumber session;  ///< it may have ended, if it is Released
        wire::Claims::State state = wire::Claims::State::Held;
        std::uint64_t answer = 0;  ///< of one that is not Held: which of `answers_` waits for it
    };
    using Claims = std::map<wire::LeaseId, Claim>;

    /// A capsule that has come back, and how far its claims have been dealt with.
    struct Return {
        wire::CapsuleId capsule;
        wire::LeaseId matched_up_to;
    };

    /// A reply that waits until so many releases and confirms were passed on.
    struct Answer {
        SessionNumber to;
        std::uint64_t request_id = 0;
        std::size_t left = 0;
    };

    struct Watch {
        std::uint64_t number = 0;
        std::string pattern;
        Session* session = nullptr;
        std::uint64_t place = 0;  ///< in the order in which watches came; from 1
        boost::intrusive::set_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> with_pattern;
        /// While the snapshot goes out, piece by piece: the last name and version shown. Changes up to there are kept back
        /// until SNAPSHOT_END; those beyond it the snapshot itself will show.
        bool in_snapshot = true;
        std::string shown_name;
        std::uint64_t shown_version = 0;
        std::deque<wire::Watched> kept_back;
        std::uint64_t kept_back_bytes = 0;
        bool gap = false;  ///< too much was kept back
        Hook
            owed_end;  ///< linked: all is shown, but what is still to come back is not there; the window's end brings SNAPSHOT_END
    };

    /// What a name needs to order its capsules.
    struct Versioned {
        using SetHook = boost::intrusive::set_member_hook<boost::intrusive::optimize_size<true>>;
        std::uint64_t version = 0;
        SetHook in_versions;
        SetHook in_live;
        [[nodiscard]] bool is_live() const noexcept { return in_live.is_linked(); }

        struct VersionOf {
            using type = std::uint64_t;
            type operator()(const Versioned& versioned) const noexcept { return versioned.version; }
        };
        template <SetHook Versioned::* hook>
        using Set = boost::intrusive::set<Versioned, boost::intrusive::member_hook<Versioned, SetHook, hook>,
                                          boost::intrusive::key_of_value<VersionOf>,
                                          boost::intrusive::constant_time_size<false>>;
    };

    /// A capsule's name and all its versions. Capsules without a name share the one under "".
    struct Name {
        std::uint32_t owner = 0;
        std::uint32_t live_size : 30 = 0;
        std::uint32_t once : 1 = 0;                ///< it is a queue; of "": unused
        std::uint32_t is_of_before : 1 = 0;        ///< something of a former life has come back under it; of "": unused
        Versioned::Set<&Versioned::in_live> live;  ///< what can be attached, or taken; oldest first
        Versioned::Set<&Versioned::in_versions> versions;  ///< all of them
    };
    using Names = std::map<std::string, Name, std::less<>>;

    using Expiries = std::multimap<std::uint64_t, Capsule*>;

    /// Of a capsule that is published to outlive its producer.
    struct Lingering {
        std::uint64_t linger_ms = 0;               ///< how long; 0: without an end
        std::optional<Expiries::iterator> expiry;  ///< while it lingers without its producer
        bool is_to_store = false;  ///< it counts as stored: it is, or will be when its group is committed
        bool is_stored = false;
        std::uint64_t group = 0;   ///< of one that is stored: with which it was committed, as the journal calls it
        bool is_answered = false;  ///< of one that is stored: its publisher has the answer, and that is noted
    };

    /// Of a capsule that waits for its group's commit.
    struct Staged {
        Group* group = nullptr;
        std::string wanted_name;
    };

    /// There may be hundreds of thousands of them: what few need is behind a pointer.
    struct Capsule : Versioned {
        wire::CapsuleId id;
        std::int32_t pid = 0;
        std::unique_ptr<const Staged> staged;  ///< null: it has a name and a version
        Names::iterator name;
        wire::Access access;
        std::uint32_t retain = 1;  ///< versions of its name that can be attached, this one included
        bool once = false;         ///< it is not attached but taken, by one
        bool retired = false;
        bool of_before : 1 = false;   ///< it is of a former life, and the window's end has not dealt with it
        bool lost_lease : 1 = false;  ///< some lease of it was lost: its memory is never to be written again
        std::uint8_t deliveries = 0;  ///< takes of it that ended without a confirm, and count
        Session* producer = nullptr;  ///< null: its session has ended; it may also be ending, see live_producer()
        std::uint64_t open_leases = 0;
        Content<Segment> content;
        std::uint64_t digest = 0;  ///< of the publish that made it, to know it again
        std::uint64_t buffer_bytes = 0;
        std::unique_ptr<const wire::LeaseId> taken_by;  ///< of one that is taken
        std::unique_ptr<Lingering> lingering;           ///< null: it ends with its producer
        Shelves<Capsule>::Standings standings;
        Hook in_session;  ///< of its producer's capsules, or of its group's
        /// All that are open, while its producer is there; and later, if it is to linger: who adopts it is told.
        ListOf<Lease, &Lease::in_capsule> leases;

        [[nodiscard]] std::pair<std::string_view, std::uint64_t> place() const noexcept {
            return {name->first, version};
        }
        [[nodiscard]] bool is_taken_by(const wire::LeaseId& lease) const noexcept {
            return taken_by != nullptr && *taken_by == lease;
        }
        /// Whether nobody can ever change a byte of it; so it is where there is no byte.
        [[nodiscard]] bool is_immutable() const noexcept;
        /// Whether some of it is memory that has no seals: whoever has its descriptor may write to it.
        [[nodiscard]] bool is_unsealed() const noexcept;
    };

    /// Capsules that become visible together, or never.
    struct Group {
        std::uint64_t number = 0;
        ListOf<Capsule, &Capsule::in_session> members;  ///< in the order in which they were published
        std::size_t size = 0;
        std::unordered_set<std::string_view> names;  ///< those of the members that are attached; the strings are theirs
        std::unordered_map<std::string, std::size_t>
            queues;  ///< those of the members that are taken, and how many want each
    };

    /// How the last group of a session ended, for whoever asks again.
    struct EndedGroup {
        std::uint64_t number = 0;
        wire::Group::Action action = wire::Group::Action::Abort;
        std::uint64_t first_version = 0;
        std::size_t size = 0;  ///< of COMMIT
    };

    struct Session {
        SessionNumber number;
        Identity identity;
        bool is_ending = false;
        bool ends_queued = false;                ///< what it queued ends with it, though it was to linger
        bool is_resuming = false;                ///< it has more to say of a former life
        std::uint64_t ended_ms = 0;              ///< since when it is
        mutable std::optional<wire::Id16> hash;  ///< see shown_hash()
        NumberRanges used_leases;                ///< numbers that no attach may bring any more
        std::unordered_map<std::uint64_t, wire::CapsuleId> claimed;  ///< leases of before, whose capsule is not here
        std::unordered_map<std::uint64_t, Lease> leases;
        ListOf<Lease, &Lease::in_session> lease_order;
        std::unordered_map<std::uint64_t, Lease*>
            grants;  ///< takes that are neither confirmed nor cancelled, by request
        std::unordered_map<std::uint64_t, Waiter> waiting;  ///< by request
        std::size_t pending = 0;                            ///< publishes that wait
        ListOf<Waiter, &Waiter::in_session> waiting_order;
        std::unordered_set<std::uint64_t> waiting_leases;
        std::map<std::uint64_t, Watch> watches;
        std::size_t snapshots = 0;
        ListOf<Capsule, &Capsule::in_session> capsules;  ///< those that are not staged
        std::map<std::uint64_t, Group> groups;           ///< that are open
        std::optional<EndedGroup> last_group;
        std::map<std::uint64_t, Segment*> segments;  ///< by its own numbers
        NumberRanges forgotten;  ///< of its own numbers, those of segments that are not to come back
        std::unordered_map<std::uint64_t, Reservation> reservations;
        std::uint64_t told_lost = 0;      ///< version of the capsule whose loss it was told last
        Hook in_user;                     ///< while it does not end
        std::uint64_t capsules_size = 0;  ///< with those in its groups
        std::uint64_t bytes = 0;          ///< of the segments that it can mention, reserved, and brought by what waits
        std::uint64_t kept_bytes = 0;     ///< what is kept for it here: of its user's, as much as goes with it
        std::uint64_t own_bytes = 0;      ///< of that, what the session itself is
        std::uint64_t queued_bytes = 0;

        /// What stands for its id where producers see it. Worked out for the first of them: many sessions never need it.
        [[nodiscard]] const wire::Id16& shown_hash() const;
    };
    using SessionList = ListOf<Session, &Session::in_user>;

    /// Where an attach stands.
    struct Found {
        /// OtherKind: a take of what is attached, or an attach of what is taken.
        enum class State : std::uint8_t { Here, MayCome, Never, OtherKind } state = State::MayCome;
        Capsule* capsule = nullptr;
    };

    /// What watchers are to be told, and who may know. Its watch number is still to come.
    struct Announcement {
        wire::Watched event;
        wire::Access access;
        /// How far that has come, since there may be thousands: the pattern whose watches have their turn, as so many bytes of the name,
        /// and the place of the last of them that was looked at.
        std::size_t pattern_size = 0;
        std::uint64_t told_up_to = 0;
    };

    /// An id of a capsule that ended before its publisher had its answer.
    struct Left {
        std::uint64_t version = 0;
        std::uint64_t number = 0;  ///< in the order in which they were left
    };

    /// A name of before.
    struct NameOfBefore {
        keep::Name noted;
        bool is_back = false;       ///< something lives under it
        bool is_last_back = false;  ///< so does the last version that is noted, or a newer one
    };

    /// What is remembered of one user's names in `retired_below_`.
    struct KnownNames {
        std::size_t names = 0;
        std::uint64_t rest_below = 0;  ///< the highest version of those that found no room
    };

    /// A publish that waits for the window's end, and what it counts as until then: what it brought is kept.
    struct Pending {
        SessionNumber from;
        std::uint64_t request_id = 0;
        Publication publication;
        std::uint64_t descriptors = 0;
        std::uint64_t bytes = 0;
        std::uint64_t cost = 0;
    };

    using WaiterList = ListOf<Waiter, &Waiter::in_target>;
    struct PlaceOfWatch {
        using type = std::uint64_t;
        type operator()(const Watch& watch) const noexcept { return watch.place; }
    };
    using WatchList = boost::intrusive::set<
        Watch, boost::intrusive::member_hook<Watch, decltype(Watch::with_pattern), &Watch::with_pattern>,
        boost::intrusive::key_of_value<PlaceOfWatch>, boost::intrusive::constant_time_size<false>>;

    Session& session(SessionNumber number);
    const Session& session(SessionNumber number) const;
    static bool sees(const Session& session, const Capsule& capsule) noexcept;
    static bool may_write(const Session& session, const Capsule& capsule) noexcept;
    /// Whom to tell of what becomes of `capsule`; null: nobody any more.
    static Session* live_producer(const Capsule& capsule) noexcept;
    static bool lingers(const Capsule& capsule) noexcept;
    static bool is_kept(const Capsule& capsule) noexcept;
    static bool is_attachable(const Capsule& capsule) noexcept;
    static bool is_adoptable(const Capsule& capsule) noexcept;
    [[nodiscard]] hurray::Result<void> check_adoption(const Session& producer, const Publication& publication,
                                                      const Capsule& capsule);
    void adopt(Session& producer, std::uint64_t request_id, Publication publication, Capsule& capsule, Outbox& out);
    void take_back_segments(Session& producer, const Publication& publication, Capsule& capsule, Outbox& out);
    [[nodiscard]] hurray::Result<void> admit_store(const Session& producer, const Publication& publication);
    void charge_store(Capsule& capsule);
    void store(Capsule& capsule, Outbox& out, std::uint64_t group = 0);
    void unstore(Capsule& capsule, Outbox& out);
    void note_name(const Capsule& capsule, Outbox& out) const;
    [[nodiscard]] keep::Name note_of(Names::const_iterator name) const;
    void note_expiry(const Capsule& capsule, Outbox& out) const;
    void leave_id(const wire::CapsuleId& capsule, std::uint64_t version);
    bool drop_left(const wire::CapsuleId& capsule);
    void note_taken(const Capsule& capsule, Outbox& out);
    void drop_taken(const wire::CapsuleId& capsule, Outbox& out);
    void note_ended(const Capsule& capsule, Outbox& out);
    void answer_taken(Session& producer, std::uint64_t request_id, const Publication& publication, Outbox& out);
    void await_answer(const Session& producer, const Capsule& capsule, Outbox& out) const;
    bool bring_back(const Recovery::Capsule& before, const store::JournalState& journal);
    void take_up(Capsule& capsule, const store::JournalState& journal, std::uint64_t now_ms, Outbox& out);
    [[nodiscard]] const NameOfBefore* foreign_before(const Session& producer, const std::string& name) const;
    [[nodiscard]] hurray::Result<void> check_name_of_before(const Session& producer, const std::string& name,
                                                            std::uint64_t version) const;
    void note_back(const std::string& name, std::uint64_t version);
    void answer_left(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out);
    void wait_for_window(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out);
    std::vector<std::uint64_t> drop_pending(Session& producer, const std::function<bool(const Pending&)>& is_meant,
                                            Outbox& out);
    bool cancel_pending(Session& producer, const std::function<bool(const Pending&)>& is_meant, Outbox& out);
    void count_pending(Session& producer, const Pending& pending);
    void discount_pending(Session& producer, const Pending& pending);
    [[nodiscard]] std::uint64_t window_may_end_ms() const noexcept;
    bool continue_store_window_close(std::size_t& budget, Outbox& out);
    void leave_lingering(Capsule& capsule, std::uint64_t now_ms, Outbox& out);
    static bool ends_with_producer(const Capsule& capsule) noexcept;
    static bool is_confirmable(const Capsule& capsule) noexcept;
    void forgo_lingering(Capsule& capsule);
    void stop_expiry(Capsule& capsule) noexcept;
    void expire_lingering(std::uint64_t now_ms, Outbox& out);
    void expire_waiters(std::uint64_t now_ms, Outbox& out);
    [[nodiscard]] bool is_held_back(const Capsule& capsule) const noexcept;
    static bool satisfies(const Capsule& capsule, const wire::Attach& attach) noexcept;
    [[nodiscard]] static hurray::Result<void> check_memory(const Capsule& capsule, const wire::Attach& attach);
    static bool is_reusable(const Capsule& capsule) noexcept;
    Found find(const Session& session, const wire::Attach& attach);
    Capsule* find_live(const Session& session, Names::value_type& name, const wire::Attach& attach);
    [[nodiscard]] hurray::Result<void> check_name(const Session& producer, Names::const_iterator known) const;
    [[nodiscard]] hurray::Result<wire::Access> access_for(const Session& producer, const wire::Publish& publish) const;
    static void drop_brought(const Publication& publication, Outbox& out);
    [[gnu::cold]] static void refuse_publish(const Session& producer, std::uint64_t request_id,
                                             const Publication& publication, hurray::Error error, Outbox& out);
    static std::uint64_t digest_of(const wire::Publish& publish);
    static bool is_repeated(const Session& producer, const wire::Publish& publish, const Capsule& capsule);
    Capsule& add(Session& producer, const Publication& publication, const wire::Access& access, Outbox& out);
    void make_visible(Capsule& capsule, const std::string& name, Outbox& out);
    void put_under_name(Capsule& capsule, const std::string& name, std::uint64_t version);
    void make_live(Capsule& capsule, Outbox& out);
    void add_live(Capsule& capsule);
    void remove_live(Capsule& capsule);
    void retire_surplus(Name& name, Outbox& out);
    [[nodiscard]] hurray::Result<void> check_kind(Names::const_iterator known, bool once, const char* field) const;
    static hurray::Error refuse_kind(const wire::Attach& attach);
    void mark_granted(Lease& lease, std::uint64_t request_id);
    wire::LeaseEvent::What end_grant(Lease& lease, wire::LeaseEvent::What what);
    void put_back(Capsule& capsule, Outbox& out);
    void mark_taken(Lease& lease, Outbox& out);
    bool confirm_claimed(Session& consumer, std::uint64_t lease, Capsule& capsule, Outbox& out);
    void serve_take(Waiter& waiter, Outbox& out);
    void offer_again(Session& producer, std::uint64_t request_id, Publication publication, Outbox& out);
    static std::uint64_t displaced_below(const Name& name) noexcept;
    [[nodiscard]] std::uint64_t retired_below(const std::string& name, Names::const_iterator known,
                                              std::uint32_t uid) const;
    void note_retired_below(const std::string& name, std::uint32_t uid, std::uint64_t version);
    [[nodiscard]] hurray::Result<void> check_version_of_before(const wire::CapsuleId& id, std::uint64_t version) const;
    [[nodiscard]] bool is_past(std::uint64_t version) const noexcept;
    enum class Claimed : std::uint8_t { Done, Kept, Refused };
    Claimed claim_held(Session& consumer, const wire::CapsuleId& id, std::uint64_t lease, Outbox& out);
    Claimed claim_released(Session& consumer, const wire::CapsuleId& id, std::uint64_t lease, Outbox& out);
    Claimed claim_confirmed(Session& consumer, const wire::CapsuleId& id, std::uint64_t lease, Outbox& out);
    static bool may_hold(const Session& consumer, std::uint64_t lease, const Capsule& capsule);
    Lease& open_claimed(Session& consumer, std::uint64_t lease, Capsule& capsule, Outbox& out);
    void keep_claim(Session& consumer, const wire::CapsuleId& id, std::uint64_t lease, const Claim& claim, Outbox& out);
    Claims::iterator drop_claim(Claims& claims, Claims::iterator claim);
    bool keep_release(Session& consumer, const wire::CapsuleId& id, std::uint64_t lease, Outbox& out);
    bool give_back(Lease& lease, Outbox& out);
    bool release_claimed(Session& consumer, std::uint64_t lease, Outbox& out);
    void match_claims(const Capsule& capsule, Outbox& out);
    bool continue_returns(std::size_t& budget, Outbox& out);
    Claims::iterator match_claim(Claims& claims, Claims::iterator claim, Capsule& capsule, Outbox& out);
    void answer_releases(const Session& consumer, std::uint64_t request_id, std::size_t kept, std::size_t after,
                         Outbox& out);
    void settle(std::uint64_t answer, std::size_t after, Outbox& out);
    void tell_window_closed(const Capsule& capsule, Outbox& out);
    static wire::LeaseId lease_id(const Session& holder, std::uint64_t lease) {
        return {holder.identity.uid, holder.shown_hash(), lease};
    }
    [[nodiscard]] hurray::Result<Group*> group_for(Session& producer, const wire::Publish& publish);
    void stage(Capsule& capsule, Group& group, const std::string& name);
    std::string unstage(Capsule& capsule);
    void begin(Session& producer, std::uint64_t request_id, std::uint64_t number, Outbox& out);
    void commit(Session& producer, std::uint64_t request_id, Group& group, Outbox& out);
    void abort(Session& producer, std::uint64_t request_id, Group& group, Outbox& out);
    Lease& book_lease(Session& consumer, std::uint64_t lease, Capsule& capsule, bool is_told);
    void grant(Session& consumer, std::uint64_t request_id, std::uint64_t lease, Capsule& capsule, Outbox& out);
    static hurray::Error refuse_past(const wire::Attach& attach);
    static hurray::Error refuse_retired(const wire::Attach& attach);
    static wire::AttachReply reply_for(const Capsule& capsule);
    void remove_waiter(Waiter& waiter);
    void serve_waiters(Capsule& capsule, Outbox& out);
    void serve_waiters(WaiterList& waiters, Capsule& capsule, Outbox& out);
    void refuse_waiters(const Capsule& capsule, Outbox& out);
    void close_lease(Lease& lease, wire::LeaseEvent::What what, Outbox& out);
    bool continue_ending(Session& ended, std::size_t& budget, Outbox& out);
    [[nodiscard]] hurray::Result<void> check_segments(Session& producer, const Publication& publication,
                                                      const wire::Access& access);
    Segment& add_segment(Session& producer, const wire::Segment& said, const BroughtSegment& brought,
                         const wire::Access& access);
    std::vector<Segment*> take_segments(Session& producer, const Publication& publication, const wire::Access& access,
                                        Outbox& out);
    [[nodiscard]] static std::uint64_t use_of(const Totals& user, Quota quota) noexcept;
    [[nodiscard]] static std::uint64_t use_of(const Session& session, Quota quota) noexcept;
    [[nodiscard]] std::vector<wire::Holder> holders(std::uint32_t uid, Quota quota,
                                                    const Session* asker = nullptr) const;
    [[nodiscard]] hurray::Result<void> admit(const Session& session, Quota quota, std::uint64_t more = 1);
    [[nodiscard, gnu::cold]] tl::unexpected<hurray::Error> refuse_quota(std::uint32_t uid, Quota quota,
                                                                        tl::unexpected<hurray::Error> refused) const;
    [[nodiscard]] hurray::Result<void> admit_bytes(const Session& session, std::uint64_t more, std::string field);
    [[nodiscard]] hurray::Result<void> admit_capsule(const Session& producer, const wire::Publish& publish,
                                                     Names::const_iterator known);
    [[nodiscard]] hurray::Result<void> admit_lease(const Session& consumer, bool once);
    [[nodiscard]] bool admit_claim(const Session& consumer);
    void charge(Session* session, std::uint32_t uid, std::uint64_t bytes);
    void discharge(Session* session, std::uint32_t uid, std::uint64_t bytes);
    void book_leases(Session& session, std::uint64_t number, bool with_all_below = false);
    void book_forgotten(Session& session, std::uint64_t number);
    void charge_anew(Session& session);
    void list_holders(std::uint32_t uid, const Session& asker, wire::StatusReply& reply) const;
    [[nodiscard]] static std::uint64_t cost_of(const Session& session) noexcept;
    [[nodiscard]] static std::uint64_t cost_of(const wire::Publish& publish) noexcept;
    [[nodiscard]] static std::uint64_t cost_of(const Capsule& capsule) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_capsule(std::string_view descriptor, std::size_t segments,
                                                       std::size_t placements, bool once, bool lingers) noexcept;
    [[nodiscard]] static std::uint64_t cost_of(const Pending& pending) noexcept;
    [[nodiscard]] static std::uint64_t cost_of(const wire::Attach& attach) noexcept;
    [[nodiscard]] static std::uint64_t cost_of(const wire::Watched& kept_back) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_name(const std::string& name) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_staging(const std::string& name) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_watch(const std::string& pattern) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_lease(bool once) noexcept;
    [[nodiscard]] static std::uint64_t cost_of_segment() noexcept;
    [[nodiscard]] static std::uint64_t cost_of_reservation() noexcept;
    [[nodiscard]] static std::uint64_t cost_of_group() noexcept;
    [[nodiscard]] static std::uint64_t cost_of_claim() noexcept;
    void end_reservation(Session& session, std::unordered_map<std::uint64_t, Reservation>::iterator reservation);
    Segment* unknown_segment(const BroughtSegment& brought, const wire::Segment& said);
    static void know_segment(Session& session, std::uint64_t number, Segment& segment, File& file);
    void forget_segment(Session& session, std::map<std::uint64_t, Segment*>::iterator segment, Outbox& out);
    void drop_if_unused(Segment& segment, Outbox& out);
    void list_writing(std::uint32_t uid, std::uint64_t now_ms, wire::StatusReply& reply) const;
    void retire(Capsule& capsule, Outbox& out);
    void end_if_unused(Capsule& capsule, Outbox& out);
    void end(Capsule& capsule, Outbox& out);
    void announce(wire::Watched::What what, const Capsule& capsule);
    [[nodiscard]] bool is_watched(std::string_view name) const;
    bool tell_next(std::size_t& budget, Outbox& out);
    void tell_watch(Watch& watch, wire::Watched event, Outbox& out);
    void remove_watch(Session& session, std::map<std::uint64_t, Watch>::iterator watch);
    bool continue_snapshot(Watch& watch, std::size_t& budget, Outbox& out);
    Totals& count(std::uint32_t uid) { return uses_[uid]; }
    void forget_if_zero(std::uint32_t uid) noexcept;

    /// Calls `visit(name, capsule)` for every capsule that `viewer` sees under `pattern`, above (`name`, `version`), in the
    /// order of names and versions, until it returns false or `budget` capsules were looked at. Tells where it stopped, or
    /// nothing at the end.
    template <class Visit>
    std::optional<std::pair<std::string, std::uint64_t>> visit_from(std::string_view pattern, std::string_view name,
                                                                    std::uint64_t version, const Session& viewer,
                                                                    std::size_t budget, Visit&& visit) const;

    std::uint64_t first_version_;
    std::uint64_t next_version_;
    std::optional<std::uint64_t> window_end_ms_;
    bool window_rest_ = false;  ///< the window is over, and not everybody has been told
    Quotas quotas_;
    std::uint32_t default_mode_;
    std::unordered_map<std::uint64_t, Session> sessions_;
    std::map<std::pair<std::uint32_t, wire::Id16>, Session*> session_ids_;
    std::deque<SessionNumber> endings_;
    std::unordered_map<wire::CapsuleId, Capsule, CapsuleIdHash> capsules_;
    Names names_;
    // Those that are not staged; their names live in names_. Apart, so that whoever looks for one to attach does not come across the others.
    Shelves<Capsule> live_;
    Shelves<Capsule> held_;  // granted, or retired
    std::unordered_map<std::string, WaiterList, NameHash> waiting_for_name_;
    std::unordered_map<wire::CapsuleId, WaiterList, CapsuleIdHash> waiting_for_id_;
    std::multimap<std::uint64_t, Waiter*> deadlines_;
    Expiries expiries_;                                             // of capsules that linger without their producers
    std::multimap<std::uint64_t, Waiter*> exact_waiters_;           // by the version they wait for
    std::unordered_map<std::string, WatchList, NameHash> watches_;  // by pattern
    std::unordered_map<std::uint64_t, Segment> segments_;           // by the daemon's numbers
    std::map<wire::FileIdentity, File> files_;                      // that segments are made of
    std::map<std::uint32_t, ReservationList> writing_;              // each user's reservations, oldest first
    std::uint64_t all_bytes_ = 0;                                   // everybody's memory, kept and reserved
    std::uint64_t cost_ = 0;                                        // everybody's kept_bytes and queued_bytes
    std::deque<Announcement>
        announcements_;  ///< what watchers are still to be told; as a rule empty when a step is over
    std::uint64_t announced_ = 0;
    std::uint64_t last_watch_ = 0;
    ListOf<Watch, &Watch::owed_end> owed_ends_;
    std::deque<wire::CapsuleId> capsules_of_before_;
    std::unordered_map<wire::CapsuleId, Claims, CapsuleIdHash> claims_;
    std::deque<Return> returns_;
    std::unordered_map<std::uint64_t, Answer> answers_;
    std::uint64_t last_answer_ = 0;
    ListOf<Waiter, &Waiter::of_window> takes_of_window_;  // in the order in which they came
    /// While the window is open, of names that have lost what could be attached: the version below which this life has retired all or
    /// would have. See displaced_below().
    std::unordered_map<std::string, std::uint64_t, NameHash> retired_below_;
    std::map<std::uint32_t, KnownNames> known_names_;  // by whose capsules they lost
    /// Of a daemon that keeps what lingers over its death; all of it is empty elsewhere.
    bool keeps_ = false;
    bool has_journal_ = false;  ///< a life before has left one
    std::uint64_t least_window_end_ms_ = 0;
    keep::StoredSegment last_stored_;
    std::uint64_t all_stored_ = 0;
    std::map<std::string, NameOfBefore, std::less<>> names_of_before_;  ///< while the window is open
    std::size_t names_missing_ = 0;                                     ///< of them, whose last versions are not back
    std::size_t resuming_ = 0;                                          ///< sessions that have more to say of before
    std::deque<Pending> pending_;
    std::map<wire::CapsuleId, keep::Taken> taken_;  ///< by which leases, and the journal knows
    std::deque<wire::CapsuleId> taken_order_;  ///< of those that have ended, oldest first; some are not known any more
    /// While the window is open, without a journal of a life before: what was to linger and has ended in this one. Its producer may not have
    /// heard of it, and offer it again.
    std::unordered_set<wire::CapsuleId, CapsuleIdHash> ended_;
    bool has_ended_more_ = false;           ///< than are remembered
    std::map<wire::CapsuleId, Left> left_;  ///< what ended before its publisher had its answer
    std::map<std::uint32_t, std::map<std::uint64_t, wire::Id16>> left_of_;  ///< each user's, oldest first; none empty
    std::uint64_t last_left_ = 0;
    std::map<std::uint32_t, Totals> uses_;
    std::map<std::uint32_t, SessionList> sessions_of_;  // each user's that are not ending; none empty
    History history_;
};

}  // namespace hurrayd
