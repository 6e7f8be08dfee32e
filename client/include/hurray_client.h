/*
 * hurray_client.h - the C API of libhurray-client: share tensors with other processes of this host through hurrayd.
 *
 * A producer allocates shared memory, fills it and publishes it under a name; a consumer attaches by that name and reads
 * the very same pages, without a copy. Destroying the consumer's tensor context tells the producer that it is done.
 *
 * The rules R1 to R7 of hurray.h hold here too (status, null pointers, outputs, handles, borrowed pointers, capacity,
 * exceptions). These come on top:
 *
 *  C1  Option structs may be null. `struct_size` is sizeof the struct; a zero field means its default. A longer struct of
 *      a newer header is accepted if what this library doesn't know is zero (else HURRAY_ERR_UNSUPPORTED); a shorter one
 *      of an older header is filled up with zeros.
 *  C2  `timeout_ms`: 0 answers at once, -1 waits for ever, anything else below 0 is HURRAY_ERR_INVALID_ARGUMENT.
 *  C3  Any thread may use a HurrayClient at any time, except to destroy it. Other handles: one thread at a time.
 *  C4  Callbacks hold no lock of the library, so they may call it. Their arguments live for the call. They run on the
 *      client's own thread, where the program's signals are blocked, or in hurray_client_dispatch if the client was connected
 *      with DISPATCH_BY_CALLER. Those of a capsule may run before the call that publishes it has returned.
 *      None of a capsule's events is left out, so they wait, some 200 bytes each, while a callback does not return.
 *  C5  Descriptors of files that are passed in stay the caller's.
 *  C6  Nothing is copied unless the caller says COPY.
 *  C7  Publishing takes the allocation: write to it no more. Consumers see every byte that is written later.
 *  C8  Finalizers may destroy any handle but a client from any thread: that never blocks and takes no lock that user
 *      code can hold.
 *  C9  Blocking calls ask the client's `interrupted` callback whenever a signal interrupts them, and four times a second; if it returns
 *      non-zero the call ends with HURRAY_ERR_INTERRUPTED, and nothing was acquired. Publishing asks only while it waits for a daemon that is
 *      away: given up half-way it would leave open whose the memory is.
 *  C10 After fork, the child can't use the parent's client: calls give HURRAY_ERR_FORKED (close and destroy: HURRAY_OK, and
 *      nothing happens). Destroying handles there does not touch the parent's leases. Inherited views may be read while the
 *      parent holds them; memory that the parent had mapped of published tensors stays mapped in the child.
 *  C11 Names are UTF-8, 1 to 255 bytes, segments separated by '/', none of them empty, "." or "..", no control
 *      characters; longer ones are HURRAY_ERR_LIMIT, others HURRAY_ERR_INVALID_ARGUMENT. A pattern is a name, or a prefix that ends in '/', or empty for everything.
 *  C12 Where memory runs out on the client's own thread, or on a thread that reads for another one, the program goes on
 *      and the connection ends: HURRAY_ERR_CONNECTION_LOST, "out of memory". Events of that end may stay untold.
 *  C13 The library prints nothing, unless $HURRAY_LOG names a level when a client connects: error, warning, info or debug.
 *      Then lines go to stderr, and none ever waits for it to have room.
 *
 * Errors that nearly every call with a client can give, not repeated below: HURRAY_ERR_NULL_POINTER,
 * HURRAY_ERR_INVALID_ARGUMENT, HURRAY_ERR_CONNECTION_LOST, HURRAY_ERR_CLOSED (after hurray_client_close),
 * HURRAY_ERR_FORKED, HURRAY_ERR_INTERRUPTED, HURRAY_ERR_PROTOCOL, HURRAY_ERR_INTERNAL.
 */
#ifndef HURRAY_CLIENT_H
#define HURRAY_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "hurray.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ------------------------------------------------------------------------------------------------------ */

typedef struct HurrayClient HurrayClient;         /* one connection to the daemon */
typedef struct HurrayAllocation HurrayAllocation; /* writable shared memory of one capsule, until it is published */

/* Names one capsule for ever: its publisher's user and 16 random bytes. */
typedef struct HurrayCapsuleId {
    uint32_t uid;
    uint8_t id[16];
} HurrayCapsuleId;

/* Who may do what with a capsule, as of a file: its publisher's user, a group, and a mode of up to 0666, whose digits are for that user,
 * for the group and for others. Read (4): attach, list, watch; to whoever may not read a capsule it does not exist. Write (2), together with
 * read: replace it under its name, and withdraw it. The first class that somebody is of decides alone; root may everything, and a
 * client may always replace and withdraw what it has published itself. It is fixed for the capsule's life. */
typedef struct HurrayAccess {
    uint32_t is_set; /* 0: the publisher's own group, and the daemon's default mode: 0600 unless configured otherwise */
    uint32_t gid;    /* a group that the publisher was in when it connected (root: any), or HURRAY_GID_OWN */
    uint32_t mode;
} HurrayAccess;

#define HURRAY_GID_OWN 0xffffffffu /* the group that the publisher had when it connected: its effective one */

/* Where one buffer lies: in fds[segment] of hurray_client_publish_fds, from byte `offset` on. */
typedef struct HurrayPlacement {
    uint32_t segment;
    uint64_t offset; /* a multiple of the alignment in the descriptor's buffer table */
} HurrayPlacement;

#define HURRAY_CAPSULE_IMMUTABLE \
    0x1u /* not even the producer can change a byte any more; so too where there is no byte */
#define HURRAY_CAPSULE_UNSEALED \
    0x2u /* some of it is memory without seals, a dma-buf: others may write while it is read */
#define HURRAY_CAPSULE_RETIRED 0x4u   /* can't be attached any more, is still held */
#define HURRAY_CAPSULE_LINGERING 0x8u /* outlives its producer (HURRAY_PUBLISH_LINGER), and can be had */
#define HURRAY_CAPSULE_ONCE 0x10u /* is not attached but taken, by one: queued without a lease, taken once RETIRED */
#define HURRAY_CAPSULE_PRODUCER_GONE 0x20u /* LINGERING, and its producer has left; from hurray_client_list */

/* What is known of a capsule. */
typedef struct HurrayCapsuleInfo {
    uint32_t struct_size; /* in: sizeof(HurrayCapsuleInfo) as the caller knows it */
    uint32_t flags;       /* HURRAY_CAPSULE_* */
    HurrayCapsuleId capsule;
    HurrayAccess access; /* is_set is 0 of what was published by a daemon that does not tell its default */
    uint64_t version;    /* of its name; rises with each publish, with gaps. 0 from publish: staged in its group */
    uint64_t byte_size;  /* of its buffers together */
    uint64_t leases;     /* open ones, when the daemon answered; 0 from publish and attach */
    const char *name;    /* "" if it has none; null from publish and published */
    const uint8_t *descriptor; /* encoded; null from publish and published */
    uint64_t descriptor_len;
    int32_t pid;       /* of the producer's process, from hurray_client_list; else 0 */
    uint32_t reserved; /* 0 */
    uint64_t
        expires_ms; /* PRODUCER_GONE: it retires in so many milliseconds unless its producer comes back. 0: it does not */
} HurrayCapsuleInfo;

/* What an event tells. */
typedef enum HurrayEventKind {
    HURRAY_EVENT_CONNECTION = 1, /* to the client's on_event: the connection's state; `status` says which */
    /* To a capsule's on_event: */
    HURRAY_EVENT_LEASE_OPENED = 2,   /* somebody attached; only with TELL_OPENED. `remaining` counts the open leases */
    HURRAY_EVENT_LEASE_RELEASED = 3, /* a consumer is done; `remaining` leases are left */
    HURRAY_EVENT_LEASE_LOST = 4,     /* a consumer's connection ended without a release; `remaining` are left */
    HURRAY_EVENT_LEASE_TAKEN = 5, /* published ONCE: somebody has it now, and nobody else will; the lease stays open */
    /* Retired and nobody holds it any more, or its group was aborted: exactly once, the last event of a capsule. Also,
     * without REUSABLE, if the connection is lost; not told if the client is destroyed before. */
    HURRAY_EVENT_ENDED = 6,
    /* To a watch: */
    HURRAY_EVENT_PRESENT = 7,      /* was there when the watch began */
    HURRAY_EVENT_SNAPSHOT_END = 8, /* all that was there has been told */
    HURRAY_EVENT_PUBLISHED = 9,    /* can be attached from now on */
    HURRAY_EVENT_RETIRED = 10,     /* withdrawn, replaced, taken or expired: can't be attached any more */
    HURRAY_EVENT_PRODUCER_LOST =
        11,               /* its producer's connection ended; it can't be attached any more. Never of what lingers */
    HURRAY_EVENT_GAP = 12 /* events were left out, since too many waited to be told: list anew */
} HurrayEventKind;

/* ENDED: nobody can be reading the memory any more, so it may be written again. Never of an immutable capsule. */
#define HURRAY_EVENT_FLAG_REUSABLE 0x1u
#define HURRAY_EVENT_FLAG_AWAY \
    0x2u /* CONNECTION, with HURRAY_ERR_CONNECTION_LOST: the daemon is away, the client tries to reach it again */

typedef struct HurrayEvent {
    uint32_t struct_size;
    uint32_t kind; /* HURRAY_EVENT_*; be ready for kinds that are newer than your header */
    uint32_t flags;
    HurrayStatus status; /* CONNECTION: HURRAY_ERR_CONNECTION_LOST, or HURRAY_OK; else HURRAY_OK */
    HurrayCapsuleId capsule;
    uint64_t version;
    uint64_t remaining;
    const char *name; /* "" where there is none */
} HurrayEvent;

typedef void (*HurrayEventFn)(const HurrayEvent *event, void *context);
/* Non-zero: stop waiting. Called on the waiting thread. */
typedef int32_t (*HurrayInterruptedFn)(void *context);
/* Zero: go on. Non-zero: stop, without an error. */
typedef int32_t (*HurrayListFn)(const HurrayCapsuleInfo *capsule, void *context);

/* ---- Connecting ------------------------------------------------------------------------------------------------- */

/* Callbacks run in hurray_client_dispatch only. Nothing is read of the connection then but in that and in other calls: a client
 * that makes none for seconds, while events for it pile up, holds others up, and the daemon cuts it. */
#define HURRAY_CONNECT_DISPATCH_BY_CALLER 0x1u
#define HURRAY_CONNECT_NO_RECONNECT 0x2u /* the end of the connection is final */

typedef struct HurrayConnectOptions {
    uint32_t struct_size;
    uint32_t flags;
    const char *address; /* path of the daemon's socket; null: $HURRAY_SOCKET, else the user's own, else the system's */
    const char *client_name; /* a label for people, up to 64 bytes; null: the program's name */
    int64_t timeout_ms;   /* C2: how long to keep trying while nobody listens, and to wait for the daemon's answer once
                                somebody does. Default 0: one try, and 5 s for the answer */
    int64_t reconnect_ms; /* for how long to try, each time that the daemon goes away. Default 0, and -1: for ever */
    HurrayEventFn on_event;          /* may be null */
    HurrayInterruptedFn interrupted; /* may be null */
    void *context;                   /* of both */
} HurrayConnectOptions;

/* When the daemon goes away (its death, an upgrade), the client tries to reach it again, with pauses of up to a second, and brings back what it
 * had: capsules under their versions, leases, watches (what is new is told at once; what is gone, and one GAP, when the daemon's resume window ends).
 * The program is told by two CONNECTION events: HURRAY_ERR_CONNECTION_LOST with HURRAY_EVENT_FLAG_AWAY, then HURRAY_OK. In between:
 *
 * - what is mapped stays readable and is still held, releases are told later, memory can be allocated and written;
 * - an attach that may wait goes on waiting within its timeout; a publish that was under way is repeated until it is answered, one that
 *   begins waits for as long as its timeout_ms says; a withdrawal of an own capsule takes effect when the daemon is back;
 * - all else fails with HURRAY_ERR_CONNECTION_LOST, a group that is open is gone, what was staged in it ends.
 *
 * If reconnect_ms passes, or with HURRAY_CONNECT_NO_RECONNECT, the end is final: a CONNECTION event without that flag, ENDED of each capsule (not
 * reusable), HURRAY_ERR_CONNECTION_LOST from each call and each lease's state. If the daemon was there all the time and has cut this client off,
 * its leases are lost and its capsules have ended, but it can go on with new ones. */

/* Connects to the daemon and agrees on a protocol version.
 *
 * Without an address: $HURRAY_SOCKET if set; else $XDG_RUNTIME_DIR/hurray/hurrayd.sock; else /run/hurray/hurrayd.sock. Only
 * a missing socket moves the search on.
 *
 * HURRAY_ERR_DAEMON_UNAVAILABLE  no socket, or nobody listens on it (the message names the paths tried)
 * HURRAY_ERR_NOT_PERMITTED       the socket may not be opened, or belongs to a user that is not trusted: trusted are
 *                                root, the own user and the user `hurray`; on an explicitly given address also the one
 *                                in $HURRAY_DAEMON_UID and a user namespace's overflow user
 * HURRAY_ERR_TIMED_OUT           somebody listens, but did not answer in time
 * HURRAY_ERR_INVALID_ARGUMENT    also: $HURRAY_POOL_BYTES or $HURRAY_POOL_SECONDS is no whole number
 * HURRAY_ERR_PROTOCOL            what answers is no hurrayd, or speaks other versions (the message names both ranges)
 */
HURRAY_API HurrayStatus hurray_client_connect(const HurrayConnectOptions *options, HurrayClient **out);

/* Ends the client's use: waiting calls return HURRAY_ERR_CLOSED, publications end, no new lease can be had. Tensor contexts
 * stay valid, and the connection lives until the client and the last of them are destroyed. Waits for nobody. Closing twice is fine.
 *
 * A TAKE to which the daemon has said yes already does not return at once: what it takes is nobody else's any more, so it goes on, within
 * seconds, until that is settled (hurray_client_attach). */
HURRAY_API HurrayStatus hurray_client_close(HurrayClient *client);

/* Closes and frees. No other call of this client may be running, and it must not be called from one of its callbacks;
 * none of them runs after it has returned. `*client` may be null. */
HURRAY_API HurrayStatus hurray_client_destroy(HurrayClient **client);

/* A descriptor to poll for readability: hurray_client_dispatch has work, or would fail at once (so it stays readable when the client
 * was closed or has lost its connection). Borrowed. DISPATCH_BY_CALLER clients only, else HURRAY_ERR_UNSUPPORTED. */
HURRAY_API HurrayStatus hurray_client_poll_fd(HurrayClient *client, int32_t *out);

/* Waits for events (C2) and runs their callbacks on this thread. HURRAY_OK if at least one callback ran;
 * HURRAY_ERR_WOULD_BLOCK if there was none with a timeout of 0, HURRAY_ERR_TIMED_OUT with another. DISPATCH_BY_CALLER clients
 * only, one thread at a time. */
HURRAY_API HurrayStatus hurray_client_dispatch(HurrayClient *client, int64_t timeout_ms);

/* The daemon's counters and this client's, as one JSON object (R6; the length does not count the terminating null, the
 * capacity must have room for it).
 *
 * uses     what each thing amounts to, for this user (root: every user): name, uid, used, limit (0: none)
 * writing  segments that are reserved and not published yet: uid, pid, bytes, age_ms
 * holders  which clients have most of what each client may have only so much of, three of each thing: name, uid, pid, client_name, used, limit
 * client   capsules, their bytes, leases; "connection": state ("up", or "away": then uses, writing and holders are empty, daemon_version is "") and reconnects,
 *          how often it was made anew; and "memory", what was allocated here: segments, bytes (in use and waiting to be
 *          used again); idle_segments, idle_bytes (of those, waiting) and their limits idle_segments_limit, idle_bytes_limit, idle_ms_limit;
 *          arenas, arena_bytes (segments that small buffers share), arena_live_bytes (in use), arena_retired_bytes (never used again, since a
 *          lease was lost); segments_made, blocks_reused (since the client connected); and "mappings", what was attached: segments,
 *          bytes; idle_segments, idle_bytes (of those, without a lease) and their limits
 * daemon_version, uptime_ms */
HURRAY_API HurrayStatus hurray_client_status_json(HurrayClient *client, char *out, uint64_t *inout_len);

/* ---- Producing -------------------------------------------------------------------------------------------------- */

/* Publishing it makes it immutable: nobody, this program neither, can change a byte of it after that. It has a segment of its own,
 * which is never used again: for what is read long and by many, such as a model, not for a steady loop. */
#define HURRAY_ALLOCATE_IMMUTABLE 0x1u
/* The buffers need not be zero: they may hold what this client published in that memory before, to the same readers. For
 * who writes every byte anyway: clearing what is used again costs as much as writing it once. */
#define HURRAY_ALLOCATE_UNINITIALIZED 0x2u

typedef struct HurrayAllocateOptions {
    uint32_t struct_size;
    uint32_t flags;
    HurrayAccess access; /* of the capsule that it is for */
} HurrayAllocateOptions;

/* Gives `count` (1 to 255) zeroed, writable buffers in one sealed shared-memory segment. Buffer 0 starts at a multiple of
 * 4096, the others of 64. A size may be 0. The pages are reserved at once, so writing them can't fail later.
 *
 * Memory is for one access, since whoever has mapped it sees what is written there later: it is used again for capsules of the very
 * same access alone.
 *
 * Memory of capsules that have ended is used again if nobody can be reading it any more (HURRAY_EVENT_FLAG_REUSABLE), and no list of
 * hurray_allocation_buffers shows it: then no system call is made and no page is touched for the first time. What no buffer covers is zero
 * all the same. Buffers of up to 64 KiB together share segments with others of this client, in whole pages; larger ones
 * have one of their own, which a later allocation may use again if it leaves less than an eighth of its size unused. Up to 1 GiB in 256 segments waits to be
 * used again, for 10 to 20 seconds each (without a thread of the library's: until hurray_client_dispatch looks); $HURRAY_POOL_BYTES and
 * $HURRAY_POOL_SECONDS change that, 0 keeps nothing.
 *
 * For a new segment the daemon is asked for room first, and shows it as being written until it is published.
 *
 * HURRAY_ERR_OVER_QUOTA  this user, or all together, may have no more shared memory; the message names the quota, its limit, what
 *                        is in use and what was asked for
 * HURRAY_ERR_NO_SPACE    the kernel could not reserve so much; the message gives asked and available bytes
 * HURRAY_ERR_LIMIT       descriptors or mappings of this process
 */
HURRAY_API HurrayStatus hurray_client_allocate(HurrayClient *client, const uint64_t *byte_sizes, uint32_t count,
                                               const HurrayAllocateOptions *options, HurrayAllocation **out);

/* Where buffer `index` begins. Valid until the allocation is destroyed, or, once published, until its capsule has ended.
 * A buffer of size 0 has an address too. HURRAY_ERR_INDEX_OUT_OF_BOUNDS. */
HURRAY_API HurrayStatus hurray_allocation_data(const HurrayAllocation *allocation, uint32_t index, void **out);

/* The same memory as a list of CPU buffers, which keeps it mapped in this process: for as long as the list lives, also
 * after the allocation was destroyed or its capsule ended. (A language binding hangs its views on it.) */
HURRAY_API HurrayStatus hurray_allocation_buffers(const HurrayAllocation *allocation, HurrayBufferList **out);

/* Whether the allocation may still be written: 0 once a publish has made it immutable, even if the daemon then refused it. */
HURRAY_API HurrayStatus hurray_allocation_is_writable(const HurrayAllocation *allocation, uint8_t *out);

/* Gives an unpublished allocation's memory back at once (to the client's own use if it was published before), unless a list of hurray_allocation_buffers still holds it.
 * `*allocation` may be null. */
HURRAY_API HurrayStatus hurray_allocation_destroy(HurrayAllocation **allocation);

#define HURRAY_PUBLISH_COPY 0x1u        /* publish_list: copy ordinary memory into a new segment */
#define HURRAY_PUBLISH_TELL_OPENED 0x2u /* LEASE_OPENED events too */
#define HURRAY_PUBLISH_ONCE 0x4u        /* it queues behind its name, to be taken by one; see below */
#define HURRAY_PUBLISH_LINGER 0x8u      /* it stays when this client is gone; see below */
#define HURRAY_PUBLISH_IMMUTABLE 0x10u  /* publish_list, with COPY: the copy is immutable */

typedef struct HurrayPublishOptions {
    uint32_t struct_size;
    uint32_t flags;
    HurrayAccess access;    /* of an allocation what it was allocated for, or not set: then it is that */
    uint64_t retain;        /* versions of the name that stay attachable, this one included: 1 to 4096; 0: 1 */
    uint64_t group;         /* of hurray_client_group_begin: there with all of the group, or never. 0: at once */
    int64_t linger_ms;      /* with LINGER: for how long it stays when this client is gone; 0: without an end */
    HurrayEventFn on_event; /* events of this capsule; may be null */
    void *context;
    int64_t
        timeout_ms; /* C2: how long to wait while the daemon is away. Default 0: HURRAY_ERR_CONNECTION_LOST at once */
} HurrayPublishOptions;

/* Publishes an allocation under `name`, without a copy: buffer i of the allocation is entry i of the descriptor's buffer
 * table, whose byte_size may be smaller than what was allocated, not larger. Consumers get the descriptor's bytes as they
 * are. On success the allocation is taken (`*allocation` is null then) and its memory belongs to the capsule until that
 * has ended; on failure the caller still has it.
 *
 * A capsule can be attached until it is withdrawn, another one is published under its name, or this client is closed or
 * dies, unless it is to LINGER. `name` may be null: then it can be attached by its id only. `out` may be null.
 *
 * With `retain` the newest versions of the name stay attachable by their numbers, as many as the last publish says; older ones retire.
 * Those that are withdrawn, or whose client is gone, don't count.
 *
 * ONCE makes a work queue of the name: a capsule replaces nothing, is never attached, and goes to one client, which takes it
 * (HURRAY_ATTACH_TAKE), the oldest first. LEASE_TAKEN tells that somebody has it. Before that a taker may die, or give it back: then it is queued
 * again in front (LEASE_LOST or _RELEASED); the third time it ends, LEASE_LOST. After it, LEASE_RELEASED says that its taker has let go of it,
 * LEASE_LOST that it has died: publish again what is still to be done. What nobody has taken ends with this client.
 * While anything of a name lives, it is either such a queue or has versions that are attached.
 *
 * LINGER leaves the capsule with the daemon when this client is closed, dies or is cut off: it can be attached, or taken, as before, and
 * nobody is told PRODUCER_LOST, until it is withdrawn (by whoever may write it), replaced, or `linger_ms` are over since its producer left. A
 * client that was cut off takes it up again by itself. The daemon holds its memory meanwhile, on this user's account; what the
 * program shares a segment with (small allocations) stays too. Where the daemon has a descriptor store of the service manager's, it
 * survives the daemon too; elsewhere it goes with the daemon, and what is ONCE and nobody has taken ends when this client is cut off: it might
 * be taken a second time else, when client and daemon are back. All of a group is to linger, or none of it.
 *
 * An allocation with HURRAY_ALLOCATE_IMMUTABLE is sealed just before it is sent. Pointers into it stay valid, for reading; a write
 * through them is a SIGSEGV. If the daemon then refuses, it may be published again, under another name for one, but not be written
 * (hurray_allocation_is_writable). The kernel does not seal what somebody else can write to: while a forked child has it mapped, or its
 * pages are pinned for a device, publishing is HURRAY_ERR_INVALID_ARGUMENT and says so, and the allocation is as it was.
 *
 * HURRAY_ERR_ALREADY_EXISTS                the name belongs to another user or is of the other kind (ONCE or not), or the group
 *                                          has a member of that name
 * HURRAY_ERR_NOT_PERMITTED                 the name is held by a capsule that may be read but not replaced; or the group of the access is not
 *                                          one of the publisher's
 * HURRAY_ERR_INVALID_ARGUMENT              also: the memory was allocated for another access; the group has members that are to LINGER
 *                                          and this is not, or the other way round
 * HURRAY_ERR_NOT_FOUND                     the group is not open
 * HURRAY_ERR_INVALID_LAYOUT, _INVALID_TYPE, _INVALID_MAGIC, ...  the descriptor (see hurray_descriptor_validate_sharing)
 * HURRAY_ERR_UNSUPPORTED                   an option, or memory of a kind, that is not supported yet
 * HURRAY_ERR_LIMIT                         the descriptor is longer than the daemon accepts, descriptors ran out, or the group is
 *                                          full
 * HURRAY_ERR_OVER_QUOTA
 */
HURRAY_API HurrayStatus hurray_client_publish(HurrayClient *client, const char *name, const uint8_t *descriptor,
                                              uint64_t descriptor_len, HurrayAllocation **allocation,
                                              const HurrayPublishOptions *options, HurrayCapsuleInfo *out);

/* Publishes ordinary CPU memory by copying it into a new segment first, which needs the flag COPY: without it
 * HURRAY_ERR_INVALID_ARGUMENT. Buffer i of `buffers` is entry i of the descriptor's table and holds at least its byte_size.
 * The list stays the caller's. Fails as hurray_client_allocate and hurray_client_publish do. */
HURRAY_API HurrayStatus hurray_client_publish_list(HurrayClient *client, const char *name, const uint8_t *descriptor,
                                                   uint64_t descriptor_len, const HurrayBufferList *buffers,
                                                   const HurrayPublishOptions *options, HurrayCapsuleInfo *out);

/* Publishes memory that the caller has made itself, without a copy: `count` (up to 253) memfds or dma-bufs, in which the buffers lie
 * where `placements` says, one entry for each of the descriptor's table. Null: buffer i begins fds[i].
 *
 * What each descriptor is, the library finds out by itself:
 *   a memfd with the seals SHRINK, GROW, FUTURE_WRITE and SEAL   is reusable. Map it before it is sealed. Nobody may write to it
 *                    until HURRAY_EVENT_ENDED comes with REUSABLE; without that flag never again
 *   a memfd with the seals SHRINK, GROW, WRITE and SEAL          is immutable
 *   a dma-buf        has no seals, so it goes only to consumers that say HURRAY_ATTACH_ALLOW_UNSEALED. Whoever writes it for a
 *                    device must be done, and its caches in order (DMA_BUF_IOCTL_SYNC): hurrayd and this library do neither
 * F_SEAL_EXEC may come on top. All pages of a memfd must be reserved (fallocate): a sparse one would make its readers pay, or die.
 * Anything else, an unsealed memfd or a file, can be cut short or rewritten under a reader, and is refused.
 *
 * `options->access` is the capsule's; a file has one access for as long as a capsule lies in it, and is one user's.
 *
 * The descriptors stay the caller's and may be closed at once. The whole file counts against the user's bytes, once however many
 * capsules of this client lie in it at a time, and consumers can read all of it. While some do, it is one segment: it is sent once,
 * and who keeps mappings maps it once.
 *
 * HURRAY_ERR_INVALID_ARGUMENT  a descriptor (the message names it and says which seals are missing, that it is sparse, or what it is
 *                              instead of a memfd), or a placement: out of its file, misaligned, overlapping; or a file without a buffer
 * HURRAY_ERR_NOT_PERMITTED     a memfd that another user has made (fstat says who); root may publish it
 * HURRAY_ERR_CONNECTION_LOST, HURRAY_ERR_CLOSED  it may have been published and read: don't write to it again
 * and as hurray_client_publish does.
 */
HURRAY_API HurrayStatus hurray_client_publish_fds(HurrayClient *client, const char *name, const uint8_t *descriptor,
                                                  uint64_t descriptor_len, const int32_t *fds, uint32_t count,
                                                  const HurrayPlacement *placements,
                                                  const HurrayPublishOptions *options, HurrayCapsuleInfo *out);

/* One of several things to publish, for hurray_client_publish_many. */
typedef struct HurrayPublishItem {
    uint32_t struct_size; /* the same in every item of an array */
    HurrayStatus status;  /* out */
    const char *name;
    const uint8_t *descriptor;
    uint64_t descriptor_len;
    HurrayAllocation **allocation;   /* exactly one of allocation (see hurray_client_publish) */
    const HurrayBufferList *buffers; /* and buffers, with COPY (see hurray_client_publish_list) */
    const HurrayPublishOptions *options;
    HurrayCapsuleInfo *info; /* out; may be null */
} HurrayPublishItem;

/* Publishes each of `count` items, in their order, as hurray_client_publish or hurray_client_publish_list would, and in a small
 * part of the time: up to 128 are under way at once, for a few system calls.
 *
 * Each has its own `status`, and a failure ends nothing: those that could be published are. Returns the first failure in the order of
 * the items, and the message names that one (HURRAY_OK: all are published). To have all or none, publish into a group.
 * `status`, `info` and `*allocation` of an item are written as it is published; if this returns HURRAY_ERR_NULL_POINTER or
 * HURRAY_ERR_INVALID_ARGUMENT for the array as a whole (its struct_size), nothing is written. An allocation may be given
 * once. Without memory (HURRAY_ERR_INTERNAL, "out of memory") some may be published: their allocations are taken, and only theirs. */
HURRAY_API HurrayStatus hurray_client_publish_many(HurrayClient *client, HurrayPublishItem *items, uint64_t count);

/* Begins a group: capsules that others see all at once or not at all, such as a tensor with its parts, or a whole model.
 *
 * Publish with the group's number as often as needed, then end the group. Until it is committed its capsules are *staged*: fully
 * checked, counted for this user, and there for nobody. Their memory belongs to them as that of any capsule; publish gives
 * them version 0. A group has up to 4096 members, each with a name of its own or without one; those that are published ONCE may share names. Several groups may be open, and any thread
 * may publish into them. What is staged goes with the client.
 *
 * HURRAY_ERR_LIMIT  64 groups of this client are open
 */
HURRAY_API HurrayStatus hurray_client_group_begin(HurrayClient *client, uint64_t *out);

/* Ends a group. With a non-zero `commit` all its capsules can be attached once this returns, and nobody has seen some of them
 * without the others; hurray_client_published tells their versions, which are consecutive in the order of publishing. With 0
 * each of them ends (HURRAY_EVENT_ENDED, REUSABLE), and none was ever seen.
 *
 * A refused commit changes nothing: the group is still open, to be committed again or aborted. After CONNECTION_LOST and CLOSED
 * it has ended, one way or the other, and so have its capsules; what it was to replace may be retired, all of it or some.
 * Publish it again. What of it is to LINGER may have been there for others meanwhile: it is withdrawn at once, or when the daemon is back. If this client
 * does not live to see that, it may stay: hurray_client_list shows it.
 *
 * HURRAY_ERR_ALREADY_EXISTS  the name of a member, which the message tells, belongs to another user by now
 * HURRAY_ERR_NOT_PERMITTED   the name of a member is held by a capsule that may not be replaced
 * HURRAY_ERR_NOT_FOUND       no such group is open
 */
HURRAY_API HurrayStatus hurray_client_group_end(HurrayClient *client, uint64_t group, uint8_t commit);

/* What is known here of a capsule that this client has published: version (0 while staged), byte_size, open leases and whether it
 * is retired. Asks nobody. HURRAY_ERR_NOT_FOUND: this client has published no such capsule, or it has ended. */
HURRAY_API HurrayStatus hurray_client_published(HurrayClient *client, const HurrayCapsuleId *capsule,
                                                HurrayCapsuleInfo *out);

/* Retires a capsule: no new attach, those who hold it go on reading. Twice is fine while somebody holds it. A staged one leaves
 * its group and ends. HURRAY_ERR_NOT_FOUND: there is none, or it has ended. HURRAY_ERR_NOT_PERMITTED.
 *
 * While the daemon is away a capsule of this client is withdrawn too: it does not come back. But of one that is to LINGER the daemon may
 * have a copy, until it is back and hears of it from this client: HURRAY_ERR_CONNECTION_LOST says so. Withdraw it again to know. */
HURRAY_API HurrayStatus hurray_client_withdraw(HurrayClient *client, const HurrayCapsuleId *capsule);

/* ---- Consuming -------------------------------------------------------------------------------------------------- */

/* What memory a capsule lies in does not decide which version is attached. If that one is of a kind that is not wanted, the attach is
 * HURRAY_ERR_UNSUPPORTED, at once or, if it waits, as soon as that version comes; it does not wait for a better one. */
#define HURRAY_ATTACH_IMMUTABLE_ONLY 0x1u /* only what nobody can change any more, its producer neither */
#define HURRAY_ATTACH_TAKE 0x2u           /* of what was published ONCE: the oldest, for this client alone */
#define HURRAY_ATTACH_ALLOW_UNSEALED 0x4u /* also what others may write to while it is read (HURRAY_CAPSULE_UNSEALED) */

/* Memory that is mapped for the first time comes as it is read, some pages at a time, or all at once before attach returns. */
#define HURRAY_POPULATE_AUTO 0u /* what is measured to be faster: as it is read, for every size */
#define HURRAY_POPULATE_YES 1u  /* at once: for who reads it where nothing may take long. 1 GiB takes some 50 ms */
#define HURRAY_POPULATE_NO 2u   /* as it is read */

typedef struct HurrayAttachOptions {
    uint32_t struct_size;
    uint32_t flags;
    const char *name; /* exactly one of name and capsule */
    const HurrayCapsuleId *capsule;
    uint64_t version;    /* this version only; at most one of version and newer_than, else the latest */
    uint64_t newer_than; /* the first version that is newer than this one */
    int64_t timeout_ms;  /* C2: how long to wait for it to be published. Default 0 */
    uint32_t populate;   /* HURRAY_POPULATE_*: when pages of a fresh mapping come */
    int32_t device;      /* not supported yet: must be 0 */
} HurrayAttachOptions;

/* Attaches a capsule: maps its buffers, read-only, and takes a lease on it.
 *
 * `buffers` receives the buffers in the order of the descriptor's table; `context` the encoded descriptor, and destroying
 * it releases the lease: the producer is told, and the buffers' pointers must not be used any more. The list must be
 * destroyed too, before or after. `info` may be null; its name and descriptor live as long as the context.
 * The mapping moves no bytes and takes as long for 1 GiB as for 4 KiB; the process ends up with no descriptor of a file.
 * It is kept when the lease ends, for the next capsule in the same memory: so a steady loop maps nothing. Up to 1,024 mappings
 * or 16 GiB lie idle in a client, none of memory that its producer has given up.
 *
 * With TAKE it is the oldest capsule of a queue (HURRAY_PUBLISH_ONCE), or the one that `capsule` names, and no other client gets it any
 * more. If this client dies before that is settled, it goes to the next taker; from the return on its end is this client's alone.
 * A client that is closed meanwhile may have taken it: then this returns it, HURRAY_OK, as soon as the daemon has said so, within two or three
 * seconds. If that does not answer for 5 s, the connection ends, HURRAY_ERR_CONNECTION_LOST. After an error it is not this client's: it goes to
 * the next taker, or its producer is told LEASE_LOST.
 *
 * HURRAY_ERR_NOT_FOUND    nothing there to be attached (timeout 0), or not for this user
 * HURRAY_ERR_TIMED_OUT    nor within the timeout
 * HURRAY_ERR_CLOSED       the client was closed meanwhile, before anything was had
 * HURRAY_ERR_LIMIT        descriptors or mappings of this process; nothing is left behind, so try again later
 * HURRAY_ERR_UNSUPPORTED  the capsule's memory is of a kind that `flags` does not allow; TAKE of what was not published ONCE, or no
 *                         TAKE of what was; or an option, or memory of a kind, that this library can't use yet
 */
HURRAY_API HurrayStatus hurray_client_attach(HurrayClient *client, const HurrayAttachOptions *options,
                                             HurrayBufferList **buffers, HurrayTensorContext **context,
                                             HurrayCapsuleInfo *info);

/* One of several capsules to attach, for hurray_client_attach_many. */
typedef struct HurrayAttachItem {
    uint32_t struct_size; /* the same in every item of an array */
    HurrayStatus status;  /* out: of the one that failed; HURRAY_OK in all others */
    const HurrayAttachOptions *options;
    HurrayBufferList *buffers;    /* out */
    HurrayTensorContext *context; /* out */
    HurrayCapsuleInfo *info;      /* out; may be null */
} HurrayAttachItem;

/* Attaches all of `count` capsules or none, in a small part of the time that as many calls of hurray_client_attach take: up to 128
 * are asked for at once, for a few system calls. Each is a lease of its own, as from hurray_client_attach.
 *
 * Timeouts count from the call. If one fails, those that wait are cancelled, what was attached is released, `buffers` and `context` of
 * every item are null, and the message names the item. Which of several is told is whichever was refused first.
 * They are not attached at one instant: of a model that is published again meanwhile, as a group, some may be newer. Ask for versions to
 * rule that out. Fails as hurray_client_attach does. */
HURRAY_API HurrayStatus hurray_client_attach_many(HurrayClient *client, HurrayAttachItem *items, uint64_t count);

/* Whether an attached tensor is still backed by its producer: HURRAY_OK, HURRAY_ERR_CONNECTION_LOST (the connection to the
 * daemon ended) or HURRAY_ERR_PRODUCER_LOST (the producer left). Its memory stays readable in each case.
 * With DISPATCH_BY_CALLER it is as fresh as what was last read of the connection, by any call.
 * HURRAY_ERR_INVALID_ARGUMENT as the result of the call: the context was not made by hurray_client_attach. */
HURRAY_API HurrayStatus hurray_lease_state(const HurrayTensorContext *context, HurrayStatus *out);

/* ---- Looking around --------------------------------------------------------------------------------------------- */

/* Calls `callback` for each capsule that matches `pattern` (C11; null: everything) and may be read by this user, in the
 * order of names and versions, on this thread. The list is fetched page by page: what changes meanwhile may be missed. */
HURRAY_API HurrayStatus hurray_client_list(HurrayClient *client, const char *pattern, HurrayListFn callback,
                                           void *context);

/* Tells `callback` what there is (PRESENT, SNAPSHOT_END) and from then on what changes (PUBLISHED, RETIRED,
 * PRODUCER_LOST), for capsules that match `pattern`. `out` receives a number for hurray_client_unwatch. */
HURRAY_API HurrayStatus hurray_client_watch(HurrayClient *client, const char *pattern, HurrayEventFn callback,
                                            void *context, uint64_t *out);

/* Ends a watch. Once this has returned its callback does not run any more (if called from the callback itself: after that
 * call has returned). HURRAY_ERR_NOT_FOUND. */
HURRAY_API HurrayStatus hurray_client_unwatch(HurrayClient *client, uint64_t watch);

#ifdef __cplusplus
}
#endif

#endif /* HURRAY_CLIENT_H */
