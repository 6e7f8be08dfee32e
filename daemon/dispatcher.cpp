#include "daemon/dispatcher.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "daemon/publication_check.hpp"
#include "daemon/version.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::Error;

/// Says why and asks for the cut.
[[gnu::cold]] tl::unexpected<Error> last_words(const Dispatcher::Peer& peer, std::uint64_t request_id, Error error,
                                               Outbox& out) {
    if (request_id != 0) {
        out.send(peer.number, request_id, error);
    } else {
        out.send(peer.number, 0, wire::Closing{error});
    }
    return hurray::fail(std::move(error));
}

}  // namespace

hurray::Result<void> Dispatcher::handle(Peer& peer, std::span<const std::byte> packet, wire::Received& received,
                                        std::uint64_t now_ms, Outbox& out) {
    if (received.truncated) {
        Error error{Errc::Limit,
                    "a packet is longer than " + std::to_string(wire::kMaxPacketBytes) + " bytes, the most there is"};
        error.limit_name = "packet_bytes";
        error.limit = wire::kMaxPacketBytes;
        return last_words(peer, 0, std::move(error), out);
    }
    auto decoded = wire::decode_request(packet, received.fds_missing ? wire::kAnyFdCount : received.fds.size());
    if (received.fds_missing) {
        // The request itself came whole. Whose it is, is known in most cases; what it brought is not to be used.
        const std::uint64_t request_id = decoded ? decoded->request_id : decoded.error().request_id;
        if (request_id == 0) {
            return last_words(peer, 0, budget_.packet_refusal(peer.credentials.uid), out);
        }
        Error error = budget_.packet_refusal(peer.credentials.uid);
        if (const auto* publish = decoded ? std::get_if<wire::Publish>(&decoded->message) : nullptr) {
            error.field = "publish.segments";
            error.value = publish->segments.size();
        }
        out.send(peer.number, request_id, std::move(error));
        return {};
    }
    if (!decoded) {
        wire::Refusal& refusal = decoded.error();
        if (refusal.request_id == 0 || refusal.error.code == Errc::Protocol || !peer.greeted) {
            return last_words(peer, refusal.request_id, std::move(refusal.error), out);
        }
        out.send(peer.number, refusal.request_id, std::move(refusal.error));
        return {};
    }

    wire::Request& request = *decoded;
    ++requests_[request.message.index()];
    if (std::holds_alternative<wire::Hello>(request.message)) {
        return greet(peer, request, now_ms, out);
    }
    if (!peer.greeted) {
        return last_words(peer, request.request_id,
                          {Errc::Protocol, "the first request of a connection must be Hello", "hello"}, out);
    }

    const std::uint64_t id = request.request_id;
    struct Visitor {
        Dispatcher& self;
        const Peer& peer;
        std::uint64_t id;
        const wire::Request& request;
        wire::Received& received;
        std::uint64_t now_ms;
        Outbox& out;

        void operator()(wire::Hello&) const {}  // greet() above
        void operator()(wire::Publish& publish) const { self.publish(peer, id, publish, received, out); }
        void operator()(const wire::Attach& attach) const {
            self.registry_.attach(peer.number, id, attach, request.timeout_ms, now_ms, out);
        }
        void operator()(const wire::Release& release) const { self.registry_.release(peer.number, id, release, out); }
        void operator()(const wire::Cancel& cancel) const { self.registry_.cancel(peer.number, cancel, out); }
        void operator()(const wire::Withdraw& withdraw) const {
            self.registry_.withdraw(peer.number, id, withdraw, out);
        }
        void operator()(const wire::List& list) const { self.registry_.list(peer.number, id, list, now_ms, out); }
        void operator()(const wire::Watch& watch) const { self.registry_.watch(peer.number, id, watch, out); }
        void operator()(const wire::Unwatch& unwatch) const { self.registry_.unwatch(peer.number, id, unwatch, out); }
        void operator()(const wire::Group& group) const { self.registry_.group(peer.number, id, group, out); }
        void operator()(const wire::StatusRequest&) const {
            self.registry_.status(peer.number, id, kVersion, now_ms - self.started_ms_, now_ms, out);
        }
        void operator()(const wire::Reserve& reserve) const {
            self.registry_.reserve(peer.number, id, reserve, now_ms, out);
        }
        void operator()(const wire::Unreserve& unreserve) const {
            self.registry_.unreserve(peer.number, id, unreserve, out);
        }
        void operator()(const wire::Forget& forget) const { self.registry_.forget(peer.number, id, forget, out); }
        void operator()(const wire::Drop& drop) const { Dispatcher::drop(peer, id, drop, out); }
        void operator()(const wire::Confirm& confirm) const { self.registry_.confirm(peer.number, id, confirm, out); }
        void operator()(const wire::Claims& claims) const { self.registry_.claim(peer.number, id, claims, out); }
        void operator()(const wire::ResumeDone&) const { self.registry_.resume_done(peer.number, id, out); }
    };
    std::visit(Visitor{*this, peer, id, request, received, now_ms, out}, request.message);
    return {};
}

hurray::Result<void> Dispatcher::greet(Peer& peer, const wire::Request& request, std::uint64_t now_ms, Outbox& out) {
    const auto& hello = std::get<wire::Hello>(request.message);
    if (peer.greeted) {
        return last_words(peer, request.request_id,
                          {Errc::Protocol, "Hello was said before on this connection", "hello"}, out);
    }
    peer.label = hello.client_name;
    if (hello.version_min > wire::kProtocolVersionMax || hello.version_max < wire::kProtocolVersionMin) {
        const auto range = [](std::uint32_t min, std::uint32_t max) {
            return std::to_string(min) + " to " + std::to_string(max);
        };
        return last_words(
            peer, request.request_id,
            {Errc::Protocol,
             "this hurrayd speaks versions " + range(wire::kProtocolVersionMin, wire::kProtocolVersionMax) +
                 " of the protocol, the client " + range(hello.version_min, hello.version_max) +
                 ": bring the older of the two up to date",
             "hello.version_min"},
            out);
    }
    const PeerCredentials& who = peer.credentials;
    const auto opened = registry_.open_session(
        peer.number,
        {who.uid, who.gid, who.pid, who.uid == 0, hello.session, std::move(peer.credentials.groups),
         hello.last_instance && *hello.last_instance != instance_, hello.last_instance == instance_, peer.label});
    if (!opened) {
        return last_words(peer, request.request_id, opened.error(), out);
    }
    peer.greeted = true;
    peer.keeps_segments = hello.keeps_segments;
    peer.takes_bundles = hello.takes_bundles;
    wire::HelloReply reply;
    reply.version = std::min(hello.version_max, wire::kProtocolVersionMax);
    reply.instance = instance_;
    reply.window_left_ms = registry_.window_left_ms(now_ms);
    reply.default_access = {who.gid, registry_.default_mode()};
    out.send(peer.number, request.request_id, reply);
    return {};
}

void Dispatcher::drop(const Peer& peer, std::uint64_t request_id, const wire::Drop& drop, Outbox& out) {
    for (const std::uint64_t number : drop.segments) {
        out.forgotten.push_back({out.packets.size(), peer.number, SegmentNumber{number}});
    }
    out.send(peer.number, request_id, wire::Done{});
}

void Dispatcher::publish(const Peer& peer, std::uint64_t request_id, wire::Publish& publish, wire::Received& received,
                         Outbox& out) {
    // The codec has seen to it that as many descriptors came as segments carry.
    boost::container::small_vector<int, 8> fds;
    for (const hurray::UniqueFd& fd : received.fds) {
        fds.push_back(fd.get());
    }
    auto checked = check_publish(publish, {fds.data(), fds.size()});
    if (checked) {
        if (auto own = check_makers(publish, {fds.data(), fds.size()}, peer.credentials.uid); !own) {
            checked = tl::unexpected(std::move(own.error()));
        }
    }
    if (!checked) {
        out.send(peer.number, request_id, std::move(checked.error()));
        return;
    }
    Publication publication;
    publication.buffer_bytes = checked->buffer_bytes;
    publication.brought.resize(publish.segments.size());
    for (std::size_t i = 0, next_fd = 0; i < publish.segments.size(); ++i) {
        if (publish.segments[i].carries_fd) {
            publication.brought[i].number = segments_.add(std::move(received.fds[next_fd++]), publish.segments[i].size);
            publication.brought[i].file = checked->files[i];
        }
    }
    publication.request = std::move(publish);
    registry_.publish(peer.number, request_id, std::move(publication), out);
}

}  // namespace hurrayd
