#include "libhurray/format/sections.hpp"

#include <cstddef>

#include "libhurray/base/checked_math.hpp"

namespace hurray {
namespace {

constexpr std::uint32_t kStatisticsMask = 0x3F;
constexpr std::uint8_t kHighestMemberRole = 1;

/// Which packing factor a width needs; 0 for a width that cannot be packed.
std::uint8_t packing_factor_of(std::uint32_t bit_width) {
    switch (bit_width) {
        case 1:
            return 8;
        case 2:
            return 4;
        case 4:
            return 2;
        default:
            return bit_width >= 8 ? 1 : 0;
    }
}

void write_flag(ByteWriter& out, bool flag) noexcept { out.write(static_cast<std::uint8_t>(flag)); }

}  // namespace

Shard read_shard(ByteReader& in, const Shape& shape) noexcept {
    Shard shard;
    shard.parent_shape = in.array<std::uint64_t>(shape.rank(), "shard.parent_shape");
    shard.offset = in.array<std::uint64_t>(shape.rank(), "shard.shard_offset");
    for (std::size_t k = 0; k < shard.offset.size(); ++k) {
        const std::uint64_t end = checked_add(shard.offset[k], shape[k]).value_or(UINT64_MAX);
        const std::uint64_t parent = shard.parent_shape[k];
        in.check(end <= parent, {Fault::ShardOutOfBounds, "shard.shard_offset[]", k, end, parent});
    }
    return shard;
}

Statistics read_statistics(ByteReader& in) noexcept {
    Statistics s;
    s.computed_mask = in.read<std::uint32_t>("statistics.computed_mask");
    const auto reserved = in.bytes(4, "statistics.reserved");
    s.nnz = in.read<std::uint64_t>("statistics.nnz");
    s.sparsity_ratio_bits = in.read<std::uint64_t>("statistics.sparsity_ratio");
    s.value_min_bits = in.read<std::uint64_t>("statistics.value_min");
    s.value_max_bits = in.read<std::uint64_t>("statistics.value_max");
    s.value_abs_max_bits = in.read<std::uint64_t>("statistics.value_abs_max");
    s.value_mean_bits = in.read<std::uint64_t>("statistics.value_mean");
    s.value_stddev_bits = in.read<std::uint64_t>("statistics.value_stddev");
    s.nm_n = in.read<std::uint8_t>("statistics.nm_n");
    s.nm_m = in.read<std::uint8_t>("statistics.nm_m");
    s.has_nan = in.flag("statistics.has_nan");
    s.has_inf = in.flag("statistics.has_inf");
    const auto last_reserved = in.bytes(4, "statistics.reserved");
    in.check((s.computed_mask & ~kStatisticsMask) == 0,
             {Fault::StatisticsReservedMaskBitsSet, "statistics.computed_mask", 0, s.computed_mask});
    in.check_zero(reserved, "statistics.reserved");
    in.check_zero(last_reserved, "statistics.reserved");
    return s;
}

ExtensionType read_extension_type(ByteReader& in) noexcept {
    ExtensionType type;
    type.bit_width = in.read<std::uint32_t>("extension_type.bit_width");
    type.packing_factor = in.read<std::uint8_t>("extension_type.packing_factor");
    type.is_float = in.flag("extension_type.is_float");
    type.is_signed = in.flag("extension_type.is_signed");
    type.sign_bits = in.read<std::uint8_t>("extension_type.sign_bits");
    type.exponent_bits = in.read<std::uint8_t>("extension_type.exponent_bits");
    type.mantissa_bits = in.read<std::uint8_t>("extension_type.mantissa_bits");
    const auto reserved = in.bytes(2, "extension_type.reserved");
    type.exponent_bias = in.read<std::uint32_t>("extension_type.exponent_bias");
    type.has_nan = in.flag("extension_type.has_nan");
    type.has_inf = in.flag("extension_type.has_inf");
    const auto last_reserved = in.bytes(2, "extension_type.reserved");
    const std::uint8_t needed = packing_factor_of(type.bit_width);
    in.check(
        needed != 0 && type.packing_factor == needed,
        {Fault::ExtensionTypePackingInvalid, "extension_type.packing_factor", 0, type.packing_factor, type.bit_width});
    in.check_zero(reserved, "extension_type.reserved");
    in.check_zero(last_reserved, "extension_type.reserved");
    return type;
}

MemberRole read_composite_member(ByteReader& in) noexcept {
    const auto role = in.read<std::uint8_t>("composite_member.member_role");
    in.check(role <= kHighestMemberRole,
             {Fault::InvalidMemberRole, "composite_member.member_role", 0, role, kHighestMemberRole});
    in.reserved(15, "composite_member.reserved");
    return static_cast<MemberRole>(role);
}

void write_shard(ByteWriter& out, const Shard& shard) noexcept {
    out.bytes(shard.parent_shape.bytes());
    out.bytes(shard.offset.bytes());
}

void write_statistics(ByteWriter& out, const Statistics& statistics) noexcept {
    out.write(statistics.computed_mask);
    out.zeros(4);
    out.write(statistics.nnz);
    out.write(statistics.sparsity_ratio_bits);
    out.write(statistics.value_min_bits);
    out.write(statistics.value_max_bits);
    out.write(statistics.value_abs_max_bits);
    out.write(statistics.value_mean_bits);
    out.write(statistics.value_stddev_bits);
    out.write(statistics.nm_n);
    out.write(statistics.nm_m);
    write_flag(out, statistics.has_nan);
    write_flag(out, statistics.has_inf);
    out.zeros(4);
}

void write_extension_type(ByteWriter& out, const ExtensionType& type) noexcept {
    out.write(type.bit_width);
    out.write(type.packing_factor);
    write_flag(out, type.is_float);
    write_flag(out, type.is_signed);
    out.write(type.sign_bits);
    out.write(type.exponent_bits);
    out.write(type.mantissa_bits);
    out.zeros(2);
    out.write(type.exponent_bias);
    write_flag(out, type.has_nan);
    write_flag(out, type.has_inf);
    out.zeros(2);
}

void write_composite_member(ByteWriter& out, MemberRole role) noexcept {
    out.write(static_cast<std::uint8_t>(role));
    out.zeros(15);
}

}  // namespace hurray
