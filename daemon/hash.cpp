#include "daemon/hash.hpp"

#include <array>
#include <bit>
#include <cstring>

#include <sys/random.h>

#include "libhurray/base/check.hpp"

namespace hurrayd {
namespace {

struct SipKey {
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;
};

SipKey roll_key() noexcept {
    SipKey key;
    HURRAY_CHECK(::getrandom(&key, sizeof key, 0) == static_cast<ssize_t>(sizeof key));
    return key;
}

struct SipState {
    std::uint64_t v0, v1, v2, v3;

    void round() noexcept {
        v0 += v1;
        v1 = std::rotl(v1, 13) ^ v0;
        v0 = std::rotl(v0, 32);
        v2 += v3;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 += v3;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 += v1;
        v1 = std::rotl(v1, 17) ^ v2;
        v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) noexcept {
        v3 ^= word;
        round();
        v0 ^= word;
    }
};

constexpr std::array<std::uint32_t, 64> kSha256Rounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// SHA-256 of one message that fits one block with its padding.
std::array<std::uint8_t, 32> sha256_of_id(const hurray::wire::Id16& id) noexcept {
    std::array<std::uint8_t, 64> block{};
    std::memcpy(block.data(), id.bytes.data(), id.bytes.size());
    block[16] = 0x80;
    block[63] = 128;  // the message's length in bits

    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
        w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 | static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
               static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
    }
    for (std::size_t i = 16; i < 64; ++i) {
        const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    const std::array<std::uint32_t, 8> start = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    auto [a, b, c, d, e, f, g, h] = start;
    for (std::size_t i = 0; i < 64; ++i) {
        const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + w[i];
        const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    std::array<std::uint8_t, 32> digest{};
    for (std::size_t i = 0; i < 8; ++i) {
        const std::uint32_t word = start[i] + added[i];
        for (std::size_t byte = 0; byte < 4; ++byte) {
            digest[4 * i + byte] = static_cast<std::uint8_t>(word >> (24 - 8 * byte));
        }
    }
    return digest;
}

}  // namespace

std::uint64_t keyed_hash(std::span<const std::uint64_t> numbers) noexcept {
    return keyed_hash({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
}

std::uint64_t keyed_hash(std::string_view bytes) noexcept {
    static const SipKey key = roll_key();
    SipState state{key.k0 ^ 0x736f6d6570736575ULL, key.k1 ^ 0x646f72616e646f6dULL, key.k0 ^ 0x6c7967656e657261ULL,
                   key.k1 ^ 0x7465646279746573ULL};
    const std::uint64_t length = bytes.size();
    while (bytes.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), 8);
        state.take(word);
        bytes.remove_prefix(8);
    }
    std::uint64_t last = length << 56;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        last |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    state.take(last);
    state.v2 ^= 0xff;
    state.round();
    state.round();
    state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::size_t CapsuleIdHash::operator()(const hurray::wire::CapsuleId& id) const {
    std::array<char, 20> bytes{};
    std::memcpy(bytes.data(), &id.uid, sizeof id.uid);
    std::memcpy(bytes.data() + sizeof id.uid, id.id.bytes.data(), id.id.bytes.size());
    return keyed_hash({bytes.data(), bytes.size()});
}

hurray::wire::Id16 session_hash(const hurray::wire::Id16& session) noexcept {
    const auto digest = sha256_of_id(session);
    hurray::wire::Id16 hash;
    std::memcpy(hash.bytes.data(), digest.data(), hash.bytes.size());
    return hash;
}

}  // namespace hurrayd
