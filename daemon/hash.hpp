#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proto/wire/messages.hpp"

/// Hashes of what peers choose: keyed with random bytes of this process, so that nobody can choose names or ids that all
/// fall into one bucket.
namespace hurrayd {

/// SipHash-1-3 of `bytes` under this process's key.
[[nodiscard]] std::uint64_t keyed_hash(std::string_view bytes) noexcept;

/// The same of several numbers, one after the other, each of them 8 bytes long.
[[nodiscard]] std::uint64_t keyed_hash(std::span<const std::uint64_t> numbers) noexcept;

/// For tables. Neither is declared noexcept: of what might fail libstdc++ keeps each entry's hash beside it, where otherwise a look-up
/// computes it anew for every entry that it passes.
struct NameHash {
    [[nodiscard]] std::size_t operator()(std::string_view name) const { return keyed_hash(name); }
};
struct CapsuleIdHash {
    [[nodiscard]] std::size_t operator()(const hurray::wire::CapsuleId& id) const;
};

/// What stands for a session id where others can see it: the first 16 bytes of its SHA-256. The same in every life of the
/// daemon, since producers know leases by it over a restart; and no way leads back to the id.
[[nodiscard]] hurray::wire::Id16 session_hash(const hurray::wire::Id16& session) noexcept;

}  // namespace hurrayd
