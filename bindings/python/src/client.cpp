#include "client.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <set>
#include <thread>

#include "gate.hpp"
#include "status.hpp"

namespace hurray_python {
namespace {

// Clients with a handle. Whoever takes one out may destroy its handle, and nobody else: at_exit() takes all that there are
// when it closes the gate. With the GIL only.
std::set<ClientState*>& live_clients() {
    static auto* const clients = new std::set<ClientState*>;  // outlives every finalizer
    return *clients;
}

// Calls back into Python from a thread of the library. Exceptions go to sys.unraisablehook: nobody could catch them.
template <typename Call>
void call_python(Call&& call) noexcept {
    const gate::Pass pass;
    if (!pass) {
        return;
    }
    const nb::gil_scoped_acquire gil;
    try {
        std::forward<Call>(call)();
    } catch (nb::python_error& error) {
        error.discard_as_unraisable("a callback of hurray");
    } catch (const std::exception&) {
        // Out of memory while the arguments were made; the event is lost.
    }
}

void on_capsule_event(const HurrayEvent* event, void* context) noexcept {
    auto* const self = static_cast<CallbackContext*>(context);
    if (self->end_only && event->kind != HURRAY_EVENT_ENDED) {
        return;
    }
    call_python([&] {
        ClientState* const owner = self->owner;
        const nb::object callable = self->callable;  // the call may end what holds it
        if (event->kind == HURRAY_EVENT_ENDED) {
            owner->remove(self);  // the last event of a capsule
        }
        if (callable.is_valid()) {
            callable(event->kind, event->status, capsule_text(event->capsule), event->version, event->remaining,
                     event->flags, event->name == nullptr ? "" : event->name);
        }
    });
}

void on_client_event(const HurrayEvent* event, void* context) noexcept {
    if (event->kind != HURRAY_EVENT_CONNECTION) {
        return;
    }
    call_python([&] {
        const nb::object callable = static_cast<ClientState*>(context)->on_connection;
        if (callable.is_valid()) {
            callable(event->status == HURRAY_OK                     ? "back"
                     : (event->flags & HURRAY_EVENT_FLAG_AWAY) != 0 ? "away"
                                                                    : "lost");
        }
    });
}

// On the waiting thread, which holds a pass already. What the signal handler raised stays set in this thread. At exit the
// waits of clients end as those are closed; the one for a daemon has no client yet.
std::int32_t on_interrupt(void*) noexcept {
    const nb::gil_scoped_acquire gil;
    return gate::closed() || PyErr_CheckSignals() != 0 ? 1 : 0;
}

std::vector<std::uint8_t> encode(const Dense& dense) {
    HurrayDenseDescriptor descriptor{};
    descriptor.struct_size = sizeof descriptor;
    descriptor.element_type = dense.element_type;
    descriptor.layout = dense.layout;
    descriptor.rank = static_cast<std::uint32_t>(dense.shape.size());
    descriptor.shape = dense.shape.data();
    descriptor.strides = dense.layout == HURRAY_LAYOUT_STRIDED ? dense.strides.data() : nullptr;
    descriptor.byte_offset = dense.byte_offset;
    std::vector<std::uint8_t> bytes(2048);  // rank 64, strided, needs 1,077
    std::uintptr_t length = bytes.size();
    check(hurray_descriptor_encode_dense(&descriptor, bytes.data(), &length));
    bytes.resize(length);
    return bytes;
}

const char* c_str(const std::optional<std::string>& text) { return text ? text->c_str() : nullptr; }

HurrayAccess to_c(const Access& access) {
    return access ? HurrayAccess{1, access->first, access->second} : HurrayAccess{};
}

// A list of one buffer: memory of the caller's, to be copied.
BufferList wrap(std::uintptr_t address, std::uint64_t byte_size) {
    HurrayBufferList* made = nullptr;
    check(hurray_buffer_list_new(1, &made));
    BufferList buffers(made);
    HurrayBuffer* buffer = nullptr;
    check(hurray_buffer_from_ptr(reinterpret_cast<void*>(address), byte_size, HURRAY_MIN_BUFFER_ALIGNMENT,
                                 HURRAY_DEVICE_CPU, HURRAY_SYNC_PRODUCER_SYNCED, HURRAY_MEMORY_STANDARD, nullptr,
                                 nullptr, &buffer));
    if (const HurrayStatus status = hurray_buffer_list_push(made, buffer); status != HURRAY_OK) {
        hurray_buffer_destroy(buffer);
        raise_status(status);
    }
    return buffers;
}

// Publishes by `call(options, info)` and looks after the callback's context.
template <typename Call>
Published publish_with(ClientState& state, const PublishTerms& terms, Call&& call) {
    HurrayPublishOptions options{};
    options.struct_size = sizeof options;
    const auto [opened, closed] = terms.wanted;
    options.flags = (opened ? HURRAY_PUBLISH_TELL_OPENED : 0) | (terms.once ? HURRAY_PUBLISH_ONCE : 0) |
                    (terms.linger_ms ? HURRAY_PUBLISH_LINGER : 0);
    options.linger_ms = terms.linger_ms.value_or(0);
    options.timeout_ms = terms.timeout_ms;
    options.group = terms.group;
    options.access = to_c(terms.access);
    options.retain = terms.retain;
    CallbackContext* context = nullptr;
    if (!terms.on_event.is_none()) {
        context = state.add(terms.on_event, !opened && !closed);
        options.on_event = on_capsule_event;
        options.context = context;
    }
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    HurrayStatus status = HURRAY_OK;
    try {
        status = without_gil([&] { return call(options, info); });
    } catch (...) {
        state.remove(context);
        throw;
    }
    if (status != HURRAY_OK) {
        state.remove(context);
        raise_status(status);
    }
    return {capsule_text(info.capsule), info.version};
}

}  // namespace

// ---- ClientState ----------------------------------------------------------------------------------------------------

std::shared_ptr<ClientState> ClientState::make() { return {new ClientState, retire}; }

ClientState::~ClientState() {
    for (CallbackContext* context : contexts) {
        delete context;
    }
}

CallbackContext* ClientState::add(nb::object callable, bool end_only) {
    auto context = std::make_unique<CallbackContext>(CallbackContext{this, std::move(callable), end_only});
    contexts.insert(context.get());
    return context.release();
}

void ClientState::remove(CallbackContext* context) {
    if (contexts.erase(context) != 0) {
        delete context;
    }
}

void ClientState::retire(ClientState* state) noexcept {
    if (state->handle == nullptr) {
        delete state;
        return;
    }
    if (live_clients().erase(state) == 0 || !gate::enter()) {
        return;  // at_exit() destroys the handle, and the process is about to end
    }
    try {
        std::thread([state] {
            hurray_client_destroy(&state->handle);
            {
                const nb::gil_scoped_acquire gil;
                delete state;
            }
            gate::leave();
        }).detach();
    } catch (const std::exception&) {
        gate::leave();  // no thread to be had: the connection stays until the process ends
    }
}

// ---- Allocation -----------------------------------------------------------------------------------------------------

Allocation::Allocation(const std::shared_ptr<ClientState>& client, AllocationHandle handle)
    : client_(client), handle_(std::move(handle)) {
    HurrayBufferList* buffers = nullptr;
    check(hurray_allocation_buffers(handle_.get(), &buffers));
    buffers_.reset(buffers);
    HurrayBuffer* buffer = nullptr;
    check(hurray_buffer_list_get(buffers, 0, &buffer));
    check(hurray_buffer_data_ptr(buffer, &data_));
    check(hurray_buffer_byte_size(buffer, &byte_size_));
}

AllocationHandle Allocation::take(const std::shared_ptr<ClientState>& client) {
    if (client_.lock() != client) {
        raise_status(HURRAY_ERR_INVALID_ARGUMENT,
                     "the array was allocated by another client: publish it there, or pass copy=True");
    }
    if (!handle_) {
        raise_status(HURRAY_ERR_INVALID_ARGUMENT,
                     "the array's memory was published already, and an allocation is published once: pass copy=True");
    }
    return std::move(handle_);
}

void Allocation::give_back(AllocationHandle handle) {
    handle_ = std::move(handle);
    std::uint8_t writable = 1;
    sealed_ = hurray_allocation_is_writable(handle_.get(), &writable) == HURRAY_OK && writable == 0;
}

// ---- Client ---------------------------------------------------------------------------------------------------------

Client::Client(const std::optional<std::string>& address, const std::optional<std::string>& client_name,
               std::int64_t timeout_ms, std::int64_t reconnect_ms, nb::object on_connection)
    : state_(ClientState::make()) {
    state_->on_connection = std::move(on_connection);
    HurrayConnectOptions options{};
    options.struct_size = sizeof options;
    options.address = c_str(address);
    options.client_name = c_str(client_name);
    options.timeout_ms = timeout_ms;
    options.flags = reconnect_ms == 0 ? HURRAY_CONNECT_NO_RECONNECT : 0;
    options.reconnect_ms = reconnect_ms;
    options.on_event = on_client_event;
    options.interrupted = on_interrupt;
    options.context = state_.get();
    HurrayClient* handle = nullptr;
    const gate::Pass pass;  // also for what follows
    const HurrayStatus status = without_gil([&] { return hurray_client_connect(&options, &handle); });
    if (gate::closed()) {
        {
            const nb::gil_scoped_release released;
            hurray_client_destroy(&handle);  // at_exit() doesn't know of it
        }
        raise_shutting_down();
    }
    check(status);
    state_->handle = handle;
    live_clients().insert(state_.get());
}

std::shared_ptr<ClientState> Client::use() const {
    if (!state_) {
        raise_status(HURRAY_ERR_CLOSED, "the client is closed");
    }
    return state_;
}

void Client::close() {
    std::shared_ptr<ClientState> state = std::move(state_);
    state_.reset();
    const gate::Pass pass;
    if (!state || !pass) {
        return;  // closed before, or by at_exit()
    }
    const bool in_callback = gate::passes_of_this_thread() > 1;
    {
        const nb::gil_scoped_release released;
        hurray_client_close(state->handle);
    }
    // If nobody else uses it any more. Else whoever returns last has it destroyed; or at_exit(), if that has begun by now.
    if (state.use_count() == 1 && !in_callback && live_clients().erase(state.get()) != 0) {
        HurrayClient* handle = std::exchange(state->handle, nullptr);
        const nb::gil_scoped_release released;
        hurray_client_destroy(&handle);
    }
}

std::unique_ptr<Allocation> Client::allocate(std::uint64_t byte_size, bool zeroed, const Access& access,
                                             bool immutable) {
    const std::shared_ptr<ClientState> state = use();
    HurrayAllocateOptions options{};
    options.struct_size = sizeof options;
    options.flags = (zeroed ? 0 : HURRAY_ALLOCATE_UNINITIALIZED) | (immutable ? HURRAY_ALLOCATE_IMMUTABLE : 0);
    options.access = to_c(access);
    HurrayAllocation* allocation = nullptr;
    check(without_gil([&] { return hurray_client_allocate(state->handle, &byte_size, 1, &options, &allocation); }));
    return std::make_unique<Allocation>(state, AllocationHandle(allocation));
}

Published Client::publish(const std::optional<std::string>& name, const Dense& dense, Allocation& allocation,
                          const PublishTerms& terms) {
    const std::shared_ptr<ClientState> state = use();
    const std::vector<std::uint8_t> descriptor = encode(dense);
    HurrayAllocation* handle = allocation.take(state).release();  // no second thread can publish it meanwhile
    Published published;
    try {
        published = publish_with(*state, terms, [&](const HurrayPublishOptions& options, HurrayCapsuleInfo& info) {
            return hurray_client_publish(state->handle, c_str(name), descriptor.data(), descriptor.size(), &handle,
                                         &options, &info);
        });
    } catch (...) {
        allocation.give_back(AllocationHandle(handle));
        throw;
    }
    allocation.mark_published();
    return published;
}

Published Client::publish_copy(const std::optional<std::string>& name, const Dense& dense, std::uintptr_t address,
                               std::uint64_t byte_size, const PublishTerms& terms, bool immutable) {
    const std::shared_ptr<ClientState> state = use();
    const std::vector<std::uint8_t> descriptor = encode(dense);
    const BufferList buffers = wrap(address, byte_size);
    return publish_with(*state, terms, [&](HurrayPublishOptions& options, HurrayCapsuleInfo& info) {
        options.flags |= HURRAY_PUBLISH_COPY | (immutable ? HURRAY_PUBLISH_IMMUTABLE : 0);
        return hurray_client_publish_list(state->handle, c_str(name), descriptor.data(), descriptor.size(),
                                          buffers.get(), &options, &info);
    });
}

std::vector<Published> Client::publish_many(const std::vector<ToPublish>& items, std::pair<bool, bool> wanted,
                                            std::uint64_t group, const Access& access) {
    const std::shared_ptr<ClientState> state = use();
    const auto [opened, closed] = wanted;
    struct Call {
        std::vector<std::uint8_t> descriptor;
        HurrayPublishOptions options{};
        HurrayCapsuleInfo info{};
        HurrayAllocation* handle = nullptr;
        BufferList buffers;
        CallbackContext* context = nullptr;
    };
    std::vector<Call> calls(items.size());
    std::vector<HurrayPublishItem> c_items(items.size());
    // What was not published is given back, whichever way this ends.
    const auto settle = [&]() noexcept {
        for (std::size_t i = 0; i < calls.size(); ++i) {
            Allocation* const allocation = items[i].allocation;
            if (calls[i].handle != nullptr) {
                allocation->give_back(AllocationHandle(calls[i].handle));
            } else if (allocation != nullptr && c_items[i].status == HURRAY_OK) {
                allocation->mark_published();
            }
            if (c_items[i].status != HURRAY_OK) {
                state->remove(calls[i].context);
            }
        }
    };
    for (HurrayPublishItem& item : c_items) {
        item.status = HURRAY_ERR_INTERNAL;
    }
    HurrayStatus status = HURRAY_OK;
    try {
        for (std::size_t i = 0; i < items.size(); ++i) {
            const ToPublish& what = items[i];
            Call& call = calls[i];
            HurrayPublishItem& item = c_items[i];
            call.descriptor = encode(what.dense);
            call.options.struct_size = sizeof call.options;
            call.options.flags = opened ? HURRAY_PUBLISH_TELL_OPENED : 0;
            call.options.group = group;
            call.options.access = to_c(access);
            call.info.struct_size = sizeof call.info;
            if (!what.on_event.is_none()) {
                call.context = state->add(what.on_event, !opened && !closed);
                call.options.on_event = on_capsule_event;
                call.options.context = call.context;
            }
            item.struct_size = sizeof item;
            item.name = c_str(what.name);
            item.descriptor = call.descriptor.data();
            item.descriptor_len = call.descriptor.size();
            item.options = &call.options;
            item.info = &call.info;
            if (what.allocation != nullptr) {
                call.handle = what.allocation->take(state).release();  // no second thread can publish it meanwhile
                item.allocation = &call.handle;
            } else {
                call.options.flags |= HURRAY_PUBLISH_COPY;
                call.buffers = wrap(what.address, what.byte_size);
                item.buffers = call.buffers.get();
            }
        }
        status = without_gil([&] { return hurray_client_publish_many(state->handle, c_items.data(), c_items.size()); });
    } catch (...) {
        settle();
        throw;
    }
    settle();
    if (status != HURRAY_OK) {
        raise_status(status);
    }
    std::vector<Published> published;
    for (const Call& call : calls) {
        published.emplace_back(capsule_text(call.info.capsule), call.info.version);
    }
    return published;
}

Published Client::publish_fds(const std::optional<std::string>& name, const nb::bytes& descriptor,
                              const std::vector<std::int32_t>& fds,
                              const std::optional<std::vector<std::pair<std::uint32_t, std::uint64_t>>>& placements,
                              const PublishTerms& terms) {
    const std::shared_ptr<ClientState> state = use();
    const auto* const encoded = reinterpret_cast<const std::uint8_t*>(descriptor.c_str());
    std::vector<HurrayPlacement> placed;
    if (placements) {
        HurrayDescriptor* made = nullptr;
        check(hurray_descriptor_decode(encoded, descriptor.size(), &made));
        std::uint32_t buffers = 0;
        hurray_descriptor_buffer_count(made, &buffers);
        hurray_descriptor_destroy(made);
        if (placements->size() != buffers) {
            const std::string message =
                std::to_string(placements->size()) + " placements for " + std::to_string(buffers) + " buffers";
            raise_status(HURRAY_ERR_INVALID_ARGUMENT, message);
        }
        for (const auto& [segment, offset] : *placements) {
            placed.push_back({segment, offset});
        }
    }
    return publish_with(*state, terms, [&](const HurrayPublishOptions& options, HurrayCapsuleInfo& info) {
        return hurray_client_publish_fds(state->handle, c_str(name), encoded, descriptor.size(), fds.data(),
                                         static_cast<std::uint32_t>(fds.size()), placements ? placed.data() : nullptr,
                                         &options, &info);
    });
}

std::uint64_t Client::begin_group() {
    const std::shared_ptr<ClientState> state = use();
    std::uint64_t number = 0;
    check(without_gil([&] { return hurray_client_group_begin(state->handle, &number); }));
    return number;
}

void Client::end_group(std::uint64_t group, bool commit) {
    const std::shared_ptr<ClientState> state = use();
    check(without_gil([&] { return hurray_client_group_end(state->handle, group, commit ? 1 : 0); }));
}

std::uint64_t Client::published_version(const std::string& capsule) {
    const std::shared_ptr<ClientState> state = use();
    const HurrayCapsuleId id = capsule_from_text(capsule);
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    check(without_gil([&] { return hurray_client_published(state->handle, &id, &info); }));
    return info.version;
}

void Client::withdraw(const std::string& capsule) {
    const std::shared_ptr<ClientState> state = use();
    const HurrayCapsuleId id = capsule_from_text(capsule);
    check(without_gil([&] { return hurray_client_withdraw(state->handle, &id); }));
}

namespace {

/// Memory of which kinds a consumer is content with.
std::uint32_t memory_flags(bool immutable_only, bool allow_unsealed) {
    return (immutable_only ? HURRAY_ATTACH_IMMUTABLE_ONLY : 0U) | (allow_unsealed ? HURRAY_ATTACH_ALLOW_UNSEALED : 0U);
}

}  // namespace

std::unique_ptr<Tensor> Client::attach(const std::optional<std::string>& name,
                                       const std::optional<std::string>& capsule, std::uint64_t version,
                                       std::uint64_t newer_than, std::int64_t timeout_ms, bool immutable_only,
                                       bool allow_unsealed) {
    HurrayAttachOptions options{};
    options.flags = memory_flags(immutable_only, allow_unsealed);
    options.version = version;
    options.newer_than = newer_than;
    options.timeout_ms = timeout_ms;
    return attach_what(name, capsule, options);
}

std::unique_ptr<Tensor> Client::take(const std::optional<std::string>& name, const std::optional<std::string>& capsule,
                                     std::int64_t timeout_ms) {
    HurrayAttachOptions options{};
    options.flags = HURRAY_ATTACH_TAKE;
    options.timeout_ms = timeout_ms;
    return attach_what(name, capsule, options);
}

std::unique_ptr<Tensor> Client::attach_what(const std::optional<std::string>& name,
                                            const std::optional<std::string>& capsule, HurrayAttachOptions options) {
    const std::shared_ptr<ClientState> state = use();
    HurrayCapsuleId id{};
    options.struct_size = sizeof options;
    options.name = c_str(name);
    if (capsule) {
        id = capsule_from_text(*capsule);
        options.capsule = &id;
    }
    HurrayBufferList* buffers = nullptr;
    HurrayTensorContext* context = nullptr;
    HurrayCapsuleInfo info{};
    info.struct_size = sizeof info;
    check(without_gil([&] { return hurray_client_attach(state->handle, &options, &buffers, &context, &info); }));
    return std::make_unique<Tensor>(BufferList(buffers), Context(context), info);
}

std::vector<std::unique_ptr<Tensor>> Client::attach_many(
    const std::vector<std::pair<std::optional<std::string>, std::optional<std::string>>>& what, std::int64_t timeout_ms,
    bool immutable_only, bool allow_unsealed) {
    const std::shared_ptr<ClientState> state = use();
    std::vector<HurrayCapsuleId> ids(what.size());
    std::vector<HurrayAttachOptions> options(what.size());
    std::vector<HurrayCapsuleInfo> infos(what.size());
    std::vector<HurrayAttachItem> items(what.size());
    std::vector<std::unique_ptr<Tensor>> tensors;
    tensors.reserve(what.size());
    for (std::size_t i = 0; i < what.size(); ++i) {
        const auto& [name, capsule] = what[i];
        options[i].struct_size = sizeof options[i];
        options[i].name = c_str(name);
        options[i].timeout_ms = timeout_ms;
        options[i].flags = memory_flags(immutable_only, allow_unsealed);
        if (capsule) {
            ids[i] = capsule_from_text(*capsule);
            options[i].capsule = &ids[i];
        }
        infos[i].struct_size = sizeof infos[i];
        items[i].struct_size = sizeof items[i];
        items[i].options = &options[i];
        items[i].info = &infos[i];
    }
    check(without_gil([&] { return hurray_client_attach_many(state->handle, items.data(), items.size()); }));
    std::vector<std::pair<BufferList, Context>> owned;
    owned.reserve(items.size());
    for (HurrayAttachItem& item : items) {
        owned.emplace_back(BufferList(item.buffers), Context(item.context));
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
        tensors.push_back(std::make_unique<Tensor>(std::move(owned[i].first), std::move(owned[i].second), infos[i]));
    }
    return tensors;
}

nb::list Client::list(const std::string& pattern) {
    const std::shared_ptr<ClientState> state = use();
    struct Entry {
        HurrayCapsuleInfo info;
        std::string name;
        std::vector<std::uint8_t> descriptor;
    };
    struct Entries {
        std::vector<Entry> all;
        bool out_of_memory = false;
    } entries;
    const auto take = [](const HurrayCapsuleInfo* info, void* context) noexcept -> std::int32_t {
        auto* const into = static_cast<Entries*>(context);
        try {
            into->all.push_back({*info,
                                 info->name == nullptr ? "" : info->name,
                                 {info->descriptor, info->descriptor + info->descriptor_len}});
            return 0;
        } catch (const std::exception&) {
            into->out_of_memory = true;
            return 1;
        }
    };
    check(without_gil([&] { return hurray_client_list(state->handle, pattern.c_str(), take, &entries); }));
    if (entries.out_of_memory) {
        throw std::bad_alloc();
    }
    nb::list result;
    for (const Entry& entry : entries.all) {
        nb::object shape = nb::none();
        nb::object element_type = nb::none();
        try {
            const TensorInfo info = read_descriptor(entry.descriptor.data(), entry.descriptor.size());
            nb::list dims;
            for (const std::uint64_t dim : info.dims) {
                dims.append(dim);
            }
            shape = nb::tuple(dims);
            element_type = nb::str(info.element_type.c_str());
        } catch (const nb::python_error&) {
            // A descriptor of a newer kind: it is there all the same.
        }
        result.append(
            nb::make_tuple(entry.name, entry.info.version, shape, element_type, entry.info.byte_size, entry.info.leases,
                           capsule_text(entry.info.capsule), (entry.info.flags & HURRAY_CAPSULE_RETIRED) != 0,
                           nb::make_tuple(entry.info.access.mode, entry.info.access.gid),
                           nb::make_tuple(nb::make_tuple((entry.info.flags & HURRAY_CAPSULE_IMMUTABLE) != 0,
                                                         (entry.info.flags & HURRAY_CAPSULE_UNSEALED) != 0,
                                                         (entry.info.flags & HURRAY_CAPSULE_ONCE) != 0,
                                                         (entry.info.flags & HURRAY_CAPSULE_LINGERING) != 0,
                                                         (entry.info.flags & HURRAY_CAPSULE_PRODUCER_GONE) != 0),
                                          entry.info.expires_ms)));
    }
    return result;
}

std::uint64_t Client::watch(const std::string& pattern, nb::object callable) {
    const std::shared_ptr<ClientState> state = use();
    CallbackContext* const context = state->add(std::move(callable));
    std::uint64_t number = 0;
    HurrayStatus status = HURRAY_OK;
    try {
        status = without_gil(
            [&] { return hurray_client_watch(state->handle, pattern.c_str(), on_capsule_event, context, &number); });
    } catch (...) {
        state->remove(context);
        throw;
    }
    if (status != HURRAY_OK) {
        state->remove(context);
        raise_status(status);
    }
    state->watches.emplace(number, context);
    return number;
}

void Client::unwatch(std::uint64_t watch) {
    const std::shared_ptr<ClientState> state = use();
    const auto node = state->watches.extract(watch);
    if (node.empty()) {
        raise_status(HURRAY_ERR_NOT_FOUND, "there is no such watch");
    }
    const HurrayStatus status = without_gil([&] { return hurray_client_unwatch(state->handle, watch); });
    if (status == HURRAY_OK) {
        state->remove(node.mapped());
    }
    check(status);
}

std::string Client::status_json() {
    const std::shared_ptr<ClientState> state = use();
    std::string text(4096, '\0');
    for (;;) {
        std::uint64_t length = text.size();
        const HurrayStatus status =
            without_gil([&] { return hurray_client_status_json(state->handle, text.data(), &length); });
        if (status != HURRAY_ERR_BUFFER_TOO_SMALL) {
            check(status);
            text.resize(length);
            return text;
        }
        text.resize(length + 1024);  // it may have grown meanwhile
    }
}

int Client::traverse(visitproc visit, void* arg) const {
    if (state_) {
        Py_VISIT(state_->on_connection.ptr());
        for (const CallbackContext* context : state_->contexts) {
            Py_VISIT(context->callable.ptr());
        }
    }
    return 0;
}

void Client::clear() {
    if (!state_) {
        return;
    }
    std::vector<nb::object> dropped;  // dropping one may run Python code that comes back here
    dropped.push_back(std::move(state_->on_connection));
    for (CallbackContext* context : state_->contexts) {
        dropped.push_back(std::move(context->callable));
    }
}

// ---- Python ---------------------------------------------------------------------------------------------------------

namespace {

int allocation_get(PyObject* self, Py_buffer* view, int flags) noexcept {
    const Allocation* source = nb::inst_ptr<Allocation>(self);
    return PyBuffer_FillInfo(view, self, source->data(), static_cast<Py_ssize_t>(source->nbytes()),
                             source->read_only() ? 1 : 0, flags);
}

PyType_Slot allocation_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(allocation_get)}, {0, nullptr}};

int client_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return nb::inst_ready(self) ? nb::inst_ptr<Client>(self)->traverse(visit, arg) : 0;
}

int client_clear(PyObject* self) {
    if (nb::inst_ready(self)) {
        nb::inst_ptr<Client>(self)->clear();
    }
    return 0;
}

// The collector clears a cycle's members in any order, but finalizes all of them first: no callback runs with half of
// what it refers to.
void client_finalize(PyObject* self) { client_clear(self); }

PyType_Slot client_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(client_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(client_clear)},
                              {Py_tp_finalize, reinterpret_cast<void*>(client_finalize)},
                              {0, nullptr}};

// Ends what still uses the interpreter, before it goes: calls that wait, callbacks, connections. Other threads go on with
// Python code meanwhile, and drop what they have: the states of these clients stay as they are (see ClientState::retire).
void at_exit() {
    gate::close();
    const std::set<ClientState*> clients = std::exchange(live_clients(), {});
    const nb::gil_scoped_release released;
    for (const ClientState* client : clients) {
        hurray_client_close(client->handle);  // wakes the calls that wait
    }
    gate::wait_until_empty();
    for (const ClientState* client : clients) {
        HurrayClient* handle = client->handle;
        hurray_client_destroy(&handle);
    }
}

Client::ToPublish to_publish(const std::optional<std::string>& name, const Dense& dense, Allocation* allocation,
                             std::uintptr_t address, std::uint64_t byte_size, nb::object on_event) {
    return {name, dense, allocation, address, byte_size, std::move(on_event)};
}

Dense dense(std::uint8_t element_type, std::uint8_t layout, std::vector<std::uint64_t> shape,
            std::vector<std::int64_t> strides, std::uint64_t byte_offset) {
    return {element_type, layout, std::move(shape), std::move(strides), byte_offset};
}

PublishTerms publish_terms(nb::object on_event, std::pair<bool, bool> wanted, std::uint64_t group, const Access& access,
                           std::uint64_t retain, bool once, std::optional<std::int64_t> linger_ms,
                           std::int64_t timeout_ms) {
    return {std::move(on_event), wanted, group, access, retain, once, linger_ms, timeout_ms};
}

}  // namespace

void bind_client(nb::module_& module) {
    nb::class_<Allocation>(module, "Allocation", nb::type_slots(allocation_slots), nb::is_weak_referenceable())
        .def_prop_ro("address", &Allocation::address)
        .def_prop_ro("nbytes", &Allocation::nbytes)
        .def_prop_ro("published", &Allocation::published)
        .def_prop_ro("read_only", &Allocation::read_only)
        .def_rw("array", &Allocation::array, nb::arg().none());

    nb::class_<Dense>(module, "Dense")
        .def(nb::new_(&dense), nb::arg("element_type"), nb::arg("layout"), nb::arg("shape"), nb::arg("strides"),
             nb::arg("byte_offset"));

    nb::class_<PublishTerms>(module, "PublishTerms")
        .def(nb::new_(&publish_terms), nb::arg("on_event").none(), nb::arg("wanted"), nb::arg("group"),
             nb::arg("access").none(), nb::arg("retain"), nb::arg("once"), nb::arg("linger_ms").none(),
             nb::arg("timeout_ms"));
    nb::class_<Client::ToPublish>(module, "ToPublish")
        .def(nb::new_(&to_publish), nb::arg("name").none(), nb::arg("dense"), nb::arg("allocation").none(),
             nb::arg("address"), nb::arg("byte_size"), nb::arg("on_event").none());

    nb::class_<Client>(module, "Client", nb::type_slots(client_slots), nb::is_weak_referenceable())
        .def(nb::init<const std::optional<std::string>&, const std::optional<std::string>&, std::int64_t, std::int64_t,
                      nb::object>(),
             nb::arg("address").none(), nb::arg("client_name").none(), nb::arg("timeout_ms"), nb::arg("reconnect_ms"),
             nb::arg("on_connection").none())
        .def("close", &Client::close)
        .def_prop_ro("closed", &Client::closed)
        .def("allocate", &Client::allocate, nb::arg("byte_size"), nb::arg("zeroed"), nb::arg("access") = nb::none(),
             nb::arg("immutable") = false)
        .def("publish", &Client::publish, nb::arg("name").none(), nb::arg("dense"), nb::arg("allocation"),
             nb::arg("terms"))
        .def("publish_copy", &Client::publish_copy, nb::arg("name").none(), nb::arg("dense"), nb::arg("address"),
             nb::arg("byte_size"), nb::arg("terms"), nb::arg("immutable") = false)
        .def("publish_fds", &Client::publish_fds, nb::arg("name").none(), nb::arg("descriptor"), nb::arg("fds"),
             nb::arg("placements").none(), nb::arg("terms"))
        .def("publish_many", &Client::publish_many, nb::arg("items"), nb::arg("wanted"), nb::arg("group"),
             nb::arg("access") = nb::none())
        .def("begin_group", &Client::begin_group)
        .def("end_group", &Client::end_group, nb::arg("group"), nb::arg("commit"))
        .def("published_version", &Client::published_version, nb::arg("capsule"))
        .def("withdraw", &Client::withdraw, nb::arg("capsule"))
        .def("attach", &Client::attach, nb::arg("name").none(), nb::arg("capsule").none(), nb::arg("version"),
             nb::arg("newer_than"), nb::arg("timeout_ms"), nb::arg("immutable_only") = false,
             nb::arg("allow_unsealed") = false)
        .def("take", &Client::take, nb::arg("name").none(), nb::arg("capsule").none(), nb::arg("timeout_ms"))
        .def("attach_many", &Client::attach_many, nb::arg("what"), nb::arg("timeout_ms"), nb::arg("immutable_only"),
             nb::arg("allow_unsealed"))
        .def("list", &Client::list, nb::arg("pattern"))
        .def("watch", &Client::watch, nb::arg("pattern"), nb::arg("callable"))
        .def("unwatch", &Client::unwatch, nb::arg("watch"))
        .def("status_json", &Client::status_json);

    module.def("encode_dense", [](const Dense& dense) {
        const std::vector<std::uint8_t> descriptor = encode(dense);
        return nb::bytes(descriptor.data(), descriptor.size());
    });
    module.def("at_exit", &at_exit);
    module.def("after_fork_in_child", &gate::reset_in_child);
}

}  // namespace hurray_python
