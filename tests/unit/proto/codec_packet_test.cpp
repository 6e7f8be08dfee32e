#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "hurray/broker/v1/broker.pb.h"
#include "proto/wire/codec.hpp"
#include "tests/unit/proto/wire_test_support.hpp"

namespace hurray::wire {
namespace {

namespace pb = broker::v1;

const std::string kId = "0123456789abcdef";

Id16 id_of(std::string_view bytes) {
    Id16 id;
    std::memcpy(id.bytes.data(), bytes.data(), id.bytes.size());
    return id;
}

const CapsuleId kCapsule{1000, id_of(kId)};

/// Over the wire and back: what arrives of `message`.
template <class Message>
Message there_and_back(std::uint64_t request_id, const Message& message, std::size_t fd_count = 0) {
    std::string bytes = encoded(Packet{request_id, message});
    auto decoded = decode_packet(as_bytes(bytes), fd_count);
    if (!decoded) {
        ADD_FAILURE() << decoded.error().field << ": " << decoded.error().message;
        return {};
    }
    EXPECT_EQ(decoded->request_id, request_id);
    if (!std::holds_alternative<Message>(decoded->message)) {
        ADD_FAILURE() << "another message arrived: " << decoded->message.index();
        return {};
    }
    return std::get<Message>(std::move(decoded->message));
}

TEST(CodecPacketTest, BufferThatIsUsedAgainHoldsTheLastPacketOnly) {
    PacketBuffer buffer;
    encode(Packet{1, ListReply{{}, std::string(2000, 'c')}}, buffer);
    EXPECT_EQ(buffer.view(), encoded(Packet{1, ListReply{{}, std::string(2000, 'c')}}));
    encode(Packet{2, Done{}}, buffer);
    EXPECT_EQ(buffer.view(), encoded(Packet{2, Done{}}));
}

TEST(CodecPacketTest, APacketThatBringsOthersIsReadAsIfItCameAlone) {
    const Packet event{0, SegmentsGone{{3, 4}}};
    const Packet reply{2, Done{}};
    PacketBuffer buffer;
    encode(Packet{1, PublishReply{7}}, buffer);
    append_more(event, buffer);
    append_more(reply, buffer);
    const auto first = decode_packet(buffer.bytes(), 0);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->request_id, 1U);
    EXPECT_EQ(std::get<PublishReply>(first->message).version, 7U);
    const auto more = more_in(buffer.bytes());
    ASSERT_TRUE(more);
    EXPECT_EQ(std::vector<std::string>(more->begin(), more->end()),
              (std::vector<std::string>{encoded(event), encoded(reply)}));
    pb::Packet generated;
    ASSERT_TRUE(generated.ParseFromString(std::string(buffer.view())));
    EXPECT_EQ(generated.more_size(), 2);
}

TEST(CodecPacketTest, WhatIsNoPacketBringsNoneAndMostBringNone) {
    const auto none = more_in(as_bytes(std::string(100, '\xFF')));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::Protocol);
    const auto alone = more_in(as_bytes(encoded(Packet{2, Done{}})));
    ASSERT_TRUE(alone);
    EXPECT_TRUE(alone->empty());
}

// ---- What is right arrives -----------------------------------------------------------------------------------------

TEST(CodecPacketTest, AnErrorArrivesAsItWasSent) {
    const auto got = there_and_back(3, Error{.code = Errc::OverQuota,
                                             .message = "too much",
                                             .field = "publish.segments[3].size",
                                             .limit_name = "user_bytes",
                                             .limit = 10,
                                             .in_use = 9,
                                             .value = 2});
    expect_error(got, Errc::OverQuota, "publish.segments[3].size", "too much");
    EXPECT_EQ(got.limit_name, "user_bytes");
    EXPECT_EQ(got.limit, 10U);
    EXPECT_EQ(got.in_use, 9U);
    EXPECT_EQ(got.value, 2U);
}

TEST(CodecPacketTest, EveryKindOfErrorKeepsItsKind) {
    for (int status = -50; status < 0; ++status) {
        if (status < -11 && status > -32) {
            continue;  // no such status
        }
        EXPECT_EQ(there_and_back(3, Error{static_cast<Errc>(status), "x"}).code, static_cast<Errc>(status));
    }
}

TEST(CodecPacketTest, AnErrorThatQuotesBadBytesArrivesReadable) {
    const auto got = there_and_back(3, Error{Errc::NotFound, "no \"gr\xC3\xBC\xFF\x1b[2J\"\n", "a\xC3"});
    EXPECT_EQ(got.message, "no \"gr\xC3\xBC??[2J\"?");
    EXPECT_EQ(got.field, "a?");
}

TEST(CodecPacketTest, ClosingArrivesAsItWasSent) {
    expect_error(there_and_back(0, Closing{{Errc::Protocol, "enough"}}).error, Errc::Protocol, "", "enough");
}

TEST(CodecPacketTest, HelloReplyArrivesAsItWasSent) {
    const auto got = there_and_back(1, HelloReply{2, id_of(kId), {1, 2, 3, 4}, 5, Access{6, 0640}});
    EXPECT_EQ(got.default_access, (Access{6, 0640}));
    EXPECT_EQ(there_and_back(1, HelloReply{2, id_of(kId), {}, 0}).default_access, std::nullopt) << "of an older daemon";
    EXPECT_EQ(got.version, 2U);
    EXPECT_EQ(got.instance, id_of(kId));
    EXPECT_EQ(got.limits.packet_bytes, 1U);
    EXPECT_EQ(got.limits.packet_fds, 2U);
    EXPECT_EQ(got.limits.descriptor_bytes, 3U);
    EXPECT_EQ(got.limits.unacked_releases, 4U);
    EXPECT_EQ(got.window_left_ms, 5U);
}

TEST(CodecPacketTest, AttachReplyArrivesAsItWasSent) {
    const AttachReply sent{kCapsule,
                           "a/b",
                           7,
                           std::string("HRRY\0", 5),
                           {{9, true, Memory::Reusable, UINT64_MAX, 0},
                            {4, false, Memory::Immutable, 1, 0},
                            {5, true, Memory::GpuPool, 1, 2}},
                           {{1, 0}, {0, UINT64_MAX}},
                           {100, 0640}};
    const auto got = there_and_back(1, sent, 2);
    EXPECT_EQ(got.capsule, sent.capsule);
    EXPECT_EQ(got.name, sent.name);
    EXPECT_EQ(got.version, sent.version);
    EXPECT_EQ(got.descriptor, sent.descriptor);
    EXPECT_EQ(got.segments, sent.segments);
    EXPECT_EQ(got.placements, sent.placements);
    EXPECT_EQ(got.access, sent.access);
}

TEST(CodecPacketTest, TheLargestAttachReplyFitsAPacket) {
    AttachReply sent{
        kCapsule, std::string(kMaxNameBytes, 'n'), UINT64_MAX, std::string(kMaxDescriptorBytes, 'd'), {}, {}, {}};
    for (std::size_t i = 0; i < kMaxSegments; ++i) {
        sent.segments.push_back({UINT64_MAX - i, true, Memory::Reusable, UINT64_MAX, 0});
    }
    sent.placements.assign(kMaxBuffers, {UINT32_MAX, UINT64_MAX});
    std::string bytes = encoded(Packet{UINT64_MAX, sent});
    EXPECT_LE(bytes.size(), kMaxPacketBytes);
    EXPECT_TRUE(decode_packet(as_bytes(bytes), kMaxSegments));
}

TEST(CodecPacketTest, ListReplyArrivesAsItWasSent) {
    const Info sent{kCapsule, "a/b", 1, 2, 3, {4, 5}, true, true, 6, "HRRY", true, true, true, true, 7};
    const auto got = there_and_back(
        1, ListReply{{sent, Info{kCapsule, "", 0, 0, 0, {}, false, false, -1, "", false, false, false, false, 0}},
                     "next"});
    EXPECT_EQ(got.cursor, "next");
    ASSERT_EQ(got.capsules.size(), 2U);
    const Info& info = got.capsules[0];
    EXPECT_EQ(info.capsule, sent.capsule);
    EXPECT_EQ(info.name, "a/b");
    EXPECT_EQ(info.version, 1U);
    EXPECT_EQ(info.bytes, 2U);
    EXPECT_EQ(info.leases, 3U);
    EXPECT_EQ(info.access, sent.access);
    EXPECT_TRUE(info.retired);
    EXPECT_TRUE(info.lingering);
    EXPECT_TRUE(info.once);
    EXPECT_EQ(info.pid, 6);
    EXPECT_EQ(info.descriptor, "HRRY");
    EXPECT_TRUE(info.immutable);
    EXPECT_TRUE(info.unsealed);
    EXPECT_FALSE(got.capsules[1].immutable);
    EXPECT_FALSE(got.capsules[1].unsealed);
    EXPECT_EQ(got.capsules[1].name, "");
    EXPECT_EQ(got.capsules[1].pid, -1);
    EXPECT_FALSE(got.capsules[1].retired);
    EXPECT_FALSE(got.capsules[1].lingering);
    EXPECT_FALSE(got.capsules[1].once);
    EXPECT_TRUE(info.producer_gone);
    EXPECT_EQ(info.expires_ms, 7U);
    EXPECT_FALSE(got.capsules[1].producer_gone);
    EXPECT_EQ(got.capsules[1].expires_ms, 0U);
}

TEST(CodecPacketTest, StatusReplyArrivesAsItWasSent) {
    const auto got = there_and_back(
        1, StatusReply{{{"leases", 1, 2, 3}}, {{4, 5, 6, 7}}, "0.1.0", 8, {{"bytes", 9, 10, "me", 11, 12}}});
    ASSERT_EQ(got.uses.size(), 1U);
    EXPECT_EQ(got.uses[0].name, "leases");
    EXPECT_EQ(got.uses[0].uid, 1U);
    EXPECT_EQ(got.uses[0].used, 2U);
    EXPECT_EQ(got.uses[0].limit, 3U);
    ASSERT_EQ(got.writing.size(), 1U);
    EXPECT_EQ(got.writing[0].uid, 4U);
    EXPECT_EQ(got.writing[0].pid, 5);
    EXPECT_EQ(got.writing[0].bytes, 6U);
    EXPECT_EQ(got.writing[0].age_ms, 7U);
    EXPECT_EQ(got.daemon_version, "0.1.0");
    EXPECT_EQ(got.uptime_ms, 8U);
    ASSERT_EQ(got.holders.size(), 1U);
    EXPECT_EQ(got.holders[0].name, "bytes");
    EXPECT_EQ(got.holders[0].uid, 9U);
    EXPECT_EQ(got.holders[0].pid, 10);
    EXPECT_EQ(got.holders[0].client_name, "me");
    EXPECT_EQ(got.holders[0].used, 11U);
    EXPECT_EQ(got.holders[0].limit, 12U);
}

TEST(CodecPacketTest, TheSmallPacketsArriveAsTheyWereSent) {
    there_and_back(1, Done{});
    EXPECT_EQ(there_and_back(1, PublishReply{9}).version, 9U);
    EXPECT_TRUE(there_and_back(1, GroupReply{}).versions.empty());
    EXPECT_EQ(there_and_back(0, Retired{kCapsule}).capsule, kCapsule);
    EXPECT_EQ(there_and_back(0, ProducerLost{kCapsule}).capsule, kCapsule);
    EXPECT_EQ(there_and_back(0, SegmentsGone{{1, UINT64_MAX}}).segments, (std::vector<std::uint64_t>{1, UINT64_MAX}));
    EXPECT_EQ(there_and_back(0, ClaimsRefused{{1, UINT64_MAX}}).leases, (std::vector<std::uint64_t>{1, UINT64_MAX}));
    const LeaseId lease{7, kCapsule.id, UINT64_MAX};
    const auto window = there_and_back(0, WindowClosed{kCapsule, {lease, lease}, true});
    EXPECT_EQ(window.capsule, kCapsule);
    EXPECT_EQ(window.open, (std::vector<LeaseId>{lease, lease}));
    EXPECT_TRUE(window.more);
    EXPECT_FALSE(there_and_back(0, WindowClosed{kCapsule, {}, false}).more);
    const auto ended = there_and_back(0, Ended{kCapsule, true});
    EXPECT_EQ(ended.capsule, kCapsule);
    EXPECT_TRUE(ended.reusable);
}

TEST(CodecPacketTest, VersionsOfTheLargestGroupFitAPacket) {
    GroupReply sent;
    for (std::size_t i = 0; i < kMaxGroupMembers; ++i) {
        sent.versions.push_back(UINT64_MAX - i);
    }
    const std::string bytes = encoded(Packet{UINT64_MAX, sent});
    EXPECT_LE(bytes.size(), kMaxPacketBytes);
    EXPECT_EQ(there_and_back(UINT64_MAX, sent).versions, sent.versions);
}

TEST(CodecPacketTest, VersionsOfAGroupMayComeUnpacked) {
    const auto decoded = decode_packet(as_bytes(std::string("\x08\x01\xca\x01\x04\x08\x05\x08\x06", 9)), 0);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(std::get<GroupReply>(decoded->message).versions, (std::vector<std::uint64_t>{5, 6}));
}

TEST(CodecPacketTest, LeaseEventsArriveAsTheyWereSent) {
    using What = LeaseEvent::What;
    for (const What what : {What::Opened, What::Released, What::Lost, What::Taken}) {
        const LeaseId lease{5, id_of("fedcba9876543210"), 6};
        const auto got = there_and_back(0, LeaseEvent{kCapsule, lease, what, 7});
        EXPECT_EQ(got.capsule, kCapsule);
        EXPECT_EQ(got.lease, lease);
        EXPECT_EQ(got.what, what);
        EXPECT_EQ(got.remaining, 7U);
    }
}

TEST(CodecPacketTest, WatchedEventsArriveAsTheyWereSent) {
    using What = Watched::What;
    for (const What what : {What::Present, What::Published, What::Retired, What::ProducerLost, What::Gap}) {
        const auto got = there_and_back(0, Watched{4, what, kCapsule, "a/b", 5});
        EXPECT_EQ(got.watch, 4U);
        EXPECT_EQ(got.what, what);
        EXPECT_EQ(got.capsule, kCapsule);
        EXPECT_EQ(got.name, "a/b");
        EXPECT_EQ(got.version, 5U);
    }
}

TEST(CodecPacketTest, TheEndOfASnapshotIsAboutNoCapsule) {
    const auto got = there_and_back(0, Watched{4, Watched::What::SnapshotEnd, {}, "", 0});
    EXPECT_EQ(got.what, Watched::What::SnapshotEnd);
    EXPECT_EQ(got.capsule, CapsuleId{});
}

// ---- What is refused ------------------------------------------------------------------------------------------------

pb::Packet reply() {
    pb::Packet packet;
    packet.set_request_id(7);
    return packet;
}

pb::Packet event() { return {}; }

void set(pb::CapsuleId* capsule) {
    capsule->set_uid(1000);
    capsule->set_id(kId);
}

pb::Packet hello_reply() {
    pb::Packet packet = reply();
    packet.mutable_hello()->set_instance(kId);
    pb::Limits* limits = packet.mutable_hello()->mutable_limits();
    limits->set_packet_bytes(1);
    limits->set_packet_fds(1);
    limits->set_descriptor_bytes(1);
    limits->set_unacked_releases(1);
    return packet;
}

/// One segment, which carries a descriptor.
pb::Packet attach_reply() {
    pb::Packet packet = reply();
    set(packet.mutable_attach()->mutable_capsule());
    packet.mutable_attach()->set_name("a/b");
    pb::Segment* segment = packet.mutable_attach()->add_segments();
    segment->set_number(5);
    segment->set_carries_fd(true);
    segment->set_memory(pb::REUSABLE);
    segment->set_size(4096);
    return packet;
}

pb::Packet lease_event() {
    pb::Packet packet = event();
    set(packet.mutable_lease()->mutable_capsule());
    packet.mutable_lease()->mutable_lease()->set_session_hash(kId);
    packet.mutable_lease()->set_what(pb::LeaseEvent::OPENED);
    return packet;
}

pb::Packet watched() {
    pb::Packet packet = event();
    set(packet.mutable_watched()->mutable_capsule());
    packet.mutable_watched()->set_what(pb::Watched::PRESENT);
    return packet;
}

Result<Packet> decode(const pb::Packet& packet, std::size_t fd_count = 0) {
    return decode_packet(as_bytes(packet.SerializeAsString()), fd_count);
}

TEST(BadPacketCases, StartFromGoodPackets) {
    EXPECT_TRUE(decode(hello_reply()));
    EXPECT_TRUE(decode(attach_reply(), 1));
    EXPECT_TRUE(decode(lease_event()));
    EXPECT_TRUE(decode(watched()));
}

TEST(CodecPacketTest, WhatIsNoPacketIsAProtocolError) {
    for (const std::string& bytes : {std::string(100, '\xFF'), std::string("\x08"), std::string("\x1A\x05")}) {
        const auto decoded = decode_packet(as_bytes(bytes), 0);
        ASSERT_FALSE(decoded);
        expect_error(decoded.error(), Errc::Protocol, "", "no Packet of hurray.broker.v1");
    }
}

TEST(CodecPacketTest, AnUnknownEventIsUnsupportedAndAnUnknownReplyAProtocolError) {
    const std::string message_50("\x92\x03\x02\x08\x01", 5);
    const auto unknown_event = decode_packet(as_bytes(message_50), 0);
    ASSERT_FALSE(unknown_event);
    expect_error(unknown_event.error(), Errc::Unsupported, "", "number 50");

    const auto unknown_reply = decode_packet(as_bytes(reply().SerializeAsString() + message_50), 0);
    ASSERT_FALSE(unknown_reply);
    expect_error(unknown_reply.error(), Errc::Protocol, "", "number 50");
}

TEST(CodecPacketTest, AnErrorOfAnUnknownStatusIsOneOfProtocolThatNamesIt) {
    for (const int status : {-12, -31, -51, -1000, INT32_MIN}) {
        pb::Packet packet = reply();
        packet.mutable_error()->set_status(status);
        packet.mutable_error()->set_message("from the future");
        const auto decoded = decode(packet);
        ASSERT_TRUE(decoded) << decoded.error().message;
        expect_error(std::get<Error>(decoded->message), Errc::Protocol, "",
                     "status " + std::to_string(status) + ", which is not known here: from the future");
    }
}

// These fields were protobuf strings: bad UTF-8 made the parser refuse the packet, and print to the stderr of whoever used the
// library.
TEST(CodecPacketTest, BadUtf8InTextNeitherVoidsThePacketNorPrints) {
    pb::Packet error = reply();
    error.mutable_error()->set_status(-32);
    error.mutable_error()->set_field("a\xff");
    error.mutable_error()->set_limit_name("\xc3");
    error.mutable_error()->set_message("\xed\xa0\x80 gone");
    pb::Packet status = reply();
    status.mutable_status()->add_uses()->set_name("\x80");
    status.mutable_status()->set_daemon_version("1\xf8");
    testing::internal::CaptureStderr();
    const auto decoded_error = decode(error);
    const auto decoded_status = decode(status);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    ASSERT_TRUE(decoded_error);
    EXPECT_EQ(std::get<Error>(decoded_error->message).field, "a?");
    EXPECT_EQ(std::get<Error>(decoded_error->message).limit_name, "?");
    EXPECT_EQ(std::get<Error>(decoded_error->message).message, "??? gone");
    ASSERT_TRUE(decoded_status);
    EXPECT_EQ(std::get<StatusReply>(decoded_status->message).uses.at(0).name, "?");
    EXPECT_EQ(std::get<StatusReply>(decoded_status->message).daemon_version, "1?");
}

TEST(CodecPacketTest, AnErrorsTextReachesNoTerminalRaw) {
    pb::Packet packet = reply();
    packet.mutable_error()->set_status(-32);
    packet.mutable_error()->set_message("a\x1b[2Jb");
    packet.mutable_error()->set_field("\x07");
    const auto decoded = decode(packet);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(std::get<Error>(decoded->message).message, "a?[2Jb");
    EXPECT_EQ(std::get<Error>(decoded->message).field, "?");
}

/// A packet that breaks one rule.
struct Bad {
    const char* name;
    std::function<pb::Packet()> good;
    std::function<void(pb::Packet&)> spoil;
    const char* field;
    const char* words;
    std::size_t fd_count = 0;
    Errc code = Errc::Protocol;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadPacketTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadPacketTest, IsRefusedByItsField) {
    pb::Packet packet = GetParam().good();
    GetParam().spoil(packet);
    const auto decoded = decode(packet, GetParam().fd_count);
    ASSERT_FALSE(decoded);
    expect_error(decoded.error(), GetParam().code, GetParam().field, GetParam().words);
}

const auto name_of_case = [](const auto& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Envelope, BadPacketTest,
    ::testing::Values(
        Bad{"Empty", event, [](auto&) {}, "", "no message"},
        Bad{"ReplyWithoutMessage", reply, [](auto&) {}, "", "no message"},
        Bad{"ReplyWithoutId", hello_reply, [](auto& p) { p.clear_request_id(); }, "", "without the id of its request"},
        Bad{"ErrorWithoutId", event, [](auto& p) { p.mutable_error()->set_status(-1); }, "", "without the id"},
        Bad{"EventWithAnId", watched, [](auto& p) { p.set_request_id(3); }, "", "an event came with the id"},
        Bad{"ClosingWithAnId", reply, [](auto& p) { p.mutable_closing()->set_status(-1); }, "",
            "an event came with the id"},
        Bad{"DescriptorsNobodyAskedFor", hello_reply, [](auto&) {}, "", "2 descriptors came with a message", 2},
        Bad{"DescriptorsWithAnEvent", watched, [](auto&) {}, "", "1 descriptors came with a message", 1},
        Bad{"WindowClosedOfNoCapsule", event, [](auto& p) { p.mutable_window_closed(); }, "window_closed.capsule.id",
            "16 bytes, not 0"},
        Bad{"WindowClosedWithAShortHash", event,
            [](auto& p) { p.mutable_window_closed()->add_open()->set_session_hash("x"); },
            "window_closed.open[0].session_hash", "16 bytes, not 1"},
        Bad{"ErrorThatIsNone", reply, [](auto& p) { p.mutable_error(); }, "error.status", "status 0 is no failure"},
        Bad{"ClosingWithAPositiveStatus", event, [](auto& p) { p.mutable_closing()->set_status(5); }, "closing.status",
            "status 5 is no failure"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Replies, BadPacketTest,
    ::testing::Values(
        Bad{"InstanceTooShort", hello_reply, [](auto& p) { p.mutable_hello()->set_instance("x"); }, "hello.instance",
            "16 bytes, not 1"},
        Bad{"LimitsMissing", hello_reply, [](auto& p) { p.mutable_hello()->clear_limits(); }, "hello.limits",
            "a limit is 0"},
        Bad{"NoReleases", hello_reply, [](auto& p) { p.mutable_hello()->mutable_limits()->set_unacked_releases(0); },
            "hello.limits", "a limit is 0"},
        Bad{"AttachWithoutCapsule", attach_reply, [](auto& p) { p.mutable_attach()->clear_capsule(); },
            "attach.capsule.id", "16 bytes, not 0", 1},
        Bad{"AttachWithABadName", attach_reply, [](auto& p) { p.mutable_attach()->set_name("../x"); }, "attach.name",
            "segment \"..\"", 1},
        Bad{"AttachDescriptorTooLong", attach_reply,
            [](auto& p) { p.mutable_attach()->set_descriptor(std::string(32769, 'd')); }, "attach.descriptor",
            "32769 bytes", 1},
        Bad{"AttachWithoutItsDescriptor", attach_reply, [](auto&) {}, "attach.segments",
            "1 segments carry a descriptor, but 0 descriptors came", 0},
        Bad{"AttachWithTooManyDescriptors", attach_reply, [](auto&) {}, "attach.segments",
            "1 segments carry a descriptor, but 2 descriptors came", 2},
        Bad{"AttachSegmentOfNoBytes", attach_reply,
            [](auto& p) { p.mutable_attach()->mutable_segments(0)->set_size(0); }, "attach.segments[0].size", "0 bytes",
            1},
        Bad{"AttachMemoryUnknown", attach_reply,
            [](auto& p) { p.mutable_attach()->mutable_segments(0)->set_memory(static_cast<pb::Memory>(99)); },
            "attach.segments[0].memory", "kind 99", 1},
        Bad{"AttachSameNumberTwice", attach_reply,
            [](auto& p) { *p.mutable_attach()->add_segments() = p.attach().segments(0); }, "attach.segments[1].number",
            "number 5 is used twice", 2},
        Bad{"AttachTooManySegments", attach_reply,
            [](auto& p) {
                while (p.attach().segments_size() < 254) {
                    p.mutable_attach()->add_segments();
                }
            },
            "attach.segments", "254 segments; at most 253", 1},
        Bad{"AttachTooManyPlacements", attach_reply,
            [](auto& p) {
                while (p.attach().placements_size() < 256) {
                    p.mutable_attach()->add_placements();
                }
            },
            "attach.placements", "256 placements; at most 255", 1},
        Bad{"ListEntryWithoutCapsule", reply,
            [](auto& p) {
                set(p.mutable_list()->add_capsules()->mutable_capsule());
                p.mutable_list()->add_capsules();
            },
            "list.capsules[1].capsule.id", "16 bytes, not 0"},
        Bad{"ListEntryWithABadName", reply,
            [](auto& p) {
                set(p.mutable_list()->add_capsules()->mutable_capsule());
                p.mutable_list()->mutable_capsules(0)->set_name("\x1b");
            },
            "list.capsules[0].name", "U+001B"},
        Bad{"ListEntryDescriptorTooLong", reply,
            [](auto& p) {
                set(p.mutable_list()->add_capsules()->mutable_capsule());
                p.mutable_list()->mutable_capsules(0)->set_descriptor(std::string(32769, 'd'));
            },
            "list.capsules[0].descriptor", "32769 bytes"},
        Bad{"ListCursorTooLong", reply, [](auto& p) { p.mutable_list()->set_cursor(std::string(1025, 'c')); },
            "list.cursor", "1025 bytes"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Events, BadPacketTest,
    ::testing::Values(Bad{"LeaseOfNoCapsule", lease_event, [](auto& p) { p.mutable_lease()->clear_capsule(); },
                          "lease.capsule.id", "16 bytes, not 0"},
                      Bad{"LeaseWithoutSession", lease_event, [](auto& p) { p.mutable_lease()->clear_lease(); },
                          "lease.lease.session_hash", "16 bytes, not 0"},
                      Bad{"LeaseWithoutKind", lease_event, [](auto& p) { p.mutable_lease()->clear_what(); },
                          "lease.what", "0 is never valid"},
                      Bad{"LeaseOfUnknownKind", lease_event,
                          [](auto& p) { p.mutable_lease()->set_what(static_cast<pb::LeaseEvent::What>(5)); },
                          "lease.what", "value 5 is not known", 0, Errc::Unsupported},
                      Bad{"LeaseOfNegativeKind", lease_event,
                          [](auto& p) { p.mutable_lease()->set_what(static_cast<pb::LeaseEvent::What>(-1)); },
                          "lease.what", "value -1 is not known", 0, Errc::Unsupported},
                      Bad{"EndedWithoutCapsule", event, [](auto& p) { p.mutable_ended(); }, "ended.capsule.id",
                          "16 bytes, not 0"},
                      Bad{"RetiredWithoutCapsule", event, [](auto& p) { p.mutable_retired(); }, "retired.capsule.id",
                          "16 bytes, not 0"},
                      Bad{"ProducerLostWithoutCapsule", event, [](auto& p) { p.mutable_producer_lost(); },
                          "producer_lost.capsule.id", "16 bytes, not 0"},
                      Bad{"WatchedWithoutKind", watched, [](auto& p) { p.mutable_watched()->clear_what(); },
                          "watched.what", "0 is never valid"},
                      Bad{"WatchedOfUnknownKind", watched,
                          [](auto& p) { p.mutable_watched()->set_what(static_cast<pb::Watched::What>(7)); },
                          "watched.what", "value 7 is not known", 0, Errc::Unsupported},
                      Bad{"WatchedWithoutCapsule", watched, [](auto& p) { p.mutable_watched()->clear_capsule(); },
                          "watched.capsule.id", "16 bytes, not 0"},
                      Bad{"WatchedWithABadName", watched, [](auto& p) { p.mutable_watched()->set_name("a//b"); },
                          "watched.name", "empty segment"},
                      Bad{"SnapshotEndWithABrokenCapsule", watched,
                          [](auto& p) {
                              p.mutable_watched()->set_what(pb::Watched::SNAPSHOT_END);
                              p.mutable_watched()->mutable_capsule()->set_id("x");
                          },
                          "watched.capsule.id", "16 bytes, not 1"}),
    name_of_case);

}  // namespace
}  // namespace hurray::wire
