#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/keeping.hpp"
#include "libhurray/base/result.hpp"
#include "proto/wire/messages.hpp"

/// The bytes of what is left for the next life: see store.proto. Plain functions of bytes, without a descriptor.
namespace hurrayd::store {

namespace wire = hurray::wire;

/// Puts one record behind what `out` holds: its frame, and `payload`, a Record of store.proto.
void append_record(std::string_view payload, std::string& out);
/// Such records, by what they say.
void append_header(std::uint64_t generation, std::string& out);
void append_note(const keep::Note& note, std::string& out);

/// A capsule's whole file.
[[nodiscard]] std::string capsule_file(std::uint32_t uid, const wire::Publish& offer, std::uint64_t group = 0);

/// What such a file says. Nothing is known yet of what its segments are.
struct StoredCapsule {
    std::uint32_t uid = 0;
    wire::Publish offer;
    std::uint64_t group = 0;
};
/// Fails: Protocol         the file is not whole, or a checksum is wrong
///        VersionMismatch  it is of another format
///        InvalidArgument, Limit, Unsupported  it says what can't be offered
[[nodiscard]] hurray::Result<StoredCapsule> read_capsule_file(std::span<const std::byte> bytes);

/// What a journal says, up to where it is whole.
struct Journal {
    std::uint64_t generation = 0;
    std::vector<keep::Note> notes;
    std::size_t whole_bytes = 0;  ///< fewer than there are: the daemon died while it appended, or something is damaged
};
/// Fails: Protocol         its first record is not whole, or is not a journal's
///        VersionMismatch  it is of another format
[[nodiscard]] hurray::Result<Journal> read_journal(std::span<const std::byte> bytes);

}  // namespace hurrayd::store
