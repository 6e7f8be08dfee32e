// One connection, as the package's Python half uses it: arguments are checked and arrays understood there.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "handles.hpp"
#include "tensor.hpp"

namespace hurray_python {

namespace nb = nanobind;

class ClientState;

/// What the library calls back with: kept until its last event has come, or its client has gone.
struct CallbackContext {
    ClientState* owner;
    nb::object callable;  // (kind, status, capsule, version, remaining, flags, name); null once cleared
    /// Of a publication whose leases interest nobody: then no consumer's release has to wait for the interpreter.
    bool end_only = false;
};

/// The handle of a connection, and the Python objects that it may call. Everything but `handle` is touched with the GIL
/// held only.
///
/// Owned by the Client and by each call that is under way. Whoever drops the last reference may be a finalizer, so the
/// handle, whose destruction waits for callbacks, is then destroyed by a thread of its own.
class ClientState {
  public:
    static std::shared_ptr<ClientState> make();

    CallbackContext* add(nb::object callable, bool end_only = false);
    /// The context may not be used any more by the library. Null is fine.
    void remove(CallbackContext* context);

    HurrayClient* handle = nullptr;
    nb::object on_connection;  // (status)
    std::unordered_map<std::uint64_t, CallbackContext*> watches;
    std::unordered_set<CallbackContext*> contexts;

    ClientState() = default;
    ClientState(const ClientState&) = delete;
    ClientState& operator=(const ClientState&) = delete;
    ~ClientState();

  private:
    static void retire(ClientState* state) noexcept;
};

/// Writable shared memory, as a Python buffer of bytes. Read-only once it is published.
class Allocation {
  public:
    Allocation(const std::shared_ptr<ClientState>& client, AllocationHandle handle);

    [[nodiscard]] std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
    [[nodiscard]] std::uint64_t nbytes() const { return byte_size_; }
    [[nodiscard]] bool published() const { return published_; }
    [[nodiscard]] bool read_only() const { return published_ || sealed_; }
    [[nodiscard]] void* data() const { return data_; }

    /// Takes the handle for a publish by `client`; throws if it isn't there or isn't that client's.
    [[nodiscard]] AllocationHandle take(const std::shared_ptr<ClientState>& client);
    /// Of a publish that failed, which may have made it immutable all the same.
    void give_back(AllocationHandle handle);
    void mark_published() { published_ = true; }

    nb::object array;  // weak reference to the array that allocate() returned

  private:
    std::weak_ptr<ClientState> client_;
    AllocationHandle handle_;
    BufferList buffers_;  // keeps the memory mapped as long as there are arrays, published or not
    void* data_ = nullptr;
    std::uint64_t byte_size_ = 0;
    bool published_ = false;
    bool sealed_ = false;  // it can't be written any more
};

/// How a dense tensor lies in its buffer.
struct Dense {
    std::uint8_t element_type;
    std::uint8_t layout;
    std::vector<std::uint64_t> shape;
    std::vector<std::int64_t> strides;  // in elements; empty unless strided
    std::uint64_t byte_offset;
};

using Published = std::pair<std::string, std::uint64_t>;                // capsule, version
using Access = std::optional<std::pair<std::uint32_t, std::uint32_t>>;  // gid, mode; nothing: the daemon's default

/// What a publish asks for beside the tensor.
struct PublishTerms {
    nb::object on_event;  ///< or None
    /// Whether to tell it of leases that open, and of those that end or take; of the capsule's end it is told anyway.
    std::pair<bool, bool> wanted;
    std::uint64_t group;  ///< 0: none
    Access access;
    std::uint64_t retain;
    bool once;
    std::optional<std::int64_t> linger_ms;  ///< nothing: it does not; 0: without an end
    std::int64_t timeout_ms;                ///< how long to wait while the daemon is away
};

class Client {
  public:
    Client(const std::optional<std::string>& address, const std::optional<std::string>& client_name,
           std::int64_t timeout_ms, std::int64_t reconnect_ms, nb::object on_connection);

    void close();
    [[nodiscard]] bool closed() const { return state_ == nullptr; }
    [[nodiscard]] std::unique_ptr<Allocation> allocate(std::uint64_t byte_size, bool zeroed, const Access& access,
                                                       bool immutable);
    Published publish(const std::optional<std::string>& name, const Dense& dense, Allocation& allocation,
                      const PublishTerms& terms);
    Published publish_copy(const std::optional<std::string>& name, const Dense& dense, std::uintptr_t address,
                           std::uint64_t byte_size, const PublishTerms& terms, bool immutable);
    /// One of several.
    struct ToPublish {
        std::optional<std::string> name;
        Dense dense;
        Allocation* allocation;  ///< else address and size of what is copied
        std::uintptr_t address;
        std::uint64_t byte_size;
        nb::object on_event;  ///< or None
    };
    /// All of them, or some, and then it throws: `group` is to be aborted. `wanted` is as in PublishTerms.
    std::vector<Published> publish_many(const std::vector<ToPublish>& items, std::pair<bool, bool> wanted,
                                        std::uint64_t group, const Access& access);
    /// Memory that the caller has made: `placements` are the descriptor and the offset of each buffer; none: buffer i begins fds[i].
    Published publish_fds(const std::optional<std::string>& name, const nb::bytes& descriptor,
                          const std::vector<std::int32_t>& fds,
                          const std::optional<std::vector<std::pair<std::uint32_t, std::uint64_t>>>& placements,
                          const PublishTerms& terms);
    [[nodiscard]] std::uint64_t begin_group();
    void end_group(std::uint64_t group, bool commit);
    /// Of a capsule that this client has published and that has not ended; 0 while it is staged.
    [[nodiscard]] std::uint64_t published_version(const std::string& capsule);
    void withdraw(const std::string& capsule);
    [[nodiscard]] std::unique_ptr<Tensor> attach(const std::optional<std::string>& name,
                                                 const std::optional<std::string>& capsule, std::uint64_t version,
                                                 std::uint64_t newer_than, std::int64_t timeout_ms, bool immutable_only,
                                                 bool allow_unsealed);
    [[nodiscard]] std::unique_ptr<Tensor> take(const std::optional<std::string>& name,
                                               const std::optional<std::string>& capsule, std::int64_t timeout_ms);
    /// Of each, name or capsule.
    [[nodiscard]] std::vector<std::unique_ptr<Tensor>> attach_many(
        const std::vector<std::pair<std::optional<std::string>, std::optional<std::string>>>& what,
        std::int64_t timeout_ms, bool immutable_only, bool allow_unsealed);
    [[nodiscard]] nb::list list(const std::string& pattern);
    std::uint64_t watch(const std::string& pattern, nb::object callable);
    void unwatch(std::uint64_t watch);
    [[nodiscard]] std::string status_json();

    /// For the garbage collector: the Python objects held.
    int traverse(visitproc visit, void* argument) const;
    void clear();

  private:
    [[nodiscard]] std::shared_ptr<ClientState> use() const;
    /// `options` without name and capsule.
    [[nodiscard]] std::unique_ptr<Tensor> attach_what(const std::optional<std::string>& name,
                                                      const std::optional<std::string>& capsule,
                                                      HurrayAttachOptions options);

    std::shared_ptr<ClientState> state_;  // null once closed
};

/// Adds Client, Allocation, and the hooks for the interpreter's exit and for fork.
void bind_client(nb::module_& module);

}  // namespace hurray_python
