#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hurray::soak {

/// Contents that follow from a capsule's stamp and the position alone: no two stamps agree in any word, and no word is right in
/// another place. Up to kWholeBytes every byte is stamped and looked at; above that every 61st word (so eight in each page) and
/// the last bytes, and the words between keep what was there.
inline constexpr std::size_t kWholeBytes = std::size_t{64} << 10;

void write_stamp(std::span<std::byte> bytes, std::uint64_t stamp);

/// What is wrong with them: the first position, what is there and what should be. Nothing: all is right.
[[nodiscard]] std::optional<std::string> find_wrong_stamp(std::span<const std::byte> bytes, std::uint64_t stamp);

/// The position of the first byte that is not zero. Looks at all of them.
[[nodiscard]] std::optional<std::size_t> find_nonzero(std::span<const std::byte> bytes);

/// What lies between the end of a buffer and the end of its last page.
[[nodiscard]] std::span<const std::byte> rest_of_page(std::span<const std::byte> bytes);

}  // namespace hurray::soak
