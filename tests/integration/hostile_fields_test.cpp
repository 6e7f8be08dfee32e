#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "proto/wire/codec.hpp"
#include "tests/integration/hostile_peer.hpp"
#include "tests/support/proto_bytes.hpp"

// Every field of every request: missing, sent twice, of another type, out of range, at its limit. Each is answered by what is
// right, or by an error that names the field, the limit and the value; and the bystander is served.

namespace hurray::test {
namespace {

using namespace std::string_view_literals;

/// A value of a field and what becomes of a request with it.
struct Value {
    std::string what;
    std::string encoded;               ///< the field with its tag; empty: left out
    Errc error{};                      ///< none: answered like the good request
    std::string field{};               ///< that the error names
    std::vector<std::string> words{};  ///< that its message says: limit and value
};

/// A field of a request, with its number there.
struct Field {
    std::string name;
    std::string good;
    std::vector<Value> values;
};

struct Request {
    std::string name;
    std::uint32_t number = 0;
    std::vector<Field> fields;
    /// What is answered if nothing is wrong; none: a reply of its own, or nothing for a cancel.
    Errc good{};
    bool carries_fd = false;
};

void PrintTo(const Request& request, std::ostream* out) { *out << request.name; }

std::string number(std::uint32_t field, std::uint64_t value) { return ProtoBytes().number(field, value).encoded(); }
std::string bytes(std::uint32_t field, std::string_view value) { return ProtoBytes().bytes(field, value).encoded(); }
std::string message(std::uint32_t field, const ProtoBytes& value) {
    return ProtoBytes().message(field, value).encoded();
}

const std::string kId = "0123456789abcdef";

/// What is wrong with a name wherever one is; `field` is its path.
std::vector<Value> bad_names(std::uint32_t at, const std::string& field, bool is_pattern = false) {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    std::vector<Value> values = {
        {"..", bytes(at, "a/../b"), kInvalid, field, {"\"..\"", "position 2"}},
        {".", bytes(at, "./a"), kInvalid, field, {"\".\"", "position 0"}},
        {"empty segment", bytes(at, "a//b"), kInvalid, field, {"empty segment", "position 2"}},
        {"leading slash", bytes(at, "/a"), kInvalid, field, {"empty segment", "position 0"}},
        {"NUL", bytes(at, "a\0b"sv), kInvalid, field, {"U+0000", "position 1"}},
        {"escape", bytes(at, "a\x1b[2J"), kInvalid, field, {"U+001B"}},
        {"C1 control", bytes(at, "a\xc2\x80"), kInvalid, field, {"U+0080"}},
        {"not UTF-8", bytes(at, "a\xff"), kInvalid, field, {"0xFF", "position 1"}},
        {"overlong", bytes(at, "\xc0\xaf"), kInvalid, field, {"0xC0"}},
        {"surrogate", bytes(at, "\xed\xa0\x80"), kInvalid, field, {"0xED"}},
        {"cut off", bytes(at, "caf\xc3"), kInvalid, field, {"0xC3"}},
        {"256 bytes", bytes(at, std::string(256, 'n')), Errc::Limit, field, {"256", "255"}},
        {"60000 bytes", bytes(at, std::string(60'000, 'n')), Errc::Limit, field, {"60000", "255"}},
    };
    if (!is_pattern) {
        values.push_back({"trailing slash", bytes(at, "a/"), kInvalid, field, {"empty segment", "position 2"}});
    } else {
        values.push_back({"a slash alone", bytes(at, "/"), kInvalid, field, {"\"/\""}});
    }
    return values;
}

std::vector<Value> bad_ids(std::uint32_t at, const std::string& field,
                           const std::function<std::string(const std::string&)>& wrap) {
    const auto as = [&](std::string_view id) { return wrap(bytes(at, id)); };
    return {{"empty", as(""), Errc::InvalidArgument, field, {"16", "0"}},
            {"15 bytes", as(std::string(15, 'i')), Errc::InvalidArgument, field, {"16", "15"}},
            {"17 bytes", as(std::string(17, 'i')), Errc::InvalidArgument, field, {"16", "17"}}};
}

std::vector<Value> operator+(std::vector<Value> a, const std::vector<Value>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::string itself(const std::string& encoded) { return encoded; }

ProtoBytes segment(std::uint64_t size = 4096, std::uint64_t memory = 1, bool carries_fd = true) {
    return ProtoBytes().number(1, 5).number(2, carries_fd ? 1 : 0).number(3, memory).number(4, size);
}

ProtoBytes access(std::uint64_t gid, std::uint64_t mode) { return ProtoBytes().number(1, gid).number(2, mode); }

ProtoBytes placement(std::uint64_t index, std::uint64_t offset) {
    return ProtoBytes().number(1, index).number(2, offset);
}

Request hello() {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    return {"hello",
            10,
            {{"version_min",
              number(1, 1),
              {{"missing", "", kInvalid, "hello.version_min", {"1", "0"}},
               {"2", number(1, 2), kInvalid, "hello.version_max", {"version_max 1", "version_min 2"}}}},
             {"version_max",
              number(2, 1),
              {{"missing", "", kInvalid, "hello.version_max", {"0", "1"}},
               {"as high as can be", number(2, UINT32_MAX)},
               {"beyond 32 bits, of which the low ones count", number(2, (1ULL << 32U) + 1)}}},
             {"client_name",
              bytes(3, "raw"),
              {{"missing", ""},
               {"64 bytes", bytes(3, std::string(64, 'c'))},
               {"65 bytes", bytes(3, std::string(65, 'c')), Errc::Limit, "hello.client_name", {"64", "65"}},
               {"not UTF-8", bytes(3, "\xfe"), kInvalid, "hello.client_name", {"0xFE"}},
               {"NUL", bytes(3, "\0"sv), kInvalid, "hello.client_name", {"U+0000"}}}},
             {"session", bytes(4, kId),
              std::vector<Value>{{"missing", "", kInvalid, "hello.session", {"16", "0"}}} +
                  bad_ids(4, "hello.session", itself)},
             {"last_instance",
              "",
              {{"set", bytes(5, kId)},
               {"empty", bytes(5, "")},
               {"15 bytes", bytes(5, kId.substr(1)), kInvalid, "hello.last_instance", {"16", "15"}}}},
             {"keeps_segments", "", {{"set", number(6, 1)}, {"any number", number(6, UINT64_MAX)}}},
             {"takes_bundles", "", {{"set", number(7, 1)}, {"any number", number(7, UINT64_MAX)}}}}};
}

Request publish() {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    const std::string descriptor = make_descriptor(16);
    std::string other_length = descriptor;
    other_length[6] = 0x7f;
    const auto with = [](const ProtoBytes& each) { return message(4, each); };
    const auto placed = [](std::uint64_t index, std::uint64_t offset) { return message(5, placement(index, offset)); };
    return {
        "publish",
        11,
        {{"capsule", bytes(1, kId),
          std::vector<Value>{{"missing", "", kInvalid, "publish.capsule", {"16", "0"}}} +
              bad_ids(1, "publish.capsule", itself)},
         {"name", bytes(2, "t"),
          std::vector<Value>{{"missing", ""}, {"255 bytes", bytes(2, std::string(255, 'n'))}} +
              bad_names(2, "publish.name")},
         {"descriptor",
          bytes(3, descriptor),
          {{"missing", "", kInvalid, "publish.descriptor.descriptor_length", {"0 bytes"}},
           {"cut off", bytes(3, descriptor.substr(0, 20)), kInvalid, "publish.descriptor.shape"},
           {"longer than it says", bytes(3, descriptor + "x"), kInvalid, "publish.descriptor"},
           {"other magic", bytes(3, "hrry" + descriptor.substr(4)), kInvalid, "publish.descriptor.magic"},
           {"says another length", bytes(3, other_length), kInvalid, "publish.descriptor.descriptor_length"},
           {"at the limit, nonsense", bytes(3, std::string(32'768, 'd')), kInvalid, "publish.descriptor.magic"},
           {"over it", bytes(3, std::string(32'769, 'd')), Errc::Limit, "publish.descriptor", {"32768", "32769"}}}},
         {"segments",
          with(segment()),
          {{"missing", "", kInvalid, "publish.segments", {"0 segments", "1 descriptors"}},
           {"without its descriptor", with(segment(4096, 1, false)), kInvalid, "publish.segments", {"0", "1"}},
           {"memory missing", with(segment(4096, 0)), kInvalid, "publish.segments[0].memory", {"0"}},
           {"memory unknown", with(segment(4096, 77)), kInvalid, "publish.segments[0].memory", {"77"}},
           {"immutable", with(segment(4096, 2)), kInvalid, "publish.segments[0]", {"WRITE missing"}},
           {"dma-buf", with(segment(4096, 3)), kInvalid, "publish.segments[0]", {"not a dma-buf but a memfd"}},
           {"GPU", with(segment(4096, 5)), Errc::Unsupported, "publish.segments[0].memory"},
           {"size missing", with(segment(0)), kInvalid, "publish.segments[0].size", {"0"}},
           {"smaller than it is", with(segment(4095)), kInvalid, "publish.segments[0].size", {"4096", "4095"}},
           {"larger than it is", with(segment(4097)), kInvalid, "publish.segments[0].size", {"4096", "4097"}},
           {"as large as can be",
            with(segment(UINT64_MAX)),
            kInvalid,
            "publish.segments[0].size",
            {"18446744073709551615"}},
           {"reserved by nobody",
            with(segment().number(5, 1)),
            Errc::NotFound,
            "publish.segments[0].reservation",
            {"1"}},
           {"another number, as high as can be", with(segment().number(1, UINT64_MAX))},
           {"two with one number",
            with(segment()) + with(segment(4096, 1, false)),
            kInvalid,
            "publish.segments[1].number",
            {"5", "twice"}},
           {"one that no buffer uses", with(segment()) + with(segment(4096, 1, false).number(1, 6)), kInvalid,
            "publish.segments[1]"}}},
         {"placements",
          placed(0, 0),
          {{"missing", "", kInvalid, "publish.placements", {"0 placements", "1 buffers"}},
           {"one too many", placed(0, 0) + placed(0, 64), kInvalid, "publish.placements", {"2", "1"}},
           {"256",
            [&] {
                std::string all;
                for (int i = 0; i < 256; ++i) {
                    all += placed(0, 0);
                }
                return all;
            }(),
            Errc::Limit,
            "publish.placements",
            {"256", "255"}},
           {"segment that is not there", placed(1, 0), kInvalid, "publish.placements[0].segment", {"1"}},
           {"segment, the highest", placed(UINT32_MAX, 0), kInvalid, "publish.placements[0].segment", {"4294967295"}},
           {"the last place", placed(0, 4096 - 64)},
           {"one past it", placed(0, 4096), kInvalid, "publish.placements[0].offset", {"4096", "64"}},
           {"across the end", placed(0, 4096 - 32), kInvalid, "publish.placements[0].offset", {"4064", "4096"}},
           {"unaligned", placed(0, 1), kInvalid, "publish.placements[0].offset", {"1", "64"}},
           {"that wraps",
            placed(0, UINT64_MAX - 63),
            kInvalid,
            "publish.placements[0].offset",
            {"18446744073709551552"}},
           {"with the highest bit", placed(0, 1ULL << 63U), kInvalid, "publish.placements[0].offset"}}},
         {"access",
          "",
          {{"nothing to anybody", message(6, access(UINT32_MAX, 0))},
           {"everything to everybody", message(6, access(UINT32_MAX, 0666))},
           {"execute", message(6, access(UINT32_MAX, 0601)), kInvalid, "publish.access.mode", {"0601", "0666"}},
           {"set-user-id", message(6, access(UINT32_MAX, 04600)), kInvalid, "publish.access.mode", {"04600"}},
           {"the highest mode",
            message(6, access(UINT32_MAX, UINT32_MAX)),
            kInvalid,
            "publish.access.mode",
            {"037777777777"}}}},
         {"retain",
          "",
          {{"0", number(7, 0)},
           {"4096", number(7, 4096)},
           {"4097", number(7, 4097), Errc::Limit, "publish.retain", {"4097", "4096"}},
           {"the highest", number(7, UINT64_MAX), Errc::Limit, "publish.retain", {"18446744073709551615", "4096"}},
           {"of what is taken once", number(7, 2) + number(8, 1), kInvalid, "publish.retain"}}},
         {"once", "", {{"false", number(8, 0)}}},
         // Each stays for a moment, so it is a capsule of its own.
         {"linger_ms",
          "",
          {{"1", number(9, 1) + bytes(1, std::string(16, 'l')) + bytes(2, "lingers")},
           {"0, then 1", number(9, 0) + number(9, 1) + bytes(1, std::string(16, 'm')) + bytes(2, "lingers too")}}},
         {"group",
          "",
          {{"0", number(10, 0)},
           {"that is not open", number(10, 77), Errc::NotFound, "publish.group", {"77"}},
           {"the highest", number(10, UINT64_MAX), Errc::NotFound, "publish.group", {"18446744073709551615"}}}},
         {"version",
          "",
          {{"above the highest", number(11, UINT64_MAX), kInvalid, "publish.version", {"18446744073709551615"}},
           {"in a group", number(11, 1) + number(10, 77), kInvalid, "publish.group"}}},
         {"retired", "", {{"without its version", number(12, 1), kInvalid, "publish.retired"}}},
         {"taken_by",
          "",
          {{"empty", message(13, ProtoBytes()), kInvalid, "publish.taken_by.session_hash", {"16", "0"}},
           {"without a lease", message(13, ProtoBytes().bytes(2, kId)), kInvalid, "publish.taken_by.lease", {"0", "1"}},
           {"of a fresh one", number(8, 1) + message(13, ProtoBytes().bytes(2, kId).number(3, 1)), kInvalid,
            "publish.taken_by"}}}},
        {},
        true};
}

Request attach() {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    const auto capsule = [](const std::string& id) { return message(3, ProtoBytes().number(1, 1).add(id)); };
    return {
        "attach",
        12,
        {{"lease",
          number(1, 7),
          {{"missing", "", kInvalid, "attach.lease", {"0", "1"}},
           {"0", number(1, 0), kInvalid, "attach.lease", {"0", "1"}},
           {"the highest", number(1, UINT64_MAX), Errc::NotFound, "attach.name"}}},
         {"what", bytes(2, "nobody's"),
          std::vector<Value>{{"missing", "", kInvalid, "attach"},
                             {"empty", bytes(2, ""), kInvalid, "attach.name", {"empty"}},
                             {"255 bytes", bytes(2, std::string(255, 'n')), Errc::NotFound, "attach.name"},
                             {"a capsule that is not there", capsule(bytes(2, kId)), Errc::NotFound, "attach.capsule"},
                             {"a capsule without id", capsule(""), kInvalid, "attach.capsule.id", {"16", "0"}}} +
              bad_names(2, "attach.name") + bad_ids(2, "attach.capsule.id", capsule)},
         {"version",
          "",
          {{"of the future", number(4, UINT64_MAX), Errc::NotFound, "attach.name"},
           {"of the past", number(4, 1), Errc::NotFound, "attach.name"},
           {"beside newer_than", number(4, 17) + number(5, 18), kInvalid, "attach.newer_than", {"17", "18"}}}},
         {"newer_than", "", {{"the highest", number(5, UINT64_MAX), Errc::NotFound, "attach.name"}}},
         {"last_seen", "", {{"the highest", number(6, UINT64_MAX), Errc::NotFound, "attach.name"}}},
         {"immutable_only", "", {{"set", number(7, 1), Errc::NotFound, "attach.name"}}},
         {"allow_unsealed", "", {{"set", number(8, 1), Errc::NotFound, "attach.name"}}},
         {"take", "", {{"set", number(9, 1)}, {"with version", number(9, 1) + number(4, 1), kInvalid, "attach.take"}}}},
        Errc::NotFound};
}

std::string many_numbers(std::uint64_t count) {
    std::string packed;
    for (std::uint64_t each = 1; each <= count; ++each) {
        packed += number(1, each);
    }
    return packed;
}

Request claims() {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    const auto claim = [](const std::string& id, std::uint64_t lease, std::uint64_t state) {
        return message(1, ProtoBytes()
                              .add(id.empty() ? "" : message(1, ProtoBytes().number(1, 1).add(id)))
                              .number(2, lease)
                              .number(3, state));
    };
    const std::string id = bytes(2, kId);
    std::string many;
    for (std::uint64_t lease = 1; lease <= 1024; ++lease) {
        many += claim(id, lease, 2);
    }
    return {"claims",
            26,
            {{"claim",
              claim(id, 7, 1),
              {{"missing", "", kInvalid, "claims.claim"},
               {"released", claim(id, 7, 2)},
               {"confirmed", claim(id, 7, 3)},
               {"unknown state", claim(id, 7, 4), kInvalid, "claims.claim[0].state", {"4"}},
               {"no state", claim(id, 7, 0), kInvalid, "claims.claim[0].state", {"0"}},
               {"no capsule", claim("", 7, 1), kInvalid, "claims.claim[0].capsule.id", {"16", "0"}},
               {"short id", claim(bytes(2, "x"), 7, 1), kInvalid, "claims.claim[0].capsule.id", {"16", "1"}},
               {"lease 0", claim(id, 7, 1) + claim(id, 0, 1), kInvalid, "claims.claim[1].lease", {"0"}},
               {"1024", many},
               {"1025", many + claim(id, 7, 1), kInvalid, "claims.claim", {"1024"}}}}}};
}

std::vector<Request> all_requests() {
    constexpr Errc kInvalid = Errc::InvalidArgument;
    const auto capsule = [](const std::string& id) { return message(1, ProtoBytes().number(1, 1).add(id)); };
    return {
        hello(),
        publish(),
        attach(),
        {"release",
         13,
         {{"lease",
           number(1, 7),
           {{"missing", "", kInvalid, "release.lease"},
            {"0", number(1, 0), kInvalid, "release.lease[0]", {"0", "1"}},
            {"0 behind others", number(1, 1) + number(1, 0), kInvalid, "release.lease[1]", {"0", "1"}},
            {"4096", many_numbers(4096)},
            {"4097", many_numbers(4097), Errc::Limit, "release.lease", {"4096", "4097"}}}}}},
        {"cancel",
         14,
         {{"request_id",
           number(1, 7),
           {{"missing", "", kInvalid, "cancel.request_id", {"0", "1"}}, {"the highest", number(1, UINT64_MAX)}}}}},
        {"withdraw",
         15,
         {{"capsule", capsule(bytes(2, kId)),
           std::vector<Value>{{"missing", "", kInvalid, "withdraw.capsule.id", {"16", "0"}}} +
               bad_ids(2, "withdraw.capsule.id", capsule)}},
         Errc::NotFound},
        {"list",
         16,
         {{"pattern", bytes(1, "nobody's/"),
           std::vector<Value>{{"missing", ""}, {"255 bytes", bytes(1, std::string(254, 'n') + '/')}} +
               bad_names(1, "list.pattern", true)},
          {"cursor",
           "",
           {{"too short for one", bytes(2, "x"), kInvalid, "list.cursor"},
            {"none of ours", bytes(2, std::string(400, 'x')), kInvalid, "list.cursor"},
            {"1025 bytes", bytes(2, std::string(1025, 'x')), Errc::Limit, "list.cursor", {"1024", "1025"}}}},
          {"limit", "", {{"the highest", number(3, UINT32_MAX)}}}}},
        {"watch",
         17,
         {{"watch",
           number(1, 1),
           {{"missing", "", kInvalid, "watch.watch", {"0", "1"}}, {"the highest", number(1, UINT64_MAX)}}},
          {"pattern", bytes(2, "nobody's/"),
           std::vector<Value>{{"missing", ""}} + bad_names(2, "watch.pattern", true)}}},
        {"unwatch", 18, {{"watch", number(1, 1), {{"missing", "", kInvalid, "unwatch.watch", {"0", "1"}}}}}},
        {"status", 19, {}},
        {"reserve",
         20,
         {{"reservation",
           number(1, 1),
           {{"missing", "", kInvalid, "reserve.reservation", {"0", "1"}}, {"the highest", number(1, UINT64_MAX)}}},
          {"bytes",
           number(2, 4096),
           {{"missing", "", kInvalid, "reserve.bytes", {"0"}}, {"more than there is", number(2, 1ULL << 62U)}}}}},
        {"unreserve",
         21,
         {{"reservation", number(1, 1), {{"missing", "", kInvalid, "unreserve.reservation", {"0", "1"}}}}}},
        {"forget",
         22,
         {{"segment",
           number(1, 7),
           {{"missing", "", kInvalid, "forget.segment"},
            {"0", number(1, 0)},
            {"4096", many_numbers(4096)},
            {"4097", many_numbers(4097), Errc::Limit, "forget.segment", {"4096", "4097"}}}}}},
        {"drop",
         23,
         {{"segment",
           number(1, 7),
           {{"missing", "", kInvalid, "drop.segment"},
            {"0", number(1, 0)},
            {"4096", many_numbers(4096)},
            {"4097", many_numbers(4097), Errc::Limit, "drop.segment", {"4096", "4097"}}}}}},
        {"group",
         25,
         {{"group",
           number(1, 77),
           {{"missing", "", kInvalid, "group.group", {"0", "1"}},
            {"0", number(1, 0), kInvalid, "group.group", {"0", "1"}},
            {"the highest", number(1, UINT64_MAX)}}},
          {"action",
           number(2, 1),
           {{"missing", "", kInvalid, "group.action", {"0"}},
            {"commit of none", number(2, 2), Errc::NotFound, "group.group", {"77"}},
            {"abort of none", number(2, 3), Errc::NotFound, "group.group", {"77"}},
            {"unknown", number(2, 4), kInvalid, "group.action", {"4"}},
            {"the highest", number(2, UINT64_MAX), kInvalid, "group.action"}}}}},
        {"confirm",
         24,
         {{"lease",
           number(1, 7),
           {{"missing", "", kInvalid, "confirm.lease", {"0", "1"}},
            {"the highest", number(1, UINT64_MAX), Errc::NotFound, "confirm.lease", {"18446744073709551615"}}}}},
         Errc::NotFound},
        claims(),
        {"resume_done", 27, {{"unknown", "", {{"a field", number(1, 1)}}}}},
    };
}

class HostileFields : public HostilePeer, public testing::WithParamInterface<Request> {
  protected:
    const Request& request = GetParam();
    UniqueFd memfd = make_memfd();

    /// The request with one field written in another way. Empty name: as it should be.
    [[nodiscard]] std::string with(const std::string& name, const std::string& encoded) const {
        ProtoBytes fields;
        for (const Field& field : request.fields) {
            fields.add(field.name == name ? encoded : field.good);
        }
        return ProtoBytes().number(1, kRequestId).number(2, 0).message(request.number, fields).encoded();
    }

    /// What somebody new who sends that is answered: an error, or none.
    Error answer(const std::string& packet, std::vector<int> fds) {
        RawPeer p = request.name == "hello" ? RawPeer(daemon.socket_path()) : peer();
        p.send_raw(packet, fds);
        if (request.name == "cancel") {  // which has no reply
            p.send_raw(ProtoBytes().number(1, kRequestId + 1).message(19, ProtoBytes()).encoded());
        }
        Incoming incoming = p.receive();
        if (auto* error = std::get_if<Error>(&incoming.packet.message)) {
            EXPECT_EQ(incoming.packet.request_id, kRequestId);
            if (request.name == "hello") {
                EXPECT_TRUE(p.at_end());
            } else {  // the connection goes on
                p.send_raw(ProtoBytes().number(1, kRequestId + 2).message(19, ProtoBytes()).encoded());
                if (request.name == "cancel") {
                    p.next<wire::StatusReply>(kRequestId + 1);
                }
                p.next<wire::StatusReply>(kRequestId + 2);
            }
            return *error;
        }
        return {Errc{}, {}};
    }
    std::vector<int> due_fds() const { return request.carries_fd ? std::vector{memfd.get()} : std::vector<int>{}; }

    void expect_answer(const Value& value, const std::string& packet) {
        const Error error = answer(packet, due_fds());
        const Errc wanted = value.error == Errc{} ? request.good : value.error;
        EXPECT_EQ(error.code, wanted) << error.field << ": " << error.message;
        if (value.error == Errc{}) {
            return;
        }
        EXPECT_EQ(error.field, value.field) << error.message;
        EXPECT_FALSE(error.message.empty());
        for (const std::string& word : value.words) {
            EXPECT_NE(error.message.find(word), std::string::npos) << word << " in: " << error.message;
        }
        if (error.code == Errc::Limit) {
            EXPECT_FALSE(error.limit_name.empty());
            EXPECT_GT(error.limit, 0u);
            EXPECT_GT(error.value, error.limit);
        }
    }

    static constexpr std::uint64_t kRequestId = 41;
};

// case G7: each request there is, with each of its fields
TEST_P(HostileFields, AsItShouldBe) { EXPECT_EQ(answer(with("", ""), due_fds()).code, request.good); }

TEST_P(HostileFields, MissingOutOfRangeOrAtItsLimit) {
    for (const Field& field : request.fields) {
        for (const Value& value : field.values) {
            SCOPED_TRACE(request.name + "." + field.name + " " + value.what);
            expect_answer(value, with(field.name, value.encoded));
            bystander->check();
        }
    }
}

TEST_P(HostileFields, SentTwiceTheLastOneCounts) {
    for (const Field& field : request.fields) {
        const bool is_list = field.name == "segments" || field.name == "placements" || field.name == "lease" ||
                             field.name == "segment" || field.name == "claim";
        if (is_list && request.name != "attach") {
            continue;
        }
        for (const Value& value : field.values) {
            if (value.encoded.empty() || field.good.empty()) {
                continue;
            }
            SCOPED_TRACE(request.name + "." + field.name + " " + value.what);
            expect_answer({"good", {}}, with(field.name, value.encoded + field.good));
            expect_answer(value, with(field.name, field.good + value.encoded));
        }
    }
}

TEST_P(HostileFields, OfAnotherTypeItIsAsIfItWasMissing) {
    for (const Field& field : request.fields) {
        if (field.good.empty() || field.values.empty() || !field.values.front().encoded.empty()) {
            continue;
        }
        const Value& missing = field.values.front();
        const std::uint32_t at = static_cast<unsigned char>(field.good[0]) >> 3U;
        const bool is_number = (static_cast<unsigned char>(field.good[0]) & 7U) == 0;
        SCOPED_TRACE(request.name + "." + field.name);
        // A list of numbers may come packed: as bytes.
        const std::string other = is_number ? ProtoBytes().bytes(at, "").encoded() : number(at, 1);
        expect_answer(missing, with(field.name, other));
    }
}

TEST_P(HostileFields, UnknownFieldsAreIgnored) {
    std::string packet = with("", "");
    packet += number(9, 1) + bytes(8, "from the future");
    EXPECT_EQ(answer(packet, due_fds()).code, request.good);
    ProtoBytes fields;
    for (const Field& field : request.fields) {
        fields.add(field.good);
    }
    fields.number(1000, 1).bytes(1001, "more of it");
    EXPECT_EQ(
        answer(ProtoBytes().number(1, kRequestId).number(2, 0).message(request.number, fields).encoded(), due_fds())
            .code,
        request.good);
}

TEST_P(HostileFields, WrongNumberOfDescriptorsIsRefusedByName) {
    std::vector<int> fds = due_fds();
    const std::string name = request.carries_fd ? request.name + ".segments" : request.name;
    const auto expect_refused = [&](std::size_t count) {
        SCOPED_TRACE(count);
        const Error error = answer(with("", ""), fds);
        EXPECT_EQ(error.code, Errc::InvalidArgument);
        EXPECT_EQ(error.field, name);
        EXPECT_NE(error.message.find(std::to_string(count)), std::string::npos) << error.message;
    };
    if (request.carries_fd) {
        fds.clear();
        expect_refused(0);
        fds = due_fds();
    }
    fds.push_back(memfd.get());
    expect_refused(fds.size());
    fds.assign(wire::kMaxPacketFds, memfd.get());
    expect_refused(fds.size());
    bystander->check();
}

// A shorter packet is another request, or none; never the daemon's end, and never believed beyond what is there.
TEST_P(HostileFields, CutOffAnywhereItIsRefusedOrAnswered) {
    const std::string whole = with("", "");
    const std::size_t step = whole.size() / 64 + 1;
    for (std::size_t length = 1; length < whole.size(); length += step) {
        SCOPED_TRACE(length);
        RawPeer p = request.name == "hello" ? RawPeer(daemon.socket_path()) : peer();
        p.send_raw(std::string_view(whole).substr(0, length), due_fds());
        const Incoming incoming = p.receive();
        const auto* error = std::get_if<Error>(&incoming.packet.message);
        const auto* closing = std::get_if<wire::Closing>(&incoming.packet.message);
        ASSERT_TRUE(error != nullptr || closing != nullptr) << describe(incoming.packet);
        EXPECT_FALSE((error != nullptr ? error->message : closing->error.message).empty());
    }
    bystander->check();
}

INSTANTIATE_TEST_SUITE_P(Of, HostileFields, testing::ValuesIn(all_requests()),
                         [](const testing::TestParamInfo<Request>& info) { return info.param.name; });

}  // namespace
}  // namespace hurray::test
