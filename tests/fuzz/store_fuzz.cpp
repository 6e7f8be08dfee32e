// What comes back from the service manager's store may be anything: the readers of a capsule's file and of a journal take any bytes, and
// what they hand out is what they read: written and read again it is the same.
//
// The first byte of an input says what it is: a capsule's file or a journal, as it is, or as payloads of records with right checksums, of
// which each has its length before it (2 bytes).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/store/files.hpp"
#include "daemon/store/journal_state.hpp"
#include "libhurray/base/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

namespace store = hurrayd::store;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

void read_capsule(std::span<const std::byte> file) {
    const auto first = store::read_capsule_file(file);
    if (!first) {
        return;
    }
    const std::string once = store::capsule_file(first->uid, first->offer, first->group);
    const auto second = store::read_capsule_file(bytes_of(once));
    HURRAY_CHECK(second.has_value() && second->uid == first->uid && second->group == first->group);
    HURRAY_CHECK(store::capsule_file(second->uid, second->offer, second->group) == once);
}

void read_journal(std::span<const std::byte> file) {
    const auto first = store::read_journal(file);
    if (!first) {
        return;
    }
    HURRAY_CHECK(first->whole_bytes <= file.size() && first->generation != 0);
    std::string once;
    store::append_header(first->generation, once);
    store::JournalState state;
    for (const auto& note : first->notes) {
        store::append_note(note, once);
        state.apply(note);
    }
    const auto second = store::read_journal(bytes_of(once));
    HURRAY_CHECK(second.has_value() && second->notes == first->notes && second->whole_bytes == once.size());
    HURRAY_CHECK(state.names.size() <= first->notes.size());
}

std::string framed(std::span<const std::uint8_t> payloads) {
    std::string file;
    while (payloads.size() > 2) {
        const std::size_t said = payloads[0] + std::size_t{256} * payloads[1];
        const std::size_t size = std::min(said, payloads.size() - 2);
        const auto payload = payloads.subspan(2, size);
        store::append_record({reinterpret_cast<const char*>(payload.data()), payload.size()}, file);
        payloads = payloads.subspan(2 + size);
    }
    return file;
}

}  // namespace

// As codec_fuzz: a repeated field of two bytes becomes a struct; and a short note one with strings.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {16384, 128, 256};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    if (input.empty()) {
        return;
    }
    const auto rest = input.subspan(1);
    switch (input[0] % 4) {
        case 0:
            return read_capsule(std::as_bytes(rest));
        case 1:
            return read_journal(std::as_bytes(rest));
        case 2:
            return read_capsule(bytes_of(framed(rest)));
        default:
            return read_journal(bytes_of(framed(rest)));
    }
}
