#include "daemon/store/files.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "hurray/store/v1/store.pb.h"
#include "libhurray/container/crc32c.hpp"
#include "proto/wire/codec.hpp"
#include "proto/wire/fields.hpp"
#include "proto/wire/parts.hpp"

namespace hurrayd::store {
namespace {

using hurray::Errc;
using hurray::Result;
using wire::PacketBuffer;
using wire::part_of;
using wire::put;
using wire::put_bytes;
using wire::put_capsule;
using wire::put_id;
using wire::put_lease;
using wire::Reader;
using wire::Writer;
namespace pb = hurray::store::v1;
namespace broker = hurray::broker::v1;

constexpr std::uint32_t kFormat = 1;
/// The checksum, and the length of the payload: what the checksum is of stands together.
constexpr std::size_t kLengthAt = 4;
constexpr std::size_t kFrameBytes = 8;
/// No record is longer: what a packet can say fits.
constexpr std::size_t kMostPayload = 2 * wire::kMaxPacketBytes;

// ---- Frames ---------------------------------------------------------------------------------------------------------

void put_number(std::uint32_t value, char* to) {
    for (int i = 0; i < 4; ++i) {
        to[i] = static_cast<char>(value >> (8 * i));
    }
}

std::uint32_t number_at(const char* from) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
        value |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
    }
    return value;
}

std::uint32_t checksum(std::string_view length_and_payload) {
    return hurray::crc32c(
        std::span(reinterpret_cast<const std::uint8_t*>(length_and_payload.data()), length_and_payload.size()));
}

/// The payloads of a file, one after the other.
class Frames {
  public:
    explicit Frames(std::span<const std::byte> bytes)
        : left_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

    /// Nothing at the end, and where a record is not whole.
    std::optional<std::string_view> next() {
        if (left_.size() < kFrameBytes) {
            return std::nullopt;
        }
        const std::size_t size = number_at(left_.data() + kLengthAt);
        if (size > kMostPayload || left_.size() - kFrameBytes < size ||
            number_at(left_.data()) != checksum(left_.substr(kLengthAt, kFrameBytes - kLengthAt + size))) {
            return std::nullopt;
        }
        const std::string_view payload = left_.substr(kFrameBytes, size);
        left_.remove_prefix(kFrameBytes + size);
        return payload;
    }
    [[nodiscard]] std::size_t left() const noexcept { return left_.size(); }

  private:
    std::string_view left_;
};

// ---- Writing --------------------------------------------------------------------------------------------------------

void write(const keep::Name& note, Writer& out) {
    put_bytes(out, pb::Name::kNameFieldNumber, note.name);
    put(out, pb::Name::kOwnerFieldNumber, note.owner);
    put(out, pb::Name::kPublisherFieldNumber, note.publisher);
    put(out, pb::Name::kVersionFieldNumber, note.version);
    put(out, pb::Name::kFloorFieldNumber, note.floor);
    put(out, pb::Name::kOnceFieldNumber, note.once ? 1 : 0);
}
void write(const keep::NameEnded& note, Writer& out) { put_bytes(out, pb::NameEnded::kNameFieldNumber, note.name); }
void write(const keep::LastVersion& note, Writer& out) { put(out, pb::LastVersion::kVersionFieldNumber, note.version); }
void write(const keep::Taken& note, Writer& out) {
    put_capsule(out, pb::Taken::kCapsuleFieldNumber, note.capsule);
    put_lease(out, pb::Taken::kLeaseFieldNumber, note.lease);
    put(out, pb::Taken::kVersionFieldNumber, note.version);
}
void write(const keep::TakenDropped& note, Writer& out) {
    put_capsule(out, pb::TakenDropped::kCapsuleFieldNumber, note.capsule);
}
void write(const keep::Answered& note, Writer& out) {
    put_capsule(out, pb::Answered::kCapsuleFieldNumber, note.capsule);
}
void write(const keep::Expires& note, Writer& out) {
    put_capsule(out, pb::Expires::kCapsuleFieldNumber, note.capsule);
    put(out, pb::Expires::kAtMsFieldNumber, note.at_ms);
}
void write(const keep::Gone& note, Writer& out) { put_capsule(out, pb::Gone::kCapsuleFieldNumber, note.capsule); }
void write(const keep::Left& note, Writer& out) {
    put_capsule(out, pb::Left::kCapsuleFieldNumber, note.capsule);
    put(out, pb::Left::kVersionFieldNumber, note.version);
}
void write(const keep::Committed& note, Writer& out) { put(out, pb::Committed::kGroupFieldNumber, note.group); }

/// One Record of one message, which `fill` writes.
template <class Fill>
void append_message(int field, std::string& out, Fill&& fill) {
    PacketBuffer payload;
    {
        Writer record(payload);
        Writer message = part_of(record, field);
        fill(message);
    }
    if (payload.size() == 0) {  // an empty message says something too
        Writer(payload).add_bytes(static_cast<protozero::pbf_tag_type>(field), "", 0);
    }
    append_record(payload.view(), out);
}

/// In the order of keep::Note.
constexpr int kNoteFields[] = {pb::Record::kNameFieldNumber,         pb::Record::kNameEndedFieldNumber,
                               pb::Record::kLastVersionFieldNumber,  pb::Record::kTakenFieldNumber,
                               pb::Record::kTakenDroppedFieldNumber, pb::Record::kAnsweredFieldNumber,
                               pb::Record::kExpiresFieldNumber,      pb::Record::kGoneFieldNumber,
                               pb::Record::kLeftFieldNumber,         pb::Record::kCommittedFieldNumber};
static_assert(std::size(kNoteFields) == std::variant_size_v<keep::Note>);

// ---- Reading --------------------------------------------------------------------------------------------------------

tl::unexpected<hurray::Error> damaged(const char* what) { return hurray::fail(Errc::Protocol, what); }

/// The one message of a Record: its field, and its bytes. Of several the last counts; field 0: none that is known.
std::pair<int, std::string_view> message_of(std::string_view payload) {
    std::pair<int, std::string_view> message{0, {}};
    for (Reader in = wire::reader(payload); in.next();) {
        if (in.wire_type() == protozero::pbf_wire_type::length_delimited) {
            message = {static_cast<int>(in.tag()), wire::read_bytes(in)};
        } else {
            in.skip();
        }
    }
    return message;
}

/// The fields of a note, by their numbers: each is a number, bytes, or left out.
class Fields {
  public:
    explicit Fields(std::string_view message) {
        for (Reader in = wire::reader(message); in.next();) {
            const std::size_t field = in.tag();
            if (field >= kMost) {
                in.skip();
            } else if (in.wire_type() == protozero::pbf_wire_type::varint) {
                numbers_.at(field) = in.get_uint64();
            } else if (in.wire_type() == protozero::pbf_wire_type::length_delimited) {
                bytes_.at(field) = wire::read_bytes(in);
            } else {
                in.skip();
            }
        }
    }
    [[nodiscard]] std::uint64_t number(int field) const { return numbers_.at(static_cast<std::size_t>(field)); }
    [[nodiscard]] std::uint32_t number32(int field) const { return static_cast<std::uint32_t>(number(field)); }
    [[nodiscard]] std::string_view bytes(int field) const { return bytes_.at(static_cast<std::size_t>(field)); }

  private:
    static constexpr std::size_t kMost = 8;
    std::array<std::uint64_t, kMost> numbers_{};
    std::array<std::string_view, kMost> bytes_{};
};

/// Fails: Protocol  no header; VersionMismatch  of another format.
Result<std::uint64_t> read_header(Frames& frames) {
    const auto payload = frames.next();
    const auto [field, message] = payload ? message_of(*payload) : std::pair<int, std::string_view>{0, {}};
    if (field != pb::Record::kHeaderFieldNumber) {
        return damaged("it does not begin with a whole header");
    }
    const Fields header(message);
    if (const std::uint64_t format = header.number(pb::Header::kFormatFieldNumber); format != kFormat) {
        return hurray::fail(Errc::VersionMismatch, "it is of format " + std::to_string(format) +
                                                       "; this hurrayd reads " + std::to_string(kFormat));
    }
    return header.number(pb::Header::kGenerationFieldNumber);
}

/// Nothing: it is none that this version knows, which is passed over. Fails: its ids are not whole.
Result<std::optional<keep::Note>> read_note(int field, std::string_view message) {
    if (std::find(std::begin(kNoteFields), std::end(kNoteFields), field) == std::end(kNoteFields)) {
        return std::optional<keep::Note>();
    }
    const Fields in(message);
    Result<wire::CapsuleId> capsule;
    const auto read_capsule = [&](int at) {
        capsule = wire::read_capsule_id(in.bytes(at), {"capsule"});
        return capsule.has_value();
    };
    switch (field) {
        case pb::Record::kNameFieldNumber: {
            auto name = wire::read_optional_name(in.bytes(pb::Name::kNameFieldNumber), {"name"});
            if (!name) {
                return tl::unexpected(name.error());
            }
            return keep::Name{std::move(*name),
                              in.number32(pb::Name::kOwnerFieldNumber),
                              in.number32(pb::Name::kPublisherFieldNumber),
                              in.number(pb::Name::kVersionFieldNumber),
                              in.number(pb::Name::kFloorFieldNumber),
                              in.number(pb::Name::kOnceFieldNumber) != 0};
        }
        case pb::Record::kNameEndedFieldNumber:
            return keep::NameEnded{std::string(in.bytes(pb::NameEnded::kNameFieldNumber))};
        case pb::Record::kLastVersionFieldNumber:
            return keep::LastVersion{in.number(pb::LastVersion::kVersionFieldNumber)};
        case pb::Record::kTakenFieldNumber: {
            const auto lease = wire::read_lease_id(in.bytes(pb::Taken::kLeaseFieldNumber), {"lease"});
            if (!read_capsule(pb::Taken::kCapsuleFieldNumber) || !lease) {
                break;
            }
            return keep::Taken{*capsule, *lease, in.number(pb::Taken::kVersionFieldNumber)};
        }
        case pb::Record::kTakenDroppedFieldNumber:
            if (read_capsule(pb::TakenDropped::kCapsuleFieldNumber)) {
                return keep::TakenDropped{*capsule};
            }
            break;
        case pb::Record::kAnsweredFieldNumber:
            if (read_capsule(pb::Answered::kCapsuleFieldNumber)) {
                return keep::Answered{*capsule};
            }
            break;
        case pb::Record::kExpiresFieldNumber:
            if (read_capsule(pb::Expires::kCapsuleFieldNumber)) {
                return keep::Expires{*capsule, in.number(pb::Expires::kAtMsFieldNumber)};
            }
            break;
        case pb::Record::kGoneFieldNumber:
            if (read_capsule(pb::Gone::kCapsuleFieldNumber)) {
                return keep::Gone{*capsule};
            }
            break;
        case pb::Record::kLeftFieldNumber:
            if (read_capsule(pb::Left::kCapsuleFieldNumber)) {
                return keep::Left{*capsule, in.number(pb::Left::kVersionFieldNumber)};
            }
            break;
        case pb::Record::kCommittedFieldNumber:
            return keep::Committed{in.number(pb::Committed::kGroupFieldNumber)};
        default:
            break;
    }
    return damaged("a note's ids are not whole");
}

/// Runs `read`, and turns what is not protobuf into a failure.
template <class Read>
auto guarded(Read&& read) -> decltype(read()) {
    try {
        return read();
    } catch (const protozero::exception&) {
        return damaged("a record is no protobuf");
    }
}

}  // namespace

void append_record(std::string_view payload, std::string& out) {
    const std::size_t begin = out.size();
    out.resize(begin + kFrameBytes);
    put_number(static_cast<std::uint32_t>(payload.size()), out.data() + begin + kLengthAt);
    out += payload;
    put_number(checksum(std::string_view(out).substr(begin + kLengthAt)), out.data() + begin);
}

void append_header(std::uint64_t generation, std::string& out) {
    append_message(pb::Record::kHeaderFieldNumber, out, [&](Writer& header) {
        put(header, pb::Header::kFormatFieldNumber, kFormat);
        put(header, pb::Header::kGenerationFieldNumber, generation);
    });
}

void append_note(const keep::Note& note, std::string& out) {
    append_message(kNoteFields[note.index()], out,
                   [&](Writer& message) { std::visit([&](const auto& what) { write(what, message); }, note); });
}

std::string capsule_file(std::uint32_t uid, const wire::Publish& offer, std::uint64_t group) {
    std::string file;
    append_header(0, file);
    const std::string request = wire::encoded(wire::Request{1, std::nullopt, offer});
    append_message(pb::Record::kCapsuleFieldNumber, file, [&](Writer& capsule) {
        put(capsule, pb::StoredCapsule::kUidFieldNumber, uid);
        put_bytes(capsule, pb::StoredCapsule::kOfferFieldNumber, request);
        put(capsule, pb::StoredCapsule::kGroupFieldNumber, group);
    });
    return file;
}

Result<StoredCapsule> read_capsule_file(std::span<const std::byte> bytes) {
    return guarded([&]() -> Result<StoredCapsule> {
        Frames frames(bytes);
        const auto header = read_header(frames);
        if (!header) {
            return tl::unexpected(header.error());
        }
        const auto payload = frames.next();
        const auto [field, message] = payload ? message_of(*payload) : std::pair<int, std::string_view>{0, {}};
        if (*header != 0 || field != pb::Record::kCapsuleFieldNumber || frames.left() != 0) {
            return damaged("it is not the whole file of a capsule");
        }
        const Fields capsule(message);
        auto request = wire::decode_request(
            std::as_bytes(std::span(capsule.bytes(pb::StoredCapsule::kOfferFieldNumber))), wire::kAnyFdCount);
        if (!request) {
            return tl::unexpected(std::move(request.error().error));
        }
        auto* offer = std::get_if<wire::Publish>(&request->message);
        if (offer == nullptr || offer->version == 0 || !offer->linger_ms || !offer->access ||
            offer->access->gid == wire::kOwnGroup) {
            return damaged("it does not say what an offer of a lingering capsule says");
        }
        return StoredCapsule{capsule.number32(pb::StoredCapsule::kUidFieldNumber), std::move(*offer),
                             capsule.number(pb::StoredCapsule::kGroupFieldNumber)};
    });
}

Result<Journal> read_journal(std::span<const std::byte> bytes) {
    Frames frames(bytes);
    Journal journal;
    const auto header = guarded([&] { return read_header(frames); });
    if (!header) {
        return tl::unexpected(header.error());
    }
    if (*header == 0) {
        return damaged("it is no journal");
    }
    journal.generation = *header;
    for (;;) {
        journal.whole_bytes = bytes.size() - frames.left();
        const auto payload = frames.next();
        if (!payload) {
            return journal;
        }
        const auto note = guarded([&] {
            const auto [field, message] = message_of(*payload);
            return read_note(field, message);
        });
        if (!note) {
            return journal;  // what is behind it can't be trusted either
        }
        if (*note) {
            journal.notes.push_back(**note);
        }
    }
}

}  // namespace hurrayd::store
