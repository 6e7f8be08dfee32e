#include "libhurray/format/layout.hpp"

#include <bitset>

#include "libhurray/format/element_type.hpp"

namespace hurray {
namespace {

constexpr std::uint32_t kNoLayerIndex = 0xFFFFFFFF;
constexpr std::uint32_t kOpenMemberCount = 0xFFFFFFFF;
constexpr std::uint8_t kHighestKvRole = 2;

bool arranges_tiles(LayoutTag tag) { return tag >= LayoutTag::RowMajor && tag <= LayoutTag::Strided; }
bool arranges_elements(LayoutTag tag) { return tag >= LayoutTag::RowMajor && tag <= LayoutTag::Tiled; }

/// The fields of one level, without judging them beyond the reserved bytes.
TiledLevel read_tiled_fields(ByteReader& in, std::size_t rank) noexcept {
    TiledLevel level;
    level.tile_shape = in.array<std::uint64_t>(rank, "layout.tile_shape");
    level.outer = static_cast<LayoutTag>(in.read<std::uint8_t>("layout.outer_layout"));
    level.inner = static_cast<LayoutTag>(in.read<std::uint8_t>("layout.inner_layout"));
    in.reserved(2, "layout.reserved");
    if (level.outer == LayoutTag::Strided) {
        level.outer_strides = in.array<std::int64_t>(rank, "layout.outer_strides");
    }
    if (level.inner == LayoutTag::Strided) {
        level.inner_strides = in.array<std::int64_t>(rank, "layout.inner_strides");
    }
    return level;
}

/// Reads level `number` (from 1) and those below it; returns how many levels there are. A level is judged only after
/// the levels inside it, so that the innermost defect is the one reported.
std::size_t read_tiled_levels(ByteReader& in, std::size_t rank, std::size_t number) noexcept {
    if (number > TiledLayout::kMaxLevels) {
        in.fail({Fault::SubpavingNestingTooDeep, "layout", 0, number, TiledLayout::kMaxLevels});
        return number;
    }
    const TiledLevel level = read_tiled_fields(in, rank);
    std::size_t deepest = number;
    if (in.ok() && level.inner == LayoutTag::Tiled) {
        deepest = read_tiled_levels(in, rank, number + 1);
    }
    in.check(rank > 0, {Fault::InvalidLayout, "rank"});
    for (std::size_t k = 0; k < level.tile_shape.size(); ++k) {
        in.check(level.tile_shape[k] > 0, {Fault::InvalidLayout, "layout.tile_shape[]", k});
    }
    in.check(arranges_tiles(level.outer),
             {Fault::InvalidLayout, "layout.outer_layout", 0, static_cast<std::uint64_t>(level.outer)});
    in.check(arranges_elements(level.inner),
             {Fault::InvalidLayout, "layout.inner_layout", 0, static_cast<std::uint64_t>(level.inner)});
    return deepest;
}

TiledLayout read_tiled(ByteReader& in, std::size_t rank) noexcept {
    ByteReader measure = in;
    const std::size_t levels = read_tiled_levels(measure, rank, 1);
    if (!measure.ok()) {
        in.fail(measure.error());
        return {};
    }
    return TiledLayout{in.bytes(measure.position() - in.position(), "layout"), rank, levels};
}

MortonLayout read_morton(ByteReader& in, std::size_t rank) noexcept {
    const MortonLayout layout{in.array<std::uint32_t>(rank, "layout.morton_bits")};
    in.check(rank > 0, {Fault::InvalidLayout, "rank"});
    for (std::size_t k = 0; k < layout.bits.size(); ++k) {
        in.check(layout.bits[k] > 0, {Fault::InvalidLayout, "layout.morton_bits[]", k});
    }
    return layout;
}

CooLayout read_coo(ByteReader& in) noexcept {
    CooLayout layout;
    layout.nnz = in.read<std::uint64_t>("layout.nnz");
    layout.is_sorted = in.flag("layout.is_sorted");
    in.reserved(7, "layout.reserved");
    return layout;
}

CompressedLayout read_compressed(ByteReader& in) noexcept {
    const CompressedLayout layout{in.read<std::uint64_t>("layout.nnz")};
    in.reserved(8, "layout.reserved");
    return layout;
}

CsfLayout read_csf(ByteReader& in, std::size_t rank) noexcept {
    CsfLayout layout;
    layout.nnz = in.read<std::uint64_t>("layout.nnz");
    layout.mode_order = in.array<std::uint32_t>(rank, "layout.mode_order");
    in.reserved(8, "layout.reserved");
    std::bitset<kMaxRank> seen;
    for (std::size_t k = 0; k < layout.mode_order.size(); ++k) {
        const std::uint32_t mode = layout.mode_order[k];
        const bool fresh = mode < rank && !seen[mode];
        in.check(fresh, {Fault::InvalidLayout, "layout.mode_order[]", k, mode});
        if (fresh) {
            seen.set(mode);
        }
    }
    return layout;
}

BlockPagedLayout read_block_paged(ByteReader& in) noexcept {
    BlockPagedLayout layout;
    layout.page_size = in.read<std::uint32_t>("layout.page_size");
    layout.num_pages = in.read<std::uint64_t>("layout.num_pages");
    layout.paged_axis = in.read<std::uint32_t>("layout.paged_axis");
    layout.num_seqs = in.read<std::uint32_t>("layout.num_seqs");
    layout.kv_role = in.read<std::uint8_t>("layout.kv_role");
    in.check(layout.kv_role <= kHighestKvRole, {Fault::InvalidLayout, "layout.kv_role", 0, layout.kv_role});
    const auto layer = in.read<std::uint32_t>("layout.layer_index");
    if (layer != kNoLayerIndex) {
        layout.layer_index = layer;
    }
    const auto index_type = in.read<std::uint8_t>("layout.block_table_index_type");
    in.check(index_type <= 1, {Fault::InvalidLayout, "layout.block_table_index_type", 0, index_type});
    layout.wide_index = index_type == 1;
    in.reserved(6, "layout.reserved");
    return layout;
}

void check_composition_rule(ByteReader& in, std::uint8_t rule) noexcept {
    constexpr const char* kField = "layout.composition_rule";
    in.check(rule != 0xFF, {Fault::InvalidCompositionRule, kField, 0, rule});
    in.check(!is_private_tag(rule), {Fault::PrivateCompositionRule, kField, 0, rule});
    in.check(rule >= 1 && rule <= 3, {Fault::ReservedCompositionRule, kField, 0, rule});
}

CompositeHeadLayout read_composite_head(ByteReader& in) noexcept {
    const auto rule = in.read<std::uint8_t>("layout.composition_rule");
    const auto combine_op = in.read<std::uint8_t>("layout.combine_op");
    in.reserved(2, "layout.reserved");
    const auto member_count = in.read<std::uint32_t>("layout.member_count");
    check_composition_rule(in, rule);
    const CompositeHeadLayout layout{static_cast<CompositionRule>(rule), combine_op, member_count};
    const bool op_fits = layout.rule == CompositionRule::Overlay ? combine_op == 1 || combine_op == 2 : combine_op == 0;
    in.check(op_fits, {Fault::InvalidCombineOp, "layout.combine_op", 0, combine_op, rule});
    in.check(member_count != kOpenMemberCount, {Fault::OpenCompositeReserved, "layout.member_count", 0, member_count});
    return layout;
}

HilbertLayout read_hilbert(ByteReader& in) noexcept {
    HilbertLayout layout;
    layout.order = in.read<std::uint32_t>("layout.hilbert_order");
    layout.rank = in.read<std::uint32_t>("layout.hilbert_rank");
    in.check(layout.order > 0, {Fault::InvalidLayout, "layout.hilbert_order", 0, layout.order});
    in.check(layout.rank >= 2, {Fault::InvalidLayout, "layout.hilbert_rank", 0, layout.rank});
    return layout;
}

PrivateLayout read_private(ByteReader& in) noexcept {
    PrivateLayout layout;
    layout.id = in.read<std::uint64_t>("layout.extension_layout_id");
    const auto length = in.read<std::uint32_t>("layout.extension_data_length");
    layout.data = in.bytes(length, "layout.extension_data");
    return layout;
}

/// Writes one payload; an overload a layout.
class PayloadWriter {
  public:
    explicit PayloadWriter(ByteWriter& out) noexcept : out_(out) {}

    void operator()(std::monostate) noexcept {}
    void operator()(const StridedLayout& layout) noexcept { out_.bytes(layout.strides.bytes()); }
    // Everything in it but the reserved bytes is kept as it was, and those had to be zero.
    void operator()(const TiledLayout& layout) noexcept { out_.bytes(layout.payload); }
    void operator()(const MortonLayout& layout) noexcept { out_.bytes(layout.bits.bytes()); }
    void operator()(const CooLayout& layout) noexcept {
        out_.write(layout.nnz);
        out_.write(static_cast<std::uint8_t>(layout.is_sorted));
        out_.zeros(7);
    }
    void operator()(const CompressedLayout& layout) noexcept {
        out_.write(layout.nnz);
        out_.zeros(8);
    }
    void operator()(const CsfLayout& layout) noexcept {
        out_.write(layout.nnz);
        out_.bytes(layout.mode_order.bytes());
        out_.zeros(8);
    }
    void operator()(const BlockPagedLayout& layout) noexcept {
        out_.write(layout.page_size);
        out_.write(layout.num_pages);
        out_.write(layout.paged_axis);
        out_.write(layout.num_seqs);
        out_.write(layout.kv_role);
        out_.write(layout.layer_index.value_or(kNoLayerIndex));
        out_.write(static_cast<std::uint8_t>(layout.wide_index));
        out_.zeros(6);
    }
    void operator()(const CompositeHeadLayout& layout) noexcept {
        out_.write(static_cast<std::uint8_t>(layout.rule));
        out_.write(layout.combine_op);
        out_.zeros(2);
        out_.write(layout.member_count);
    }
    void operator()(const HilbertLayout& layout) noexcept {
        out_.write(layout.order);
        out_.write(layout.rank);
    }
    void operator()(const PrivateLayout& layout) noexcept {
        out_.write(layout.id);
        out_.write(static_cast<std::uint32_t>(layout.data.size()));
        out_.bytes(layout.data);
    }

  private:
    ByteWriter& out_;
};

}  // namespace

TiledLevel TiledLayout::level(std::size_t number) const noexcept {
    ByteReader in(payload, 0);
    for (std::size_t skipped = 0; skipped < number; ++skipped) {
        static_cast<void>(read_tiled_fields(in, rank));
    }
    return read_tiled_fields(in, rank);
}

std::optional<std::uint64_t> stored_count(const Layout& layout) noexcept {
    if (const auto* coo = layout.as<CooLayout>()) {
        return coo->nnz;
    }
    if (const auto* compressed = layout.as<CompressedLayout>()) {
        return compressed->nnz;
    }
    if (const auto* csf = layout.as<CsfLayout>()) {
        return csf->nnz;
    }
    return std::nullopt;
}

Layout read_layout(ByteReader& in, std::uint8_t tag, std::size_t rank) noexcept {
    if (is_private_tag(tag)) {
        return {static_cast<LayoutTag>(tag), read_private(in)};
    }
    switch (static_cast<LayoutTag>(tag)) {
        case LayoutTag::RowMajor:
            return {LayoutTag::RowMajor, {}};
        case LayoutTag::ColumnMajor:
            return {LayoutTag::ColumnMajor, {}};
        case LayoutTag::Strided:
            return {LayoutTag::Strided, StridedLayout{in.array<std::int64_t>(rank, "layout.strides")}};
        case LayoutTag::Tiled:
            return {LayoutTag::Tiled, read_tiled(in, rank)};
        case LayoutTag::Morton:
            return {LayoutTag::Morton, read_morton(in, rank)};
        case LayoutTag::Coo:
            return {LayoutTag::Coo, read_coo(in)};
        case LayoutTag::Csr:
            return {LayoutTag::Csr, read_compressed(in)};
        case LayoutTag::Csc:
            return {LayoutTag::Csc, read_compressed(in)};
        case LayoutTag::Csf:
            return {LayoutTag::Csf, read_csf(in, rank)};
        case LayoutTag::BlockPaged:
            return {LayoutTag::BlockPaged, read_block_paged(in)};
        case LayoutTag::CompositeHead:
            return {LayoutTag::CompositeHead, read_composite_head(in)};
        case LayoutTag::Hilbert:
            return {LayoutTag::Hilbert, read_hilbert(in)};
    }
    const bool never_valid = tag == 0x00 || tag == 0xFF;
    in.fail({never_valid ? Fault::InvalidLayoutTag : Fault::ReservedLayoutTag, "layout_tag", 0, tag});
    return {};
}

void write_layout(ByteWriter& out, const Layout& layout) noexcept { std::visit(PayloadWriter(out), layout.payload); }

}  // namespace hurray
