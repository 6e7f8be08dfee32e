#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "hurray.h"

#include "client/allocation.hpp"
#include "client/session.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

namespace hurray::client {

struct TensorContextDeleter {
    void operator()(HurrayTensorContext* context) const noexcept { hurray_tensor_context_destroy(&context); }
};
using TensorContextPtr = std::unique_ptr<HurrayTensorContext, TensorContextDeleter>;

/// A capsule that this process holds a lease on, mapped and checked.
struct Attachment {
    BufferListPtr buffers;
    TensorContextPtr context;  ///< its owner is `lease`
    Lease* lease = nullptr;    ///< a loan
    std::uint64_t version = 0;
    std::uint64_t byte_size = 0;
    wire::Access access;
    bool immutable = false;  ///< nobody can change a byte of it any more
    bool unsealed = false;   ///< it lies in a dma-buf: others may write to it while it is read
    bool once = false;       ///< it was taken
};

struct AttachTerms {
    std::variant<std::string, wire::CapsuleId> what;
    wire::Which which = wire::Which::Latest;
    std::uint64_t version = 0;
    bool take = false;                            ///< of what was published once, the oldest: then `which` is Latest
    std::optional<std::uint64_t> timeout_ms = 0;  ///< absent: for ever
    Populate populate = Populate::Auto;
    bool immutable_only = false;
    bool allow_unsealed = false;
};

/// Asks for a lease, maps what is granted, and makes libhurray's handles of it. The producer is not trusted, nor the daemon:
/// seals, sizes, places and descriptor are checked here too, before anything is mapped.
///
/// Threads: any.   Blocks: until it is granted, or the terms' timeout.
/// Fails: NotFound, TimedOut and what else the daemon says; Unsupported (memory of a kind that the terms or this library don't
/// allow); Limit; Protocol if what was granted is not sound.
/// Nothing is held after a failure.
///
/// A take returns once the daemon has said that the capsule is this client's: who dies before that leaves it to the next. If it is
/// refused, since the producer is gone, the take goes on waiting within its time, under a new lease. Ctrl-C does not end it while it
/// is being confirmed, which is answered at once: it would be open who has the capsule.
[[nodiscard]] Result<Attachment> attach(const std::shared_ptr<Session>& session, const AttachTerms& terms);

/// Of several things that are done at once, which one failed, if it was one of them.
struct ManyError {
    std::optional<std::size_t> index;
    Error error;
};
template <class T>
using ManyResult = tl::expected<T, ManyError>;

/// All of them or none, in their order, asking for many at a time. Timeouts count from now. The first that is refused
/// ends it; what was granted is given back before this returns.
///
/// Descriptors come many at a time too. Where this process has too few free, fewer are asked for at a time, down to one.
/// Threads, waiting and failures as attach().
[[nodiscard]] ManyResult<std::vector<Attachment>> attach_many(const std::shared_ptr<Session>& session,
                                                              std::span<const AttachTerms> terms);

}  // namespace hurray::client
