#pragma once

/// The C++ API of libhurray-client: RAII over hurray_client.h, header-only.
///
/// A producer allocates, fills and publishes; a consumer attaches and reads the very same pages:
///
///     auto client = hurray::Client::connect();                          auto client = hurray::Client::connect();
///     auto image = client.allocate<std::uint8_t>({480, 640, 3});        auto image = client.attach("camera/front");
///     fill(image.elements<std::uint8_t>());                             use(image.elements<std::uint8_t>());
///     client.publish("camera/front", std::move(image));
///
/// Rules that hold for everything here:
///
///  P1  A call that fails throws StatusError, with the status and the library's message, and changes nothing. Which status
///      a call can give, hurray_client.h says at the function of the same name.
///  P2  Objects are move-only. A moved-from, published or released one may only be destroyed or assigned to; other calls throw
///      HURRAY_ERR_INVALID_ARGUMENT and say so.
///  P3  Any thread may use a Client at any time, except to move or destroy it. Other objects: one thread at a time, but they
///      may be handed from one to another.
///  P4  Callbacks run on the client's own thread, or in Client::dispatch if it was connected with dispatch_by_caller. No lock
///      is held, so they may call this API; they must not throw (std::terminate) and must not destroy their Client.
///  P5  Timeouts: zero answers at once, kForever waits without an end.
///  P6  Destructors never throw and never block, with three exceptions: Client's and Watch's wait for a callback that runs just
///      then, Group's for the daemon's answer.
///
/// Nothing but the C functions of the shared library is called, so any compiler may be used.

#if __cplusplus < 202002L
#error "hurray/client.hpp needs C++20 (-std=c++20)"
#endif

#include <hurray_client.h>

#include <hurray/hurray.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace hurray {

inline constexpr std::chrono::milliseconds kForever{-1};

// ---- What calls and events tell ------------------------------------------------------------------------------------

/// Names one capsule for ever.
struct CapsuleId {
    std::uint32_t uid = 0;  ///< its publisher's user
    std::array<std::uint8_t, 16> id{};

    friend bool operator==(const CapsuleId&, const CapsuleId&) = default;
    friend auto operator<=>(const CapsuleId&, const CapsuleId&) = default;
};

/// Who may read a capsule, and who may replace and withdraw it: as of a file, see HurrayAccess.
struct Access {
    std::uint32_t gid = HURRAY_GID_OWN;  ///< a group of the publisher
    std::uint32_t mode = 0600;           ///< up to 0666
    friend bool operator==(const Access&, const Access&) = default;
};

/// What is known of a capsule. Owns all of it.
struct CapsuleInfo {
    CapsuleId capsule;
    std::string name;              ///< empty: it has none
    std::uint64_t version = 0;     ///< 0: staged in a Group
    std::uint64_t byte_size = 0;   ///< of its buffers together
    std::uint64_t leases = 0;      ///< open ones when Client::list or Client::published asked; else 0
    std::optional<Access> access;  ///< nothing: of what was published, by a daemon that does not tell its default
    bool immutable = false;        ///< nobody can change a byte of it any more, its producer neither
    bool unsealed = false;         ///< it lies in a dma-buf: others may write to it while it is read
    bool retired = false;          ///< can't be attached any more, is still held
    bool lingering = false;        ///< outlives its producer, and can be had
    bool once = false;             ///< is not attached but taken, by one
    bool producer_gone = false;    ///< it is lingering without its producer; from Client::list
    std::chrono::milliseconds expires{
        0};                ///< of such a one: it retires then unless its producer comes back; zero: it does not
    std::int32_t pid = 0;  ///< of its producer when Client::list asked; else 0
    std::vector<std::uint8_t> descriptor;  ///< encoded; empty from Client::publish and Client::published
};

/// One event. `name` lives for the callback only.
struct Event {
    std::uint32_t kind = 0;  ///< HURRAY_EVENT_*; be ready for kinds that are newer than this header
    /// HURRAY_EVENT_ENDED: nobody can be reading the memory any more, so it may be written again.
    bool reusable = false;
    bool away = false;  ///< HURRAY_EVENT_CONNECTION: the daemon is away, the client tries to reach it again
    HurrayStatus status = HURRAY_OK;
    CapsuleId capsule;
    std::uint64_t version = 0;
    std::uint64_t remaining = 0;
    std::string_view name;
};

using EventFunction = std::function<void(const Event&)>;

// ---- Options -------------------------------------------------------------------------------------------------------

struct ConnectOptions {
    std::string address{};      ///< empty: $HURRAY_SOCKET, else the user's own daemon, else the system's
    std::string client_name{};  ///< a label for people; empty: the program's name
    /// How long to keep trying while nobody listens, and to wait for an answer once somebody does; zero: one try and 5 s.
    std::chrono::milliseconds timeout{0};
    bool dispatch_by_caller = false;  ///< callbacks run in Client::dispatch only
    /// When the daemon goes away, to try to reach it again, each time for as long as this; zero: for ever. False: the end is final.
    bool reconnects = true;
    std::chrono::milliseconds reconnect_time{0};
    EventFunction on_event{};             ///< HURRAY_EVENT_CONNECTION; may be empty
    std::function<bool()> interrupted{};  ///< asked as hurray_client.h, C9, says: true ends a wait. May be empty
};

struct PublishOptions {
    EventFunction
        on_event{};  ///< this capsule's events; kept until HURRAY_EVENT_ENDED or the Client's end. May be empty
    bool tell_opened = false;  ///< HURRAY_EVENT_LEASE_OPENED too
    std::uint64_t group = 0;   ///< Group::number(): there once that is committed. 0: at once
    std::uint64_t retain = 1;  ///< versions of the name that stay attachable, this one included
    bool once = false;         ///< it queues behind its name, to be taken by one (Client::take)
    /// It stays when this Client is gone, for so long; kForever: until it is withdrawn or replaced.
    std::optional<std::chrono::milliseconds> linger{};
    bool immutable = false;  ///< publish_copy: nobody can change the copy any more
    /// Of publish_copy and publish_fds. Of allocated memory what it was allocated for, or nothing: then it is that.
    std::optional<Access> access{};
    std::chrono::milliseconds timeout{0};  ///< how long to wait while the daemon is away
};

/// When the pages of memory that is mapped for the first time come: as the library thinks best, all at once, or as they are read.
enum class Populate : std::uint32_t { Auto = HURRAY_POPULATE_AUTO, Yes = HURRAY_POPULATE_YES, No = HURRAY_POPULATE_NO };

struct AttachOptions {
    std::chrono::milliseconds timeout{0};  ///< how long to wait until it is published
    std::uint64_t version = 0;             ///< this one only; 0: any
    std::uint64_t newer_than = 0;          ///< the first one above this; 0: the latest
    Populate populate = Populate::Auto;
    bool immutable_only = false;  ///< refuse what its producer may write to again (HURRAY_ERR_UNSUPPORTED)
    bool allow_unsealed = false;  ///< take dma-bufs too, which others may write to while they are read
};

// ---- Details -------------------------------------------------------------------------------------------------------

namespace client_detail {

struct DestroyAllocation {
    void operator()(HurrayAllocation* allocation) const noexcept {
        static_cast<void>(hurray_allocation_destroy(&allocation));
    }
};

inline CapsuleId from_c(const HurrayCapsuleId& id) {
    CapsuleId result{id.uid, {}};
    std::copy(std::begin(id.id), std::end(id.id), result.id.begin());
    return result;
}

inline HurrayCapsuleId to_c(const CapsuleId& id) {
    HurrayCapsuleId result{id.uid, {}};
    std::copy(id.id.begin(), id.id.end(), std::begin(result.id));
    return result;
}

inline HurrayAccess to_c(const std::optional<Access>& access) {
    return access ? HurrayAccess{1, access->gid, access->mode} : HurrayAccess{};
}

inline CapsuleInfo from_c(const HurrayCapsuleInfo& info) {
    CapsuleInfo result;
    result.capsule = from_c(info.capsule);
    result.name = info.name == nullptr ? "" : info.name;
    result.version = info.version;
    result.byte_size = info.byte_size;
    result.leases = info.leases;
    if (info.access.is_set != 0) {
        result.access = Access{info.access.gid, info.access.mode};
    }
    result.immutable = (info.flags & HURRAY_CAPSULE_IMMUTABLE) != 0;
    result.unsealed = (info.flags & HURRAY_CAPSULE_UNSEALED) != 0;
    result.retired = (info.flags & HURRAY_CAPSULE_RETIRED) != 0;
    result.lingering = (info.flags & HURRAY_CAPSULE_LINGERING) != 0;
    result.once = (info.flags & HURRAY_CAPSULE_ONCE) != 0;
    result.producer_gone = (info.flags & HURRAY_CAPSULE_PRODUCER_GONE) != 0;
    result.expires = std::chrono::milliseconds(info.expires_ms);
    result.pid = info.pid;
    if (info.descriptor != nullptr) {
        result.descriptor.assign(info.descriptor, info.descriptor + info.descriptor_len);
    }
    return result;
}

inline Event from_c(const HurrayEvent& event) {
    return Event{event.kind,
                 (event.flags & HURRAY_EVENT_FLAG_REUSABLE) != 0,
                 (event.flags & HURRAY_EVENT_FLAG_AWAY) != 0,
                 event.status,
                 from_c(event.capsule),
                 event.version,
                 event.remaining,
                 event.name == nullptr ? std::string_view() : std::string_view(event.name)};
}

inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

/// The element type that C++ has as a type of its own.
template <typename T>
constexpr ElementType element_type_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) {
        return ElementType::Float32;
    } else if constexpr (std::is_same_v<U, double>) {
        return ElementType::Float64;
    } else if constexpr (std::is_same_v<U, std::complex<float>>) {
        return ElementType::Complex64;
    } else if constexpr (std::is_same_v<U, std::complex<double>>) {
        return ElementType::Complex128;
    } else {
        static_assert(std::is_integral_v<U> && !std::is_same_v<U, bool> && sizeof(U) <= 8,
                      "not an element type of tensors; for others use Allocation::buffer and Tensor::buffer");
        constexpr bool is_signed = std::is_signed_v<U>;
        switch (sizeof(U)) {
            case 1:
                return is_signed ? ElementType::Int8 : ElementType::UInt8;
            case 2:
                return is_signed ? ElementType::Int16 : ElementType::UInt16;
            case 4:
                return is_signed ? ElementType::Int32 : ElementType::UInt32;
            default:
                return is_signed ? ElementType::Int64 : ElementType::UInt64;
        }
    }
}

inline std::string name_of(ElementType type) {
    const char* name = nullptr;
    const auto tag = static_cast<std::uint8_t>(type);
    return hurray_element_type_name(tag, &name) == HURRAY_OK ? name : "element type " + std::to_string(tag);
}

template <typename T>
void check_element_type(ElementType type) {
    if (type != element_type_of<T>()) {
        throw StatusError(HURRAY_ERR_INVALID_TYPE,
                          "the tensor's elements are " + name_of(type) + ", not " + name_of(element_type_of<T>()));
    }
}

/// Callbacks of capsules, each until its capsule has ended. The library holds their addresses.
class Listeners {
  public:
    struct Listener {
        EventFunction call;
        Listeners* home;
    };

    Listener* add(EventFunction call) {
        auto listener = std::make_unique<Listener>(Listener{std::move(call), this});
        Listener* const address = listener.get();
        const std::lock_guard lock(mutex_);
        listeners_.emplace(address, std::move(listener));
        return address;
    }

    void remove(Listener* listener) {
        std::unique_ptr<Listener> last;  // destroyed without the lock: it may own objects of the caller's
        const std::lock_guard lock(mutex_);
        if (const auto found = listeners_.find(listener); found != listeners_.end()) {
            last = std::move(found->second);
            listeners_.erase(found);
        }
    }

    static void trampoline(const HurrayEvent* event, void* context) noexcept {
        auto* const listener = static_cast<Listener*>(context);
        if (listener->call) {
            listener->call(from_c(*event));
        }
        if (event->kind == HURRAY_EVENT_ENDED) {
            listener->home->remove(listener);
        }
    }

  private:
    std::mutex mutex_;
    std::unordered_map<Listener*, std::unique_ptr<Listener>> listeners_;
};

/// What a Client owns at an address that stays.
struct Connection {
    HurrayClient* handle = nullptr;
    EventFunction on_event;
    std::function<bool()> interrupted;
    Listeners listeners;

    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    // The members come after this, and no callback runs any more then.
    ~Connection() { static_cast<void>(hurray_client_destroy(&handle)); }

    static void tell(const HurrayEvent* event, void* context) noexcept {
        static_cast<Connection*>(context)->on_event(from_c(*event));
    }
    static std::int32_t ask(void* context) noexcept { return static_cast<Connection*>(context)->interrupted() ? 1 : 0; }
};

}  // namespace client_detail

// ---- Producing -----------------------------------------------------------------------------------------------------

/// What allocated buffers hold at first.
enum class Contents : std::uint8_t {
    Zeros,
    Whatever  ///< zeros, or what this client published in that memory before: for who writes every byte anyway
};

/// Where one buffer lies: in fds[segment] of Client::publish_fds, from byte `offset` on.
using Placement = HurrayPlacement;

struct AllocateOptions {
    Contents contents = Contents::Zeros;
    /// Publishing seals it: nobody can change a byte any more, this program neither. What points into it may be read on, not written.
    bool immutable = false;
    std::optional<Access> access{};  ///< of the capsule that it is for; nothing: as the daemon has it
};

/// Writable shared memory of one capsule to be: one or more buffers. Made by Client::allocate, taken by
/// Client::publish; destroyed before that, its memory is given back at once.
///
/// Memory of capsules that have ended is used again, unless somebody may still be reading it (see hurray_client_allocate).
///
/// May outlive its Client. Once it was published its spans must not be written through any more.
class Allocation {
  public:
    Allocation(Allocation&&) noexcept = default;
    Allocation& operator=(Allocation&&) noexcept = default;

    std::size_t buffer_count() const noexcept { return buffers_.size(); }

    /// The bytes of one buffer. Fails: HURRAY_ERR_INDEX_OUT_OF_BOUNDS.
    std::span<std::byte> buffer(std::size_t index = 0) const {
        check_is_ours();
        if (index >= buffers_.size()) {
            throw StatusError(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "the allocation has no buffer " + std::to_string(index));
        }
        return buffers_[index];
    }

    /// The elements of an allocation that was made with a shape, in row-major order. Fails: HURRAY_ERR_INVALID_TYPE if they are
    /// of another type, HURRAY_ERR_UNSUPPORTED if they are not in that order.
    template <typename T>
    std::span<T> elements() const {
        check_is_ours();
        if (!element_type_) {
            throw StatusError(HURRAY_ERR_UNSUPPORTED,
                              "the allocation's elements are not in row-major order: use buffer()");
        }
        client_detail::check_element_type<T>(*element_type_);
        const std::span<std::byte> bytes = buffer(0);
        return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
    }

    /// Whether it may still be written: not once a publish has sealed it, even if the daemon then refused it.
    bool is_writable() const {
        check_is_ours();
        std::uint8_t writable = 0;
        throw_if_failed(hurray_allocation_is_writable(handle_.get(), &writable));
        return writable != 0;
    }

    /// What it will be published as; empty unless it was made for a tensor.
    std::span<const std::uint8_t> descriptor() const noexcept { return descriptor_; }

  private:
    friend class Client;
    Allocation() = default;

    void check_is_ours() const {
        if (handle_ == nullptr) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "the allocation was published or moved from");
        }
    }

    std::unique_ptr<HurrayAllocation, client_detail::DestroyAllocation> handle_;
    std::vector<std::span<std::byte>> buffers_;
    std::vector<std::uint8_t> descriptor_;
    std::optional<ElementType> element_type_;  // of elements that fill buffer 0 in row-major order
};

/// One of several, for Client::publish_many.
struct Publication {
    std::string name;                        ///< empty: it can be attached by its id only
    Allocation allocation;                   ///< taken if it is published
    PublishOptions options{};                ///< on_event is moved from
    std::vector<std::uint8_t> descriptor{};  ///< encoded; empty: what the allocation was made for
    HurrayStatus status = HURRAY_OK;         ///< out
    CapsuleInfo info{};                      ///< out
};

// ---- Consuming -----------------------------------------------------------------------------------------------------

/// One of several, for Client::attach_many.
struct AttachItem {
    std::variant<std::string, CapsuleId> what;
    AttachOptions options{};
};

/// An attached tensor: its buffers, mapped read-only, and one lease, which ends with this object (the producer is told).
///
/// May outlive its Client. Spans and the descriptor are borrowed from it.
class Tensor {
  public:
    Tensor(Tensor&&) noexcept = default;
    Tensor& operator=(Tensor&& other) noexcept {
        if (this != &other) {
            release();
            info_ = std::move(other.info_);
            buffers_ = std::move(other.buffers_);
            list_ = std::move(other.list_);
            context_ = std::move(other.context_);
        }
        return *this;
    }
    ~Tensor() { release(); }

    const CapsuleInfo& info() const noexcept { return info_; }
    const std::string& name() const noexcept { return info_.name; }

    std::size_t buffer_count() const noexcept { return buffers_.size(); }

    /// The bytes of one buffer, in the order of the descriptor's table. Fails: HURRAY_ERR_INDEX_OUT_OF_BOUNDS.
    std::span<const std::byte> buffer(std::size_t index = 0) const {
        check_is_held();
        if (index >= buffers_.size()) {
            throw StatusError(HURRAY_ERR_INDEX_OUT_OF_BOUNDS, "the tensor has no buffer " + std::to_string(index));
        }
        return buffers_[index];
    }

    /// Its descriptor, decoded anew with each call. Fails as hurray_descriptor_decode does.
    Descriptor descriptor() const {
        check_is_held();
        return Descriptor(context_.descriptor());
    }

    /// Of the descriptor. Fail as that does.
    std::vector<std::uint64_t> shape() const { return descriptor().shape(); }
    ElementType element_type() const { return descriptor().element_type(); }

    /// Its elements in row-major order, where they are.
    ///
    /// Fails: HURRAY_ERR_INVALID_TYPE   they are of another type
    ///        HURRAY_ERR_UNSUPPORTED    they don't lie one after the other in that order: use buffer() and descriptor()
    template <typename T>
    std::span<const T> elements() const {
        const Descriptor tensor = descriptor();
        client_detail::check_element_type<T>(tensor.element_type());
        const std::vector<std::uint64_t> shape = tensor.shape();
        if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
            return {};
        }
        const std::vector<std::int64_t> strides = tensor.strides();
        const std::uint64_t offset = tensor.byte_offset();
        const std::span<const std::byte> bytes = buffer(0);
        const std::uint64_t room = offset <= bytes.size() ? (bytes.size() - offset) / sizeof(T) : 0;
        std::uint64_t count = 1;
        for (std::size_t i = shape.size(); i-- > 0;) {
            // A dimension of size 1 is never stepped along, so its stride says nothing.
            if (shape[i] != 1 && strides[i] != static_cast<std::int64_t>(count)) {
                throw StatusError(HURRAY_ERR_UNSUPPORTED,
                                  "the tensor's elements are not contiguous in row-major order");
            }
            if (shape[i] > room / count) {
                throw StatusError(HURRAY_ERR_INVALID_LAYOUT, "the tensor's shape is larger than its buffer");
            }
            count *= shape[i];
        }
        const std::byte* const first = bytes.data() + offset;
        if (count > room || reinterpret_cast<std::uintptr_t>(first) % alignof(T) != 0) {
            throw StatusError(HURRAY_ERR_UNSUPPORTED,
                              "the tensor's elements are not where C++ can read them: use buffer()");
        }
        return {reinterpret_cast<const T*>(first), static_cast<std::size_t>(count)};
    }

    /// HURRAY_OK, HURRAY_ERR_CONNECTION_LOST or HURRAY_ERR_PRODUCER_LOST. The memory stays readable in each case.
    HurrayStatus state() const {
        check_is_held();
        HurrayStatus result = HURRAY_OK;
        throw_if_failed(hurray_lease_state(context_.get(), &result));
        return result;
    }

    /// Ends the lease now. Spans must not be used any more. Twice is fine.
    void release() noexcept {
        buffers_.clear();
        context_ = TensorContext(nullptr);
        list_ = BufferList(nullptr);
    }

    /// The C handles, borrowed; null once released.
    HurrayTensorContext* context() const noexcept { return context_.get(); }
    HurrayBufferList* buffers() const noexcept { return list_.get(); }

  private:
    friend class Client;
    Tensor() = default;

    /// It has its handles.
    void describe(const HurrayCapsuleInfo& info) {
        info_ = client_detail::from_c(info);
        const std::uint64_t count = list_.size();
        for (std::uint64_t i = 0; i < count; ++i) {
            buffers_.emplace_back(list_[i].bytes());
        }
    }

    void check_is_held() const {
        if (context_.get() == nullptr) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "the tensor was released or moved from");
        }
    }

    CapsuleInfo info_;
    std::vector<std::span<const std::byte>> buffers_;
    BufferList list_{nullptr};
    TensorContext context_{nullptr};
};

// ---- Looking around ------------------------------------------------------------------------------------------------

/// A running Client::watch; destroying it ends it. After that its callback does not run any more, except that one which
/// destroys its own Watch ends normally. May outlive its Client, but the two must not be destroyed at the same time.
class Watch {
  public:
    Watch(Watch&&) noexcept = default;
    Watch& operator=(Watch&& other) noexcept {
        if (this != &other) {
            end();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~Watch() { end(); }

    /// Ends it now. Twice is fine.
    void end() noexcept {
        if (state_ != nullptr) {
            if (const auto connection = state_->connection.lock()) {
                hurray_client_unwatch(connection->handle, state_->number);
            }
            state_.reset();
        }
    }

  private:
    friend class Client;

    struct State : std::enable_shared_from_this<State> {
        std::weak_ptr<client_detail::Connection> connection;
        EventFunction call;
        std::uint64_t number = 0;

        static void trampoline(const HurrayEvent* event, void* context) noexcept {
            // Our own share: the callback may destroy the Watch, and with it the function that is being called.
            const auto self = static_cast<State*>(context)->shared_from_this();
            self->call(client_detail::from_c(*event));
        }
    };

    explicit Watch(std::shared_ptr<State> state) : state_(std::move(state)) {}

    std::shared_ptr<State> state_;
};

// ---- Groups --------------------------------------------------------------------------------------------------------

/// Capsules that others see all at once or not at all. Made by Client::begin_group.
///
///     auto model = client.begin_group();
///     for (auto& [name, tensor] : tensors) {
///         client.publish(name, std::move(tensor), {.group = model.number()});
///     }
///     model.commit();
///
/// Destroyed before it was committed it is aborted: its capsules end, and nobody has seen them. May outlive its Client, and
/// does nothing then.
class Group {
  public:
    Group(Group&& other) noexcept
        : connection_(std::exchange(other.connection_, {})), number_(std::exchange(other.number_, 0)) {}
    Group& operator=(Group&& other) noexcept {
        if (this != &other) {
            abort();
            connection_ = std::exchange(other.connection_, {});
            number_ = std::exchange(other.number_, 0);
        }
        return *this;
    }
    ~Group() { abort(); }

    /// For PublishOptions; 0 once it has ended.
    std::uint64_t number() const noexcept { return number_; }

    /// Makes all of it visible; Client::published tells the versions. If this throws because a name belongs to another user by now
    /// (HURRAY_ERR_ALREADY_EXISTS), the group is still open.
    void commit() {
        const auto connection = connection_.lock();
        if (number_ == 0) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "the group was committed, aborted or moved from");
        }
        if (connection == nullptr) {
            throw StatusError(HURRAY_ERR_CLOSED, "the group's client is gone");
        }
        throw_if_failed(hurray_client_group_end(connection->handle, number_, 1));
        number_ = 0;
    }

    /// Lets go of all of it. Twice is fine, and after commit it does nothing.
    void abort() noexcept {
        if (const auto connection = connection_.lock(); connection != nullptr && number_ != 0) {
            static_cast<void>(hurray_client_group_end(connection->handle, number_, 0));
        }
        number_ = 0;
    }

  private:
    friend class Client;
    Group(std::weak_ptr<client_detail::Connection> connection, std::uint64_t number)
        : connection_(std::move(connection)), number_(number) {}

    std::weak_ptr<client_detail::Connection> connection_;
    std::uint64_t number_ = 0;
};

// ---- The client ----------------------------------------------------------------------------------------------------

/// One connection to the daemon.
///
/// The destructor closes it, ends its publications and waits for a callback that runs just then. Allocations and Tensors
/// stay valid.
class Client {
  public:
    /// Connects to the daemon.
    static Client connect(ConnectOptions options = {}) {
        Client client;
        client.connection_ = std::make_shared<client_detail::Connection>();
        client_detail::Connection& connection = *client.connection_;
        connection.on_event = std::move(options.on_event);
        connection.interrupted = std::move(options.interrupted);
        HurrayConnectOptions c_options{};
        c_options.struct_size = sizeof c_options;
        c_options.flags = (options.dispatch_by_caller ? HURRAY_CONNECT_DISPATCH_BY_CALLER : 0u) |
                          (options.reconnects ? 0u : HURRAY_CONNECT_NO_RECONNECT);
        c_options.address = client_detail::or_null(options.address);
        c_options.client_name = client_detail::or_null(options.client_name);
        c_options.timeout_ms = options.timeout.count();
        c_options.reconnect_ms = options.reconnect_time.count();
        c_options.on_event = connection.on_event ? &client_detail::Connection::tell : nullptr;
        c_options.interrupted = connection.interrupted ? &client_detail::Connection::ask : nullptr;
        c_options.context = &connection;
        throw_if_failed(hurray_client_connect(&c_options, &connection.handle));
        return client;
    }

    Client(Client&&) noexcept = default;
    Client& operator=(Client&&) noexcept = default;

    /// Ends its use: waits end with HURRAY_ERR_CLOSED, so do later calls that ask the daemon, publications end. A take that has got
    /// something already returns it, within seconds. Twice is fine.
    void close() { throw_if_failed(hurray_client_close(use())); }

    /// Readable when dispatch has work, or would throw at once. Borrowed. Clients with dispatch_by_caller only.
    int poll_fd() const {
        std::int32_t fd = -1;
        throw_if_failed(hurray_client_poll_fd(use(), &fd));
        return fd;
    }

    /// Waits for events and runs their callbacks on this thread; false if none came. Clients with dispatch_by_caller only,
    /// one thread at a time.
    bool dispatch(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
        const HurrayStatus status = hurray_client_dispatch(use(), timeout.count());
        if (status == HURRAY_ERR_WOULD_BLOCK || status == HURRAY_ERR_TIMED_OUT) {
            return false;
        }
        throw_if_failed(status);
        return true;
    }

    /// The daemon's counters and this client's, as one JSON object.
    std::string status() const {
        std::string text(4096, '\0');
        for (;;) {
            std::uint64_t length = text.size();
            const HurrayStatus status = hurray_client_status_json(use(), text.data(), &length);
            if (status != HURRAY_ERR_BUFFER_TOO_SMALL) {
                throw_if_failed(status);
                text.resize(static_cast<std::size_t>(length));
                return text;
            }
            // The counters move on meanwhile, so leave room for some more digits.
            text.resize(static_cast<std::size_t>(length) + 256);
        }
    }

    /// Shared memory for a dense row-major tensor.
    template <typename T>
    Allocation allocate(std::vector<std::uint64_t> shape, AllocateOptions options = {}) {
        DenseDescriptor tensor;
        tensor.element_type = client_detail::element_type_of<T>();
        tensor.shape = std::move(shape);
        return allocate(tensor, options);
    }

    /// Shared memory for any dense tensor.
    Allocation allocate(const DenseDescriptor& tensor, AllocateOptions options = {}) {
        std::vector<std::uint8_t> descriptor = tensor.encode();
        const std::uint64_t byte_size = tensor.byte_size != 0 ? tensor.byte_size : tensor.needed_byte_size();
        Allocation allocation = allocate_buffers(std::span(&byte_size, 1), options);
        allocation.descriptor_ = std::move(descriptor);
        if (tensor.layout == LayoutTag::RowMajor && tensor.strides.empty() && tensor.byte_offset == 0) {
            allocation.element_type_ = tensor.element_type;
        }
        return allocation;
    }

    /// Shared memory: 1 to 255 buffers of these sizes, in bytes.
    Allocation allocate_buffers(std::span<const std::uint64_t> byte_sizes, AllocateOptions options = {}) {
        Allocation allocation;
        HurrayAllocateOptions c_options{};
        c_options.struct_size = sizeof c_options;
        c_options.flags = (options.contents == Contents::Whatever ? HURRAY_ALLOCATE_UNINITIALIZED : 0u) |
                          (options.immutable ? HURRAY_ALLOCATE_IMMUTABLE : 0u);
        c_options.access = client_detail::to_c(options.access);
        HurrayAllocation* made = nullptr;
        throw_if_failed(hurray_client_allocate(use(), byte_sizes.data(), static_cast<std::uint32_t>(byte_sizes.size()),
                                               &c_options, &made));
        allocation.handle_.reset(made);
        for (std::uint32_t i = 0; i < byte_sizes.size(); ++i) {
            void* data = nullptr;
            throw_if_failed(hurray_allocation_data(made, i, &data));
            allocation.buffers_.emplace_back(static_cast<std::byte*>(data), static_cast<std::size_t>(byte_sizes[i]));
        }
        return allocation;
    }

    /// Publishes an allocation that was made with a shape, without a copy. It is taken; if this throws, it still is the
    /// caller's. An empty name: it can be attached by its id only.
    ///
    /// Returns the capsule's id and version; the name and the descriptor are left empty.
    CapsuleInfo publish(const std::string& name, Allocation&& allocation, PublishOptions options = {}) {
        allocation.check_is_ours();
        if (allocation.descriptor_.empty()) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT,
                              "the allocation was made without a shape: give its descriptor");
        }
        return publish(name, allocation.descriptor_, std::move(allocation), std::move(options));
    }

    /// The same with an encoded descriptor, whose buffer table names the allocation's buffers in their order.
    CapsuleInfo publish(const std::string& name, std::span<const std::uint8_t> descriptor, Allocation&& allocation,
                        PublishOptions options = {}) {
        allocation.check_is_ours();
        HurrayAllocation* taken = allocation.handle_.get();
        const CapsuleInfo info =
            publish_with(std::move(options), 0,
                         [&](HurrayClient* client, const HurrayPublishOptions& c_options, HurrayCapsuleInfo& out) {
                             return hurray_client_publish(client, client_detail::or_null(name), descriptor.data(),
                                                          descriptor.size(), &taken, &c_options, &out);
                         });
        static_cast<void>(allocation.handle_.release());  // the capsule's now
        allocation = Allocation();
        return info;
    }

    /// Publishes each of them, in their order, in a small part of the time that as many calls of publish take. What became of each is
    /// in it; allocations that were published are taken. A failure ends nothing: those that could be published are, and then the first
    /// failure is thrown, which names its item. To have all or none, publish into a group.
    void publish_many(std::span<Publication> publications) {
        HurrayClient* const client = use();
        struct Call {
            HurrayPublishOptions options{};
            HurrayCapsuleInfo info{};
            HurrayAllocation* allocation = nullptr;
            client_detail::Listeners::Listener* listener = nullptr;
        };
        std::vector<Call> calls(publications.size());
        std::vector<HurrayPublishItem> items(publications.size());
        for (std::size_t i = 0; i < calls.size(); ++i) {
            Publication& one = publications[i];
            Call& call = calls[i];
            one.status = HURRAY_ERR_INTERNAL;
            call.allocation = one.allocation.handle_.get();
            call.info.struct_size = sizeof call.info;
            const std::vector<std::uint8_t>& descriptor =
                one.descriptor.empty() ? one.allocation.descriptor_ : one.descriptor;
            items[i].struct_size = sizeof items[i];
            items[i].status = HURRAY_ERR_INTERNAL;
            items[i].name = client_detail::or_null(one.name);
            items[i].descriptor = descriptor.empty() ? nullptr : descriptor.data();
            items[i].descriptor_len = descriptor.size();
            items[i].allocation = &call.allocation;
            items[i].options = &call.options;
            items[i].info = &call.info;
        }
        for (std::size_t i = 0; i < calls.size(); ++i) {
            fill(calls[i].options, publications[i].options, 0, calls[i].listener);
        }
        const HurrayStatus status = hurray_client_publish_many(client, items.data(), items.size());
        const std::string message = status == HURRAY_OK ? "" : hurray_last_error_message();
        for (std::size_t i = 0; i < calls.size(); ++i) {
            Publication& one = publications[i];
            one.status = items[i].status;
            if (one.allocation.handle_ != nullptr && calls[i].allocation == nullptr) {
                static_cast<void>(one.allocation.handle_.release());  // the capsule's now
                one.allocation = Allocation();
                one.info = client_detail::from_c(calls[i].info);
            } else {
                connection_->listeners.remove(calls[i].listener);
            }
        }
        if (status != HURRAY_OK) {
            throw StatusError(status, message);
        }
    }

    /// Publishes a copy of ordinary memory: a dense row-major tensor.
    template <typename T>
    CapsuleInfo publish_copy(const std::string& name, std::vector<std::uint64_t> shape, std::span<const T> elements,
                             PublishOptions options = {}) {
        DenseDescriptor tensor;
        tensor.element_type = client_detail::element_type_of<T>();
        tensor.shape = std::move(shape);
        if (tensor.needed_byte_size() > elements.size_bytes()) {
            throw StatusError(HURRAY_ERR_INVALID_LAYOUT, "there are fewer elements than the shape has");
        }
        // The library only reads from it; the C type has no word for that. An empty buffer has an address too.
        static T nothing{};
        T* const data = elements.empty() ? &nothing : const_cast<T*>(elements.data());
        BufferList buffers;
        buffers.push(Buffer(data, elements.size_bytes()));
        return publish_copy(name, tensor.encode(), buffers, std::move(options));
    }

    /// The same for any descriptor; buffer i is entry i of its table and holds at least that entry's byte_size.
    CapsuleInfo publish_copy(const std::string& name, std::span<const std::uint8_t> descriptor,
                             const BufferList& buffers, PublishOptions options = {}) {
        return publish_with(std::move(options), HURRAY_PUBLISH_COPY,
                            [&](HurrayClient* client, const HurrayPublishOptions& c_options, HurrayCapsuleInfo& out) {
                                return hurray_client_publish_list(client, client_detail::or_null(name),
                                                                  descriptor.data(), descriptor.size(), buffers.get(),
                                                                  &c_options, &out);
                            });
    }

    /// Publishes memory that the caller has made itself, sealed memfds or dma-bufs, without a copy: see hurray_client_publish_fds.
    /// The descriptors stay the caller's. `placements` has one entry for each buffer of the descriptor; empty: buffer i begins
    /// fds[i]. Until HURRAY_EVENT_ENDED comes with `reusable`, nobody may write to it.
    CapsuleInfo publish_fds(const std::string& name, std::span<const std::uint8_t> descriptor,
                            std::span<const std::int32_t> fds, std::span<const Placement> placements = {},
                            PublishOptions options = {}) {
        if (!placements.empty()) {
            if (const std::uint32_t buffers = Descriptor(descriptor).buffer_count(); placements.size() != buffers) {
                throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, std::to_string(placements.size()) + " placements for " +
                                                                   std::to_string(buffers) + " buffers");
            }
        }
        return publish_with(std::move(options), 0,
                            [&](HurrayClient* client, const HurrayPublishOptions& c_options, HurrayCapsuleInfo& out) {
                                return hurray_client_publish_fds(
                                    client, client_detail::or_null(name), descriptor.data(), descriptor.size(),
                                    fds.data(), static_cast<std::uint32_t>(fds.size()),
                                    placements.empty() ? nullptr : placements.data(), &c_options, &out);
                            });
    }

    /// Begins a group: what is published into it is there once it is committed, all at once.
    [[nodiscard]] Group begin_group() {
        std::uint64_t number = 0;
        throw_if_failed(hurray_client_group_begin(use(), &number));
        return Group(connection_, number);
    }

    /// What is known here of a capsule that this client has published and that has not ended: version, sizes, open leases.
    CapsuleInfo published(const CapsuleId& capsule) const {
        const HurrayCapsuleId c_capsule = client_detail::to_c(capsule);
        HurrayCapsuleInfo info{};
        info.struct_size = sizeof info;
        throw_if_failed(hurray_client_published(use(), &c_capsule, &info));
        return client_detail::from_c(info);
    }

    /// Retires a capsule: no new attach; those who hold it go on reading. A staged one leaves its group.
    void withdraw(const CapsuleId& capsule) {
        const HurrayCapsuleId c_capsule = client_detail::to_c(capsule);
        throw_if_failed(hurray_client_withdraw(use(), &c_capsule));
    }

    /// Attaches the capsule of that name, or waits for it.
    Tensor attach(const std::string& name, const AttachOptions& options = {}) {
        return attach_what(name.c_str(), nullptr, options);
    }
    Tensor attach(const CapsuleId& capsule, const AttachOptions& options = {}) {
        const HurrayCapsuleId c_capsule = client_detail::to_c(capsule);
        return attach_what(nullptr, &c_capsule, options);
    }

    /// Takes the oldest capsule that was published `once` under that name, or waits for one: nobody else gets it. It is this
    /// client's when this returns; if the program dies before that, it goes to the next who takes. Without version and newer_than.
    Tensor take(const std::string& name, const AttachOptions& options = {}) {
        return attach_what(name.c_str(), nullptr, options, HURRAY_ATTACH_TAKE);
    }
    /// Exactly that one.
    Tensor take(const CapsuleId& capsule, const AttachOptions& options = {}) {
        const HurrayCapsuleId c_capsule = client_detail::to_c(capsule);
        return attach_what(nullptr, &c_capsule, options, HURRAY_ATTACH_TAKE);
    }

    /// Attaches all of them or none, in a small part of the time that as many calls of attach take. Timeouts count from the call. What it
    /// throws names the first that was refused; nothing is held then.
    std::vector<Tensor> attach_many(std::span<const AttachItem> wanted) {
        std::vector<HurrayAttachItem> items(wanted.size());
        std::vector<HurrayAttachOptions> options(wanted.size());
        std::vector<HurrayCapsuleId> capsules(wanted.size());
        std::vector<HurrayCapsuleInfo> infos(wanted.size());
        std::vector<Tensor> tensors;
        tensors.reserve(wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            fill(options[i], wanted[i].options);
            if (const auto* name = std::get_if<std::string>(&wanted[i].what)) {
                options[i].name = name->c_str();
            } else {
                capsules[i] = client_detail::to_c(std::get<CapsuleId>(wanted[i].what));
                options[i].capsule = &capsules[i];
            }
            infos[i].struct_size = sizeof infos[i];
            items[i].struct_size = sizeof items[i];
            items[i].options = &options[i];
            items[i].info = &infos[i];
            tensors.push_back(Tensor());
        }
        throw_if_failed(hurray_client_attach_many(use(), items.data(), items.size()));
        for (std::size_t i = 0; i < items.size(); ++i) {  // owned first
            tensors[i].list_ = BufferList(items[i].buffers);
            tensors[i].context_ = TensorContext(items[i].context);
        }
        for (std::size_t i = 0; i < items.size(); ++i) {
            tensors[i].describe(infos[i]);
        }
        return tensors;
    }
    std::vector<Tensor> attach_many(std::span<const std::string> names, const AttachOptions& options = {}) {
        std::vector<AttachItem> wanted;
        wanted.reserve(names.size());
        for (const std::string& name : names) {
            wanted.push_back({name, options});
        }
        return attach_many(wanted);
    }

    /// Calls `visit(const CapsuleInfo&)` for each capsule that matches the pattern (a name, a prefix that ends in '/', or empty
    /// for all), in the order of names and versions. What it throws comes out of here. If it returns bool, false ends it.
    template <typename Visit>
    void for_each(const std::string& pattern, Visit&& visit) const {
        struct Call {
            Visit& visit;
            std::exception_ptr failure{};
        } call{visit};
        const auto trampoline = [](const HurrayCapsuleInfo* info, void* context) noexcept -> std::int32_t {
            auto& current = *static_cast<Call*>(context);
            try {
                if constexpr (std::is_convertible_v<std::invoke_result_t<Visit&, const CapsuleInfo&>, bool>) {
                    return current.visit(client_detail::from_c(*info)) ? 0 : 1;
                } else {
                    current.visit(client_detail::from_c(*info));
                    return 0;
                }
            } catch (...) {
                current.failure = std::current_exception();
                return 1;
            }
        };
        const HurrayStatus status = hurray_client_list(use(), client_detail::or_null(pattern), trampoline, &call);
        if (call.failure != nullptr) {
            std::rethrow_exception(call.failure);
        }
        throw_if_failed(status);
    }

    std::vector<CapsuleInfo> list(const std::string& pattern = {}) const {
        std::vector<CapsuleInfo> found;
        for_each(pattern, [&](const CapsuleInfo& info) { found.push_back(info); });
        return found;
    }

    /// Tells what there is (HURRAY_EVENT_PRESENT, _SNAPSHOT_END) and from then on what changes, until the Watch is destroyed.
    [[nodiscard]] Watch watch(const std::string& pattern, EventFunction on_event) {
        const auto state = std::make_shared<Watch::State>();
        state->connection = connection_;
        state->call = std::move(on_event);
        throw_if_failed(hurray_client_watch(use(), client_detail::or_null(pattern), &Watch::State::trampoline,
                                            state.get(), &state->number));
        return Watch(state);
    }

    /// The C handle, borrowed; null if moved from.
    HurrayClient* handle() const noexcept { return connection_ == nullptr ? nullptr : connection_->handle; }

  private:
    Client() = default;

    HurrayClient* use() const {
        if (connection_ == nullptr) {
            throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "the client was moved from");
        }
        return connection_->handle;
    }

    /// `listener` is to be removed if nothing is published.
    void fill(HurrayPublishOptions& c_options, PublishOptions& options, std::uint32_t flags,
              client_detail::Listeners::Listener*& listener) {
        c_options.struct_size = sizeof c_options;
        c_options.flags = flags | (options.tell_opened ? HURRAY_PUBLISH_TELL_OPENED : 0u) |
                          (options.immutable ? HURRAY_PUBLISH_IMMUTABLE : 0u) |
                          (options.once ? HURRAY_PUBLISH_ONCE : 0u) | (options.linger ? HURRAY_PUBLISH_LINGER : 0u);
        if (options.linger && *options.linger != kForever) {
            if (options.linger->count() <= 0) {
                throw StatusError(HURRAY_ERR_INVALID_ARGUMENT, "linger: a time above zero, or kForever");
            }
            c_options.linger_ms = options.linger->count();
        }
        c_options.group = options.group;
        c_options.retain = options.retain;
        c_options.access = client_detail::to_c(options.access);
        c_options.timeout_ms = options.timeout.count();
        if (options.on_event) {
            listener = connection_->listeners.add(std::move(options.on_event));
            c_options.on_event = &client_detail::Listeners::trampoline;
            c_options.context = listener;
        }
    }

    static void fill(HurrayAttachOptions& c_options, const AttachOptions& options) noexcept {
        c_options.struct_size = sizeof c_options;
        c_options.flags = (options.immutable_only ? HURRAY_ATTACH_IMMUTABLE_ONLY : 0u) |
                          (options.allow_unsealed ? HURRAY_ATTACH_ALLOW_UNSEALED : 0u);
        c_options.version = options.version;
        c_options.newer_than = options.newer_than;
        c_options.populate = static_cast<std::uint32_t>(options.populate);
        c_options.timeout_ms = options.timeout.count();
    }

    template <typename Call>
    CapsuleInfo publish_with(PublishOptions&& options, std::uint32_t flags, Call&& call) {
        HurrayClient* const client = use();
        HurrayPublishOptions c_options{};
        client_detail::Listeners::Listener* listener = nullptr;
        fill(c_options, options, flags, listener);
        HurrayCapsuleInfo info{};
        info.struct_size = sizeof info;
        const HurrayStatus status = call(client, c_options, info);
        if (status != HURRAY_OK) {
            const std::string message = hurray_last_error_message();
            connection_->listeners.remove(listener);
            throw StatusError(status, message);
        }
        return client_detail::from_c(info);
    }

    Tensor attach_what(const char* name, const HurrayCapsuleId* capsule, const AttachOptions& options,
                       std::uint32_t flags = 0) {
        HurrayAttachOptions c_options{};
        fill(c_options, options);
        c_options.flags |= flags;
        c_options.name = name;
        c_options.capsule = capsule;
        HurrayBufferList* list = nullptr;
        HurrayTensorContext* context = nullptr;
        HurrayCapsuleInfo info{};
        info.struct_size = sizeof info;
        throw_if_failed(hurray_client_attach(use(), &c_options, &list, &context, &info));

        Tensor tensor;
        tensor.list_ = BufferList(list);
        tensor.context_ = TensorContext(context);
        tensor.describe(info);
        return tensor;
    }

    // Shared with the weak pointers of Watches and Groups only.
    std::shared_ptr<client_detail::Connection> connection_;
};

}  // namespace hurray
