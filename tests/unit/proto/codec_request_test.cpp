#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
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

tl::expected<Request, Refusal> decode(const pb::Request& request, std::size_t fd_count = 0) {
    return decode_request(as_bytes(request.SerializeAsString()), fd_count);
}

/// Over the wire and back, with as many descriptors as `request` says.
Request there_and_back(const Request& request, std::size_t fd_count = 0) {
    std::string bytes = encoded(request);
    auto decoded = decode_request(as_bytes(bytes), fd_count);
    if (!decoded) {
        ADD_FAILURE() << decoded.error().error.field << ": " << decoded.error().error.message;
        return {};
    }
    EXPECT_EQ(decoded->request_id, request.request_id);
    EXPECT_EQ(decoded->timeout_ms, request.timeout_ms);
    return std::move(*decoded);
}

// ---- Requests that can't be wrong ----------------------------------------------------------------------------------

pb::Request hello() {
    pb::Request request;
    request.set_request_id(7);
    request.mutable_hello()->set_version_min(1);
    request.mutable_hello()->set_version_max(1);
    request.mutable_hello()->set_session(kId);
    return request;
}

void add_segment(pb::Publish* publish, std::uint64_t number, bool carries_fd) {
    pb::Segment* segment = publish->add_segments();
    segment->set_number(number);
    segment->set_carries_fd(carries_fd);
    segment->set_memory(pb::REUSABLE);
    segment->set_size(4096);
}

/// Two segments, the first of which carries a descriptor.
pb::Request publish() {
    pb::Request request;
    request.set_request_id(7);
    pb::Publish* publish = request.mutable_publish();
    publish->set_capsule(kId);
    publish->set_name("camera/0");
    publish->set_descriptor("HRRY");
    add_segment(publish, 1, true);
    add_segment(publish, 2, false);
    publish->add_placements()->set_segment(0);
    publish->add_placements()->set_segment(1);
    return request;
}

pb::Request attach() {
    pb::Request request;
    request.set_request_id(7);
    request.mutable_attach()->set_lease(3);
    request.mutable_attach()->set_name("camera/0");
    return request;
}

pb::Request release() {
    pb::Request request;
    request.set_request_id(7);
    request.mutable_release()->add_lease(3);
    return request;
}

pb::Request with_id(std::uint64_t request_id) {
    pb::Request request;
    request.set_request_id(request_id);
    return request;
}

// ---- What is right arrives -----------------------------------------------------------------------------------------

TEST(CodecRequestTest, HelloArrivesAsItWasSent) {
    const Request request{1, 0, Hello{1, 3, "tr\xC3\xA4iner", id_of(kId), std::nullopt, true, true}};
    const auto decoded = there_and_back(request);
    const auto& got = std::get<Hello>(decoded.message);
    EXPECT_EQ(got.version_min, 1U);
    EXPECT_EQ(got.version_max, 3U);
    EXPECT_EQ(got.client_name, "tr\xC3\xA4iner");
    EXPECT_EQ(got.session, id_of(kId));
    EXPECT_FALSE(got.last_instance);
    EXPECT_TRUE(got.keeps_segments);
    EXPECT_TRUE(got.takes_bundles);
}

TEST(CodecRequestTest, PublishArrivesAsItWasSent) {
    const Publish sent{id_of(kId),
                       "a/b",
                       std::string("HRRY\0\xFF", 6),
                       {{9, true, Memory::Reusable, UINT64_MAX, 77}, {4, false, Memory::Reusable, 1, 0}},
                       {{1, 0}, {0, UINT64_MAX}, {7, 1}},
                       Access{44, 0640},
                       UINT64_MAX};
    const auto decoded = there_and_back({UINT64_MAX, UINT64_MAX, sent}, 1);
    const auto& got = std::get<Publish>(decoded.message);
    EXPECT_EQ(got.capsule, sent.capsule);
    EXPECT_EQ(got.name, sent.name);
    EXPECT_EQ(got.descriptor, sent.descriptor);
    EXPECT_EQ(got.segments, sent.segments);
    EXPECT_EQ(got.placements, sent.placements);
    EXPECT_EQ(got.group, sent.group);
}

TEST(CodecRequestTest, TheLargestPublishFitsAPacket) {
    Publish sent{id_of(kId),
                 std::string(kMaxNameBytes, 'n'),
                 std::string(kMaxDescriptorBytes, 'd'),
                 {},
                 {},
                 Access{UINT32_MAX, 0666},
                 UINT64_MAX};
    for (std::size_t i = 0; i < kMaxSegments; ++i) {
        sent.segments.push_back({UINT64_MAX - i, true, Memory::Reusable, UINT64_MAX, UINT64_MAX});
    }
    for (std::size_t i = 0; i < kMaxBuffers; ++i) {
        sent.placements.push_back({UINT32_MAX, UINT64_MAX});
    }
    std::string bytes = encoded(Request{UINT64_MAX, UINT64_MAX, sent});
    EXPECT_LE(bytes.size(), kMaxPacketBytes);
    const auto decoded = decode_request(as_bytes(bytes), kMaxSegments);
    ASSERT_TRUE(decoded) << decoded.error().error.message;
    EXPECT_EQ(std::get<Publish>(decoded->message).segments, sent.segments);
    EXPECT_EQ(std::get<Publish>(decoded->message).placements, sent.placements);
}

TEST(CodecRequestTest, AccessOfAPublishArrivesAsItWasSentOrNotAtAll) {
    for (const auto& access : {std::optional<Access>(), std::optional(Access{0, 0}), std::optional(Access{0, 0600}),
                               std::optional(Access{kOwnGroup, 0}), std::optional(Access{44, 0666})}) {
        Publish sent;
        sent.capsule = Id16{};
        sent.access = access;
        const auto got = there_and_back({7, std::nullopt, sent});
        EXPECT_EQ(std::get<Publish>(got.message).access, access);
    }
}

TEST(CodecRequestTest, APublishMayHaveNeitherNameNorSegments) {
    auto request = publish();
    request.mutable_publish()->clear_name();
    request.mutable_publish()->clear_segments();
    const auto decoded = decode(request);
    ASSERT_TRUE(decoded) << decoded.error().error.message;
    const auto& got = std::get<Publish>(decoded->message);
    EXPECT_EQ(got.name, "");
    EXPECT_TRUE(got.segments.empty());
    EXPECT_EQ(got.placements.size(), 2U);
}

TEST(CodecRequestTest, AttachByNameArrivesAsItWasSent) {
    struct Case {
        Which which;
        std::uint64_t version;
    };
    for (const Case& c : {Case{Which::Latest, 0}, Case{Which::Exactly, 5}, Case{Which::NewerThan, 6}}) {
        const auto decoded = there_and_back({1, std::nullopt, Attach{3, "a/b", c.which, c.version, 8}});
        const auto& got = std::get<Attach>(decoded.message);
        EXPECT_EQ(got.lease, 3U);
        EXPECT_EQ(std::get<std::string>(got.what), "a/b");
        EXPECT_EQ(got.which, c.which);
        EXPECT_EQ(got.version, c.version);
        EXPECT_EQ(got.last_seen, 8U);
    }
}

TEST(CodecRequestTest, AttachByCapsuleArrivesAsItWasSent) {
    const CapsuleId capsule{1000, id_of(kId)};
    const auto decoded = there_and_back({1, std::nullopt, Attach{3, capsule, Which::Latest, 0, 0}});
    EXPECT_EQ(std::get<CapsuleId>(std::get<Attach>(decoded.message).what), capsule);
    EXPECT_FALSE(std::get<Attach>(decoded.message).immutable_only);
    EXPECT_FALSE(std::get<Attach>(decoded.message).allow_unsealed);
}

TEST(CodecRequestTest, WhatMemoryAnAttachWantsArrivesAsItWasSent) {
    for (const bool immutable_only : {false, true}) {
        Attach sent{3, "a"};
        sent.immutable_only = immutable_only;
        sent.allow_unsealed = !immutable_only;
        const auto decoded = there_and_back({1, std::nullopt, sent});
        EXPECT_EQ(std::get<Attach>(decoded.message).immutable_only, immutable_only);
        EXPECT_EQ(std::get<Attach>(decoded.message).allow_unsealed, !immutable_only);
    }
}

TEST(CodecRequestTest, WhatIsTakenOnceArrivesAsItWasSent) {
    const CapsuleId capsule{1000, id_of(kId)};
    const LeaseId lease{1001, id_of(kId), 17};
    Publish offered{id_of(kId), "a/b", "d", {{9, true, Memory::Reusable, 4096, 0}}, {{0, 0}}, {}, 0, 7};
    offered.once = true;
    offered.taken_by = lease;
    const auto again = std::get<Publish>(there_and_back({1, std::nullopt, offered}, 1).message);
    EXPECT_TRUE(again.once);
    EXPECT_EQ(again.taken_by, lease);
    EXPECT_EQ(again.retain, 1U);

    Publish retained{id_of(kId), "a/b", "d", {{9, true, Memory::Reusable, 4096, 0}}, {{0, 0}}, {}};
    retained.retain = kMaxRetain;
    const auto kept = std::get<Publish>(there_and_back({1, std::nullopt, retained}, 1).message);
    EXPECT_EQ(kept.retain, kMaxRetain);
    EXPECT_FALSE(kept.once);
    EXPECT_EQ(kept.linger_ms, std::nullopt);

    for (const std::uint64_t linger_ms : {std::uint64_t{0}, std::uint64_t{5000}, UINT64_MAX}) {  // 0 is said, too
        retained.linger_ms = linger_ms;
        EXPECT_EQ(std::get<Publish>(there_and_back({1, std::nullopt, retained}, 1).message).linger_ms, linger_ms);
    }

    Attach take{3, capsule};
    take.take = true;
    EXPECT_TRUE(std::get<Attach>(there_and_back({1, std::nullopt, take}).message).take);
    EXPECT_EQ(std::get<Confirm>(there_and_back({1, std::nullopt, Confirm{UINT64_MAX}}).message).lease, UINT64_MAX);
}

TEST(CodecRequestTest, ReleaseOfAsManyLeasesAsAllowedFitsAPacket) {
    Release sent;
    for (std::size_t i = 0; i < kMaxReleaseLeases; ++i) {
        sent.leases.push_back(UINT64_MAX - i);
    }
    std::string bytes = encoded(Request{UINT64_MAX, UINT64_MAX, sent});
    EXPECT_LE(bytes.size(), kMaxPacketBytes);
    const auto decoded = decode_request(as_bytes(bytes), 0);
    ASSERT_TRUE(decoded) << decoded.error().error.message;
    EXPECT_EQ(std::get<Release>(decoded->message).leases, sent.leases);
}

TEST(CodecRequestTest, TheSmallRequestsArriveAsTheyWereSent) {
    const CapsuleId capsule{1000, id_of(kId)};
    EXPECT_EQ(std::get<Cancel>(there_and_back({2, std::nullopt, Cancel{1}}).message).request_id, 1U);
    EXPECT_EQ(std::get<Withdraw>(there_and_back({2, std::nullopt, Withdraw{capsule}}).message).capsule, capsule);
    EXPECT_EQ(std::get<Unwatch>(there_and_back({2, std::nullopt, Unwatch{4}}).message).watch, 4U);
    EXPECT_TRUE(std::holds_alternative<StatusRequest>(there_and_back({2, std::nullopt, StatusRequest{}}).message));

    const auto reserve = there_and_back({2, std::nullopt, Reserve{UINT64_MAX, kMaxFileBytes}});
    EXPECT_EQ(std::get<Reserve>(reserve.message).reservation, UINT64_MAX);
    EXPECT_EQ(std::get<Reserve>(reserve.message).bytes, kMaxFileBytes);
    EXPECT_EQ(std::get<Unreserve>(there_and_back({2, std::nullopt, Unreserve{4}}).message).reservation, 4U);
    const auto claims = std::get<Claims>(there_and_back({2, std::nullopt,
                                                         Claims{{{capsule, 1, Claims::State::Held},
                                                                 {capsule, UINT64_MAX, Claims::State::Released},
                                                                 {capsule, 2, Claims::State::Confirmed}}}})
                                             .message);
    ASSERT_EQ(claims.claims.size(), 3U);
    EXPECT_EQ(claims.claims[0].capsule, capsule);
    EXPECT_EQ(claims.claims[0].state, Claims::State::Held);
    EXPECT_EQ(claims.claims[1].lease, UINT64_MAX);
    EXPECT_EQ(claims.claims[1].state, Claims::State::Released);
    EXPECT_EQ(claims.claims[2].state, Claims::State::Confirmed);
    EXPECT_TRUE(std::holds_alternative<ResumeDone>(there_and_back({2, std::nullopt, ResumeDone{}}).message));
    const auto hello =
        std::get<Hello>(there_and_back({2, std::nullopt, Hello{1, 1, "", id_of(kId), id_of(kId), false}}).message);
    EXPECT_EQ(hello.last_instance, id_of(kId));
    EXPECT_EQ(std::get<Drop>(there_and_back({2, std::nullopt, Drop{{0, 5}}}).message).segments,
              (std::vector<std::uint64_t>{0, 5}));
    EXPECT_EQ(std::get<Forget>(there_and_back({2, std::nullopt, Forget{{0, 5}}}).message).segments,
              (std::vector<std::uint64_t>{0, 5}));
    for (const auto action : {Group::Action::Begin, Group::Action::Commit, Group::Action::Abort}) {
        const auto group = there_and_back({2, std::nullopt, Group{UINT64_MAX, action}});
        EXPECT_EQ(std::get<Group>(group.message).group, UINT64_MAX);
        EXPECT_EQ(std::get<Group>(group.message).action, action);
    }

    const auto watch = there_and_back({2, std::nullopt, Watch{5, "a/"}});
    EXPECT_EQ(std::get<Watch>(watch.message).watch, 5U);
    EXPECT_EQ(std::get<Watch>(watch.message).pattern, "a/");

    const auto list = there_and_back({2, std::nullopt, List{"a/", std::string(kMaxCursorBytes, '\0'), 10, true}});
    EXPECT_EQ(std::get<List>(list.message).pattern, "a/");
    EXPECT_EQ(std::get<List>(list.message).cursor, std::string(kMaxCursorBytes, '\0'));
    EXPECT_EQ(std::get<List>(list.message).limit, 10U);
    EXPECT_TRUE(std::get<List>(list.message).with_descriptor);
}

TEST(CodecRequestTest, NoTimeoutAndATimeoutOfZeroAreTwoThings) {
    auto request = attach();
    EXPECT_EQ(decode(request)->timeout_ms, std::nullopt);
    request.set_timeout_ms(0);
    EXPECT_EQ(decode(request)->timeout_ms, 0U);
}

TEST(CodecRequestTest, UnknownFieldsAreIgnored) {
    const std::string bytes = attach().SerializeAsString() + "\x18\x01";  // field 3 of Request: a number
    const auto decoded = decode_request(as_bytes(bytes), 0);
    ASSERT_TRUE(decoded) << decoded.error().error.message;
    EXPECT_TRUE(std::holds_alternative<Attach>(decoded->message));
}

TEST(CodecRequestTest, OfAFieldSentTwiceTheLastCounts) {
    const std::string bytes = attach().SerializeAsString() + with_id(9).SerializeAsString();
    const auto decoded = decode_request(as_bytes(bytes), 0);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->request_id, 9U);
}

TEST(CodecRequestTest, OfTwoMessagesInARequestTheLastCounts) {
    const std::string bytes = attach().SerializeAsString() + release().SerializeAsString();
    const auto decoded = decode_request(as_bytes(bytes), 0);
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(std::holds_alternative<Release>(decoded->message));
}

// ---- What nobody can be answered for --------------------------------------------------------------------------------

TEST(CodecRequestTest, WhatIsNoRequestIsAProtocolErrorWithoutAnId) {
    const std::string pickle("\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94",
                             27);
    std::string cut = publish().SerializeAsString();
    cut.pop_back();
    for (const std::string& bytes : {pickle, cut, std::string("\x08"), std::string(1000, '\xFF')}) {
        const auto decoded = decode_request(as_bytes(bytes), 0);
        ASSERT_FALSE(decoded);
        EXPECT_EQ(decoded.error().request_id, 0U);
        expect_error(decoded.error().error, Errc::Protocol, "", "no Request of hurray.broker.v1");
    }
}

TEST(CodecRequestTest, ARequestIdOfZeroIsAProtocolError) {
    auto request = attach();
    request.clear_request_id();
    const auto decoded = decode(request);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().request_id, 0U);
    expect_error(decoded.error().error, Errc::Protocol, "request_id", "start at 1");
}

TEST(CodecRequestTest, ARequestWithoutAMessageIsAProtocolErrorThatCanBeAnswered) {
    const auto decoded = decode(with_id(7));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().request_id, 7U);
    expect_error(decoded.error().error, Errc::Protocol, "", "has no message");
}

TEST(CodecRequestTest, AMessageOfANewerVersionIsUnsupportedByItsNumber) {
    // A fixed-width field and a text that the envelope may get some day, then message 40 with two bytes.
    const std::string bytes =
        with_id(7).SerializeAsString() + std::string("\x1D\x01\x02\x03\x04\x22\x01x\xC2\x02\x02\x08\x01", 13);
    const auto decoded = decode_request(as_bytes(bytes), 0);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().request_id, 7U);
    expect_error(decoded.error().error, Errc::Unsupported, "", "number 40");
}

// ---- What is refused ------------------------------------------------------------------------------------------------

/// A request that breaks one rule.
struct Bad {
    const char* name;
    std::function<pb::Request()> good;
    std::function<void(pb::Request&)> spoil;
    Errc code;
    const char* field;
    const char* words;
    std::size_t fd_count = 0;
    const char* limit_name = "";
    std::uint64_t limit = 0;
    std::uint64_t value = 0;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadRequestTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadRequestTest, IsRefusedByItsField) {
    const Bad& bad = GetParam();
    pb::Request request = bad.good();
    bad.spoil(request);
    const auto decoded = decode(request, bad.fd_count);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().request_id, 7U);
    expect_error(decoded.error().error, bad.code, bad.field, bad.words);
    EXPECT_EQ(decoded.error().error.limit_name, bad.limit_name);
    EXPECT_EQ(decoded.error().error.limit, bad.limit);
    EXPECT_EQ(decoded.error().error.value, bad.value);
}

/// That what the cases start from is right, or each of them would prove nothing.
TEST(BadRequestCases, StartFromGoodRequests) {
    EXPECT_TRUE(decode(hello()));
    EXPECT_TRUE(decode(publish(), 1));
    EXPECT_TRUE(decode(attach()));
    EXPECT_TRUE(decode(release()));
}

pb::Request bare() { return with_id(7); }

void claim_in(pb::Request& request, std::uint64_t lease, pb::Claims::State state) {
    pb::Claims::Claim* claim = request.mutable_claims()->add_claim();
    claim->mutable_capsule()->set_id(kId);
    claim->set_lease(lease);
    claim->set_state(state);
}

const auto name_of_case = [](const auto& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Hello, BadRequestTest,
    ::testing::Values(Bad{"VersionMinZero", hello, [](auto& r) { r.mutable_hello()->set_version_min(0); },
                          Errc::InvalidArgument, "hello.version_min", "start at 1"},
                      Bad{"VersionMaxZero", hello, [](auto& r) { r.mutable_hello()->set_version_max(0); },
                          Errc::InvalidArgument, "hello.version_max", "version_max 0 is below version_min 1"},
                      Bad{"VersionsCrossed", hello, [](auto& r) { r.mutable_hello()->set_version_min(3); },
                          Errc::InvalidArgument, "hello.version_max", "version_max 1 is below version_min 3"},
                      Bad{"SessionMissing", hello, [](auto& r) { r.mutable_hello()->clear_session(); },
                          Errc::InvalidArgument, "hello.session", "16 bytes, not 0"},
                      Bad{"SessionTooLong", hello, [](auto& r) { r.mutable_hello()->set_session(kId + "x"); },
                          Errc::InvalidArgument, "hello.session", "16 bytes, not 17"},
                      Bad{"ClientNameTooLong", hello,
                          [](auto& r) { r.mutable_hello()->set_client_name(std::string(65, 'n')); }, Errc::Limit,
                          "hello.client_name", "has 65 bytes; at most 64", 0, "client_name_bytes", 64, 65},
                      Bad{"ClientNameNotUtf8", hello, [](auto& r) { r.mutable_hello()->set_client_name("a\xFF"); },
                          Errc::InvalidArgument, "hello.client_name", "not UTF-8: byte 0xFF at position 1"},
                      Bad{"ClientNameWithEscape", hello, [](auto& r) { r.mutable_hello()->set_client_name("\x1b[2J"); },
                          Errc::InvalidArgument, "hello.client_name", "U+001B"},
                      Bad{"LastInstanceTooShort", hello, [](auto& r) { r.mutable_hello()->set_last_instance("x"); },
                          Errc::InvalidArgument, "hello.last_instance", "16 bytes, not 1"},
                      Bad{"WithADescriptor", hello, [](auto&) {}, Errc::InvalidArgument, "hello",
                          "hello carries no descriptors, but 1 came", 1}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Publish, BadRequestTest,
    ::testing::Values(
        Bad{"CapsuleMissing", publish, [](auto& r) { r.mutable_publish()->clear_capsule(); }, Errc::InvalidArgument,
            "publish.capsule", "16 bytes, not 0", 1},
        Bad{"CapsuleTooShort", publish, [](auto& r) { r.mutable_publish()->set_capsule("123456789012345"); },
            Errc::InvalidArgument, "publish.capsule", "16 bytes, not 15", 1},
        Bad{"BadName", publish, [](auto& r) { r.mutable_publish()->set_name("a//b"); }, Errc::InvalidArgument,
            "publish.name", "empty segment", 1},
        Bad{"NameTooLong", publish, [](auto& r) { r.mutable_publish()->set_name(std::string(256, 'n')); }, Errc::Limit,
            "publish.name", "256 bytes", 1, "name_bytes", 255, 256},
        Bad{"DescriptorTooLong", publish,
            [](auto& r) { r.mutable_publish()->set_descriptor(std::string(32 * 1024 + 1, 'd')); }, Errc::Limit,
            "publish.descriptor", "32769 bytes; at most 32768", 1, "descriptor_bytes", 32768, 32769},
        Bad{"MemoryMissing", publish, [](auto& r) { r.mutable_publish()->mutable_segments(1)->clear_memory(); },
            Errc::InvalidArgument, "publish.segments[1].memory", "kind 0 is not known", 1},
        Bad{"MemoryUnknown", publish,
            [](auto& r) { r.mutable_publish()->mutable_segments(1)->set_memory(static_cast<pb::Memory>(7)); },
            Errc::InvalidArgument, "publish.segments[1].memory", "kind 7 is not known", 1},
        Bad{"MemoryNegative", publish,
            [](auto& r) { r.mutable_publish()->mutable_segments(1)->set_memory(static_cast<pb::Memory>(-1)); },
            Errc::InvalidArgument, "publish.segments[1].memory", "kind -1 is not known", 1},
        Bad{"MemoryKnownButForItsLowByte", publish,
            [](auto& r) { r.mutable_publish()->mutable_segments(1)->set_memory(static_cast<pb::Memory>(257)); },
            Errc::InvalidArgument, "publish.segments[1].memory", "kind 257 is not known", 1},
        Bad{"SegmentOfNoBytes", publish, [](auto& r) { r.mutable_publish()->mutable_segments(0)->set_size(0); },
            Errc::InvalidArgument, "publish.segments[0].size", "0 bytes", 1},
        Bad{"SameNumberTwice", publish, [](auto& r) { r.mutable_publish()->mutable_segments(1)->set_number(1); },
            Errc::InvalidArgument, "publish.segments[1].number", "number 1 is used twice", 1},
        Bad{"SameNumberTwiceFarApart", publish,
            [](auto& r) {
                add_segment(r.mutable_publish(), 9, false);
                add_segment(r.mutable_publish(), 5, false);
                add_segment(r.mutable_publish(), 2, false);
            },
            Errc::InvalidArgument, "publish.segments[4].number", "number 2 is used twice", 1},
        Bad{"TooManySegments", publish,
            [](auto& r) {
                for (std::uint64_t i = 3; i <= 254; ++i) {
                    add_segment(r.mutable_publish(), i, true);
                }
            },
            Errc::Limit, "publish.segments", "254 segments; at most 253 are allowed: let several buffers share", 253,
            "segments", 253, 254},
        Bad{"TooManyPlacements", publish,
            [](auto& r) {
                while (r.publish().placements_size() < 256) {
                    r.mutable_publish()->add_placements();
                }
            },
            Errc::Limit, "publish.placements", "256 placements; at most 255", 1, "buffers", 255, 256},
        Bad{"ModeWithExecute", publish, [](auto& r) { r.mutable_publish()->mutable_access()->set_mode(0750); },
            Errc::InvalidArgument, "publish.access.mode", "the mode is 0750", 1},
        Bad{"ModeWithMoreThanADigitHas", publish,
            [](auto& r) { r.mutable_publish()->mutable_access()->set_mode(01000); }, Errc::InvalidArgument,
            "publish.access.mode", "the mode is 01000; it may grant reading and writing", 1},
        Bad{"DescriptorMissing", publish, [](auto&) {}, Errc::InvalidArgument, "publish.segments",
            "1 segments carry a descriptor, but 0 descriptors came", 0},
        Bad{"DescriptorTooMany", publish, [](auto&) {}, Errc::InvalidArgument, "publish.segments",
            "1 segments carry a descriptor, but 2 descriptors came", 2}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    OfferedAgain, BadRequestTest,
    ::testing::Values(Bad{"VersionTooHigh", publish, [](auto& r) { r.mutable_publish()->set_version(kMaxVersion + 1); },
                          Errc::InvalidArgument, "publish.version", "9223372036854775808 is above 9223372036854775807",
                          1},
                      Bad{"RetiredWithoutItsVersion", publish, [](auto& r) { r.mutable_publish()->set_retired(true); },
                          Errc::InvalidArgument, "publish.retired", "only a capsule that is offered again", 1},
                      Bad{"InAGroup", publish,
                          [](auto& r) {
                              r.mutable_publish()->set_version(1);
                              r.mutable_publish()->set_group(1);
                          },
                          Errc::InvalidArgument, "publish.group", "is in no group", 1},
                      Bad{"WithoutADescriptor", publish,
                          [](auto& r) {
                              r.mutable_publish()->set_version(1);
                              r.mutable_publish()->mutable_segments(0)->set_carries_fd(false);
                              r.mutable_publish()->mutable_segments(1)->set_carries_fd(false);
                          },
                          Errc::InvalidArgument, "publish.segments[0].carries_fd", "descriptor of each", 0}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Claims, BadRequestTest,
    ::testing::Values(Bad{"OfNothing", bare, [](auto& r) { r.mutable_claims(); }, Errc::InvalidArgument, "claims.claim",
                          "no lease is named"},
                      Bad{"WithoutACapsule", bare, [](auto& r) { r.mutable_claims()->add_claim()->set_lease(1); },
                          Errc::InvalidArgument, "claims.claim[0].capsule.id", "16 bytes, not 0"},
                      Bad{"OfLeaseZero", bare, [](auto& r) { claim_in(r, 0, pb::Claims::HELD); }, Errc::InvalidArgument,
                          "claims.claim[0].lease", "start at 1"},
                      Bad{"WithoutAState", bare, [](auto& r) { claim_in(r, 1, pb::Claims::STATE_INVALID); },
                          Errc::InvalidArgument, "claims.claim[0].state", "state 0 is not known"},
                      Bad{"OfAnUnknownState", bare, [](auto& r) { claim_in(r, 1, static_cast<pb::Claims::State>(4)); },
                          Errc::InvalidArgument, "claims.claim[0].state", "state 4 is not known"},
                      Bad{"TooMany", bare,
                          [](auto& r) {
                              for (std::size_t i = 0; i <= kMaxClaims; ++i) {
                                  claim_in(r, 1 + i, pb::Claims::RELEASED);
                              }
                          },
                          Errc::InvalidArgument, "claims.claim", "more than 1024 claims"}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    PublishNotYet, BadRequestTest,
    ::testing::Values(
        Bad{"GpuLegacy", publish, [](auto& r) { r.mutable_publish()->mutable_segments(1)->set_memory(pb::GPU_LEGACY); },
            Errc::Unsupported, "publish.segments[1].memory", "not supported yet", 1},
        Bad{"GpuVmm", publish, [](auto& r) { r.mutable_publish()->mutable_segments(0)->set_memory(pb::GPU_VMM); },
            Errc::Unsupported, "publish.segments[0].memory", "not supported yet", 1},
        Bad{"GpuPool", publish, [](auto& r) { r.mutable_publish()->mutable_segments(0)->set_memory(pb::GPU_POOL); },
            Errc::Unsupported, "publish.segments[0].memory", "not supported yet", 1}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Attach, BadRequestTest,
    ::testing::Values(Bad{"LeaseZero", attach, [](auto& r) { r.mutable_attach()->set_lease(0); }, Errc::InvalidArgument,
                          "attach.lease", "start at 1"},
                      Bad{"NeitherNameNorCapsule", attach, [](auto& r) { r.mutable_attach()->clear_what(); },
                          Errc::InvalidArgument, "attach", "neither name nor capsule"},
                      Bad{"EmptyName", attach, [](auto& r) { r.mutable_attach()->set_name(""); }, Errc::InvalidArgument,
                          "attach.name", "empty"},
                      Bad{"NameIsAPrefix", attach, [](auto& r) { r.mutable_attach()->set_name("a/"); },
                          Errc::InvalidArgument, "attach.name", "empty segment"},
                      Bad{"CapsuleWithoutId", attach,
                          [](auto& r) { r.mutable_attach()->mutable_capsule()->set_uid(1); }, Errc::InvalidArgument,
                          "attach.capsule.id", "16 bytes, not 0"},
                      Bad{"VersionAndNewerThan", attach,
                          [](auto& r) {
                              r.mutable_attach()->set_version(4);
                              r.mutable_attach()->set_newer_than(3);
                          },
                          Errc::InvalidArgument, "attach.newer_than", "version 4 and newer_than 3 are both given"},
                      Bad{"TakeOfAVersion", attach,
                          [](auto& r) {
                              r.mutable_attach()->set_take(true);
                              r.mutable_attach()->set_version(1);
                          },
                          Errc::InvalidArgument, "attach.take", "the oldest there is"},
                      Bad{"TakeOfANewerOne", attach,
                          [](auto& r) {
                              r.mutable_attach()->set_take(true);
                              r.mutable_attach()->set_newer_than(1);
                          },
                          Errc::InvalidArgument, "attach.take", "the oldest there is"},
                      Bad{"TakeAfterOneThatWasSeen", attach,
                          [](auto& r) {
                              r.mutable_attach()->set_take(true);
                              r.mutable_attach()->set_last_seen(1);
                          },
                          Errc::InvalidArgument, "attach.take", "the oldest there is"},
                      Bad{"WithDescriptors", attach, [](auto&) {}, Errc::InvalidArgument, "attach",
                          "attach carries no descriptors, but 5 came", 5}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Others, BadRequestTest,
    ::testing::Values(
        Bad{"ReleaseOfNothing", release, [](auto& r) { r.mutable_release()->clear_lease(); }, Errc::InvalidArgument,
            "release.lease", "no lease"},
        Bad{"ReleaseOfLeaseZero", release, [](auto& r) { r.mutable_release()->add_lease(0); }, Errc::InvalidArgument,
            "release.lease[1]", "start at 1"},
        Bad{"ReleaseOfTooMany", release,
            [](auto& r) {
                while (r.release().lease_size() < 4097) {
                    r.mutable_release()->add_lease(1);
                }
            },
            Errc::Limit, "release.lease", "4097 leases; at most 4096", 0, "release_leases", 4096, 4097},
        Bad{"ReleaseWithADescriptor", release, [](auto&) {}, Errc::InvalidArgument, "release", "but 1 came", 1},
        Bad{"ReserveZero", bare, [](auto& r) { r.mutable_reserve()->set_bytes(1); }, Errc::InvalidArgument,
            "reserve.reservation", "start at 1"},
        Bad{"ReserveOfNothing", bare, [](auto& r) { r.mutable_reserve()->set_reservation(1); }, Errc::InvalidArgument,
            "reserve.bytes", "0 bytes"},
        Bad{"ReserveOfMoreThanAFileHas", bare,
            [](auto& r) {
                r.mutable_reserve()->set_reservation(1);
                r.mutable_reserve()->set_bytes(kMaxFileBytes + 1);
            },
            Errc::InvalidArgument, "reserve.bytes", "at most 9223372036854775807"},
        Bad{"UnreserveZero", bare, [](auto& r) { r.mutable_unreserve(); }, Errc::InvalidArgument,
            "unreserve.reservation", "start at 1"},
        Bad{"ForgetOfNothing", bare, [](auto& r) { r.mutable_forget(); }, Errc::InvalidArgument, "forget.segment",
            "no segment"},
        Bad{"ForgetOfTooMany", bare,
            [](auto& r) {
                while (r.forget().segment_size() < 4097) {
                    r.mutable_forget()->add_segment(1);
                }
            },
            Errc::Limit, "forget.segment", "4097 segments; at most 4096", 0, "forget_segments", 4096, 4097},
        Bad{"DropOfNothing", bare, [](auto& r) { r.mutable_drop(); }, Errc::InvalidArgument, "drop.segment",
            "no segment"},
        Bad{"DropOfTooMany", bare,
            [](auto& r) {
                while (r.drop().segment_size() < 4097) {
                    r.mutable_drop()->add_segment(1);
                }
            },
            Errc::Limit, "drop.segment", "4097 segments; at most 4096", 0, "drop_segments", 4096, 4097},
        Bad{"CancelOfNothing", bare, [](auto& r) { r.mutable_cancel(); }, Errc::InvalidArgument, "cancel.request_id",
            "start at 1"},
        Bad{"WithdrawOfNothing", bare, [](auto& r) { r.mutable_withdraw(); }, Errc::InvalidArgument,
            "withdraw.capsule.id", "16 bytes, not 0"},
        Bad{"ListOfABadPattern", bare, [](auto& r) { r.mutable_list()->set_pattern("/"); }, Errc::InvalidArgument,
            "list.pattern", "no prefix"},
        Bad{"ListCursorTooLong", bare, [](auto& r) { r.mutable_list()->set_cursor(std::string(1025, 'c')); },
            Errc::Limit, "list.cursor", "1025 bytes; at most 1024", 0, "cursor_bytes", 1024, 1025},
        Bad{"WatchZero", bare, [](auto& r) { r.mutable_watch(); }, Errc::InvalidArgument, "watch.watch", "start at 1"},
        Bad{"WatchOfABadPattern", bare,
            [](auto& r) {
                r.mutable_watch()->set_watch(1);
                r.mutable_watch()->set_pattern("..");
            },
            Errc::InvalidArgument, "watch.pattern", "segment \"..\""},
        Bad{"UnwatchZero", bare, [](auto& r) { r.mutable_unwatch(); }, Errc::InvalidArgument, "unwatch.watch",
            "start at 1"},
        Bad{"GroupZero", bare, [](auto& r) { r.mutable_group()->set_action(pb::Group::BEGIN); }, Errc::InvalidArgument,
            "group.group", "start at 1"},
        Bad{"GroupWithoutAction", bare, [](auto& r) { r.mutable_group()->set_group(1); }, Errc::InvalidArgument,
            "group.action", "action 0 is not known"},
        Bad{"GroupOfAnUnknownAction", bare,
            [](auto& r) {
                r.mutable_group()->set_group(1);
                r.mutable_group()->set_action(static_cast<pb::Group::Action>(4));
            },
            Errc::InvalidArgument, "group.action", "action 4 is not known"},
        Bad{"GroupOfANegativeAction", bare,
            [](auto& r) {
                r.mutable_group()->set_group(1);
                r.mutable_group()->set_action(static_cast<pb::Group::Action>(-1));
            },
            Errc::InvalidArgument, "group.action", "action -1 is not known"},
        Bad{"GroupWithADescriptor", bare, [](auto& r) { r.mutable_group(); }, Errc::InvalidArgument, "group",
            "group carries no descriptors, but 1 came", 1},
        Bad{"StatusWithADescriptor", bare, [](auto& r) { r.mutable_status(); }, Errc::InvalidArgument, "status",
            "status carries no descriptors, but 1 came", 1}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Once, BadRequestTest,
    ::testing::Values(
        Bad{"ConfirmOfLeaseZero", bare, [](auto& r) { r.mutable_confirm(); }, Errc::InvalidArgument, "confirm.lease",
            "start at 1"},
        Bad{"ConfirmWithADescriptor", bare, [](auto& r) { r.mutable_confirm(); }, Errc::InvalidArgument, "confirm",
            "confirm carries no descriptors, but 1 came", 1},
        Bad{"TooManyRetained", publish, [](auto& r) { r.mutable_publish()->set_retain(kMaxRetain + 1); }, Errc::Limit,
            "publish.retain", "retain is 4097; at most 4096", 1, "retained_versions", 4096, 4097},
        Bad{"RetainAndOnce", publish,
            [](auto& r) {
                r.mutable_publish()->set_once(true);
                r.mutable_publish()->set_retain(2);
            },
            Errc::InvalidArgument, "publish.retain", "replaces no other", 1},
        Bad{"TakenByNobody", publish, [](auto& r) { r.mutable_publish()->mutable_taken_by(); }, Errc::InvalidArgument,
            "publish.taken_by.session_hash", "16 bytes, not 0", 1},
        Bad{"TakenByLeaseZero", publish,
            [](auto& r) { r.mutable_publish()->mutable_taken_by()->set_session_hash(std::string(16, 'h')); },
            Errc::InvalidArgument, "publish.taken_by.lease", "start at 1", 1},
        Bad{"TakenOfAFreshOne", publish,
            [](auto& r) {
                r.mutable_publish()->set_once(true);
                r.mutable_publish()->mutable_taken_by()->set_session_hash(std::string(16, 'h'));
                r.mutable_publish()->mutable_taken_by()->set_lease(1);
            },
            Errc::InvalidArgument, "publish.taken_by", "offered again", 1},
        Bad{"TakenAndNotOnce", publish,
            [](auto& r) {
                r.mutable_publish()->set_version(1);
                r.mutable_publish()->mutable_taken_by()->set_session_hash(std::string(16, 'h'));
                r.mutable_publish()->mutable_taken_by()->set_lease(1);
            },
            Errc::InvalidArgument, "publish.taken_by", "published once", 1}),
    name_of_case);

}  // namespace
}  // namespace hurray::wire
