#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/store/files.hpp"
#include "daemon/store/journal_state.hpp"
#include "hurray/store/v1/store.pb.h"

// The bytes of what is left for the next life, and what becomes of them when they are damaged.

namespace hurrayd::store {
namespace {

using hurray::Errc;
namespace pb = hurray::store::v1;

wire::CapsuleId capsule_id(std::uint8_t n) {
    wire::CapsuleId id;
    id.uid = 1000;
    id.id.bytes[15] = n;
    return id;
}

std::span<const std::byte> bytes_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

wire::Publish some_offer() {
    wire::Publish offer;
    offer.capsule = capsule_id(7).id;
    offer.name = "a/b";
    offer.descriptor = "descriptor";
    offer.segments = {{3, true, wire::Memory::Reusable, 4096, 0}, {5, true, wire::Memory::Immutable, 8192, 0}};
    offer.placements = {{0, 64}, {1, 0}};
    offer.access = wire::Access{44, 0640};
    offer.retain = 3;
    offer.linger_ms = 0;
    offer.version = 1234;
    return offer;
}

const std::vector<keep::Note>& some_notes() {
    static const std::vector<keep::Note> kNotes = {
        keep::LastVersion{99},
        keep::Name{"a/b", 1000, 1001, 100, 98, false},
        keep::Name{"", 0, 0, 0, 0, false},
        keep::Name{"q", 1, 2, 3, 0, true},
        keep::NameEnded{"q"},
        keep::NameEnded{""},
        keep::Taken{capsule_id(1), {1002, capsule_id(2).id, 17}, 101},
        keep::TakenDropped{capsule_id(1)},
        keep::Answered{capsule_id(3)},
        keep::Expires{capsule_id(3), 5000},
        keep::Expires{capsule_id(3), 0},
        keep::Gone{capsule_id(3)},
        keep::Left{capsule_id(4), 102},
        keep::Committed{103},
    };
    return kNotes;
}

std::string some_journal() {
    std::string bytes;
    append_header(6, bytes);
    for (const keep::Note& note : some_notes()) {
        append_note(note, bytes);
    }
    return bytes;
}

TEST(StoreFiles, ACapsuleIsReadAsItWasWritten) {
    const std::string bytes = capsule_file(1000, some_offer());
    const auto read = read_capsule_file(bytes_of(bytes));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->uid, 1000U);
    EXPECT_EQ(capsule_file(read->uid, read->offer), bytes);
    EXPECT_EQ(read->offer.name, "a/b");
    EXPECT_EQ(read->offer.segments, some_offer().segments);
    EXPECT_EQ(read->offer.placements, some_offer().placements);
    EXPECT_EQ(read->offer.access, some_offer().access);
    EXPECT_EQ(read->offer.linger_ms, 0U);
    EXPECT_EQ(read->offer.version, 1234U);
}

TEST(StoreFiles, ACapsuleSaysOfWhichGroupItIsAMember) {
    const auto group_of = [](const std::string& bytes) { return read_capsule_file(bytes_of(bytes))->group; };
    EXPECT_EQ(group_of(capsule_file(1000, some_offer(), 1230)), 1230U);
    EXPECT_EQ(group_of(capsule_file(1000, some_offer())), 0U)
        << "it came alone, or was stored by a version that said nothing";
}

TEST(StoreFiles, TheLargestCapsuleIsReadToo) {
    wire::Publish offer = some_offer();
    offer.name.assign(wire::kMaxNameBytes, 'n');
    offer.descriptor.assign(wire::kMaxDescriptorBytes, 'd');
    offer.segments.clear();
    for (std::size_t i = 0; i < wire::kMaxSegments; ++i) {
        offer.segments.push_back({UINT64_MAX - i, true, wire::Memory::Reusable, UINT64_MAX, 0});
    }
    offer.placements.assign(wire::kMaxBuffers, {UINT32_MAX, UINT64_MAX});
    EXPECT_TRUE(read_capsule_file(bytes_of(capsule_file(UINT32_MAX, offer))).has_value());
}

TEST(StoreFiles, ACapsuleWithAnyByteChangedIsRefused) {
    const std::string whole = capsule_file(1000, some_offer());
    for (std::size_t at = 0; at < whole.size(); ++at) {
        for (const int change : {0x01, 0x80, 0xff}) {
            std::string bytes = whole;
            bytes[at] = static_cast<char>(bytes[at] ^ change);
            EXPECT_FALSE(read_capsule_file(bytes_of(bytes)).has_value()) << at;
        }
    }
}

TEST(StoreFiles, ACapsuleThatIsNotWholeOrMoreIsRefused) {
    const std::string whole = capsule_file(1000, some_offer());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const auto read = read_capsule_file(bytes_of(whole.substr(0, size)));
        ASSERT_FALSE(read.has_value()) << size;
        EXPECT_EQ(read.error().code, Errc::Protocol);
    }
    EXPECT_FALSE(read_capsule_file(bytes_of(whole + '\0')).has_value());
    EXPECT_FALSE(read_capsule_file(bytes_of(whole + whole)).has_value());
    EXPECT_FALSE(read_capsule_file(bytes_of(some_journal())).has_value());
}

TEST(StoreFiles, ACapsuleThatCantBeOfferedIsRefused) {
    const auto refused = [](auto&& change) {
        wire::Publish offer = some_offer();
        change(offer);
        return !read_capsule_file(bytes_of(capsule_file(1000, offer))).has_value();
    };
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.version = 0; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.linger_ms.reset(); }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.access.reset(); }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.access->gid = wire::kOwnGroup; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.access->mode = 01000; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.name = "a//b"; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.group = 1; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.segments[1].number = 3; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.segments[0].size = 0; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.segments[0].memory = wire::Memory::GpuPool; }));
    EXPECT_TRUE(refused([](wire::Publish& offer) { offer.retain = wire::kMaxRetain + 1; }));
}

TEST(StoreFiles, EveryKindOfNoteIsReadAsItWasWritten) {
    const std::string bytes = some_journal();
    const auto read = read_journal(bytes_of(bytes));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->generation, 6U);
    EXPECT_EQ(read->notes, some_notes());
    EXPECT_EQ(read->whole_bytes, bytes.size());
}

TEST(StoreFiles, NotesAreTheProtobufOfTheirDefinition) {
    for (const keep::Note& note : some_notes()) {
        std::string bytes;
        append_note(note, bytes);
        pb::Record record;
        ASSERT_TRUE(record.ParseFromString(bytes.substr(8)));
        EXPECT_EQ(record.SerializeAsString(), bytes.substr(8));
    }
    std::string bytes;
    append_note(some_notes()[6], bytes);
    pb::Record record;
    ASSERT_TRUE(record.ParseFromString(bytes.substr(8)));
    EXPECT_EQ(record.taken().capsule().uid(), 1000U);
    EXPECT_EQ(record.taken().lease().lease(), 17U);
    EXPECT_EQ(record.taken().lease().session_hash().size(), 16U);
    EXPECT_EQ(record.taken().version(), 101U);
}

TEST(StoreFiles, ATornJournalCountsUpToItsLastWholeNote) {
    const std::string whole = some_journal();
    std::size_t most = 0;
    for (std::size_t size = 0; size <= whole.size(); ++size) {
        const auto read = read_journal(bytes_of(whole.substr(0, size)));
        if (!read) {
            EXPECT_EQ(most, 0U);
            continue;
        }
        ASSERT_LE(read->notes.size(), some_notes().size());
        EXPECT_GE(read->notes.size(), most);
        EXPECT_LE(read->whole_bytes, size);
        most = read->notes.size();
        EXPECT_TRUE(std::equal(read->notes.begin(), read->notes.end(), some_notes().begin()));
    }
    EXPECT_EQ(most, some_notes().size());
}

TEST(StoreFiles, AJournalWithAByteChangedCountsUpToThere) {
    const std::string whole = some_journal();
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(~bytes[at]);
        const auto read = read_journal(bytes_of(bytes));
        if (read) {
            EXPECT_LE(read->whole_bytes, at);
            EXPECT_LT(read->notes.size(), some_notes().size());
        }
    }
}

TEST(StoreFiles, AnotherFormatIsNotRead) {
    pb::Record header;
    header.mutable_header()->set_format(2);
    header.mutable_header()->set_generation(1);
    std::string bytes;
    append_record(header.SerializeAsString(), bytes);
    EXPECT_EQ(read_journal(bytes_of(bytes)).error().code, Errc::VersionMismatch);
    EXPECT_EQ(read_capsule_file(bytes_of(bytes)).error().code, Errc::VersionMismatch);
}

TEST(StoreFiles, ANoteOfAKindThatIsNotKnownIsPassedOver) {
    std::string bytes = some_journal();
    append_record("\xaa\x06\x01x", bytes);  // field 101
    append_note(keep::LastVersion{7}, bytes);
    const auto read = read_journal(bytes_of(bytes));
    ASSERT_TRUE(read.has_value());
    ASSERT_EQ(read->notes.size(), some_notes().size() + 1);
    EXPECT_EQ(read->notes.back(), keep::Note(keep::LastVersion{7}));
}

TEST(StoreFiles, ANoteWhoseIdsAreNotWholeEndsTheJournal) {
    std::string bytes;
    append_header(1, bytes);
    const std::size_t whole = bytes.size();
    pb::Record gone;
    gone.mutable_gone()->mutable_capsule()->set_id("short");
    append_record(gone.SerializeAsString(), bytes);
    append_note(keep::LastVersion{7}, bytes);
    const auto read = read_journal(bytes_of(bytes));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->notes.size(), 0U);
    EXPECT_EQ(read->whole_bytes, whole);
}

TEST(StoreFiles, NotesAddUpToAState) {
    JournalState state;
    for (const keep::Note& note : some_notes()) {
        state.apply(note);
    }
    EXPECT_EQ(state.last_version, 100U);
    ASSERT_EQ(state.names.size(), 1U);
    EXPECT_EQ(state.names.at("a/b"), std::get<keep::Name>(some_notes()[1]));
    EXPECT_TRUE(state.taken.empty() && state.answered.empty() && state.expires.empty());
    EXPECT_EQ(state.left, (std::map<wire::CapsuleId, std::uint64_t>{{capsule_id(4), 102}}));
    state.apply(keep::Answered{capsule_id(4)});  // its publisher has the answer after all
    EXPECT_TRUE(state.left.empty());
    EXPECT_TRUE(state.answered.contains(capsule_id(4)));
}

}  // namespace
}  // namespace hurrayd::store
