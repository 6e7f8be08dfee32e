#include "libhurray/format/descriptor_value.hpp"

#include <limits>
#include <span>
#include <utility>

#include "libhurray/format/byte_writer.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_writer.hpp"
#include "libhurray/format/element_type.hpp"
#include "libhurray/format/rule.hpp"

namespace hurray {
namespace {

// ---- From a view ---------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> unpack(const PackedArray<T>& array) {
    std::vector<T> numbers(array.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = array[i];
    }
    return numbers;
}

std::vector<std::uint8_t> copy(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

/// One payload; an overload for each kind that lends arrays.
struct Unpack {
    using Payload = decltype(LayoutValue::payload);

    template <class Plain>
    Payload operator()(const Plain& layout) const {
        return layout;
    }
    Payload operator()(const StridedLayout& layout) const { return StridedValue{unpack(layout.strides)}; }
    Payload operator()(const TiledLayout& layout) const {
        TiledValue value;
        for (std::size_t i = 0; i < layout.level_count; ++i) {
            const TiledLevel level = layout.level(i);
            value.levels.push_back({unpack(level.tile_shape), level.outer, level.inner, unpack(level.outer_strides),
                                    unpack(level.inner_strides)});
        }
        return value;
    }
    Payload operator()(const MortonLayout& layout) const { return MortonValue{unpack(layout.bits)}; }
    Payload operator()(const CsfLayout& layout) const { return CsfValue{layout.nnz, unpack(layout.mode_order)}; }
    Payload operator()(const PrivateLayout& layout) const { return PrivateValue{layout.id, copy(layout.data)}; }
};

// ---- To bytes ------------------------------------------------------------------------------------------------------

/// Whether the payload is the one that the tag has.
bool payload_fits(const LayoutValue& layout) {
    const auto holds = [&]<class T>(std::in_place_type_t<T>) { return std::holds_alternative<T>(layout.payload); };
    if (is_private_tag(static_cast<std::uint8_t>(layout.tag))) {
        return holds(std::in_place_type<PrivateValue>);
    }
    switch (layout.tag) {
        case LayoutTag::RowMajor:
        case LayoutTag::ColumnMajor:
            return holds(std::in_place_type<std::monostate>);
        case LayoutTag::Strided:
            return holds(std::in_place_type<StridedValue>);
        case LayoutTag::Tiled:
            return holds(std::in_place_type<TiledValue>);
        case LayoutTag::Morton:
            return holds(std::in_place_type<MortonValue>);
        case LayoutTag::Coo:
            return holds(std::in_place_type<CooLayout>);
        case LayoutTag::Csr:
        case LayoutTag::Csc:
            return holds(std::in_place_type<CompressedLayout>);
        case LayoutTag::Csf:
            return holds(std::in_place_type<CsfValue>);
        case LayoutTag::BlockPaged:
            return holds(std::in_place_type<BlockPagedLayout>);
        case LayoutTag::CompositeHead:
            return holds(std::in_place_type<CompositeHeadLayout>);
        case LayoutTag::Hilbert:
            return holds(std::in_place_type<HilbertLayout>);
    }
    return true;  // no tag at all: decoding says so
}

Check length_is(std::size_t length, std::size_t wanted, const char* field) {
    return require(length == wanted, Fault::InvalidLayout, field, length, wanted);
}

Check check_level(const TiledLevelValue& level, std::size_t rank, bool last) {
    const auto strides = [rank](LayoutTag tag) { return tag == LayoutTag::Strided ? rank : std::size_t{0}; };
    return require((level.inner == LayoutTag::Tiled) != last, Fault::InvalidLayout, "layout.inner_layout",
                   static_cast<std::uint64_t>(level.inner))
        .and_then([&] { return length_is(level.tile_shape.size(), rank, "layout.tile_shape.size"); })
        .and_then(
            [&] { return length_is(level.outer_strides.size(), strides(level.outer), "layout.outer_strides.size"); })
        .and_then(
            [&] { return length_is(level.inner_strides.size(), strides(level.inner), "layout.inner_strides.size"); });
}

Check check_tiled(const TiledValue& tiled, std::size_t rank) {
    const std::size_t count = tiled.levels.size();
    if (count == 0) {
        return refuse(Fault::InvalidLayout, "layout.levels.size");
    }
    if (count > TiledLayout::kMaxLevels) {
        return refuse(Fault::SubpavingNestingTooDeep, "layout", count, TiledLayout::kMaxLevels);
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (const Check level = check_level(tiled.levels[i], rank, i + 1 == count); !level) {
            return level;
        }
    }
    return {};
}

/// What bytes can't express, so that decoding would not find it.
Check check_expressible(const DescriptorValue& value) {
    const std::size_t rank = value.shape.size();
    if (rank > kMaxRank) {
        return refuse(Fault::RankExceedsMaximum, "rank", rank, kMaxRank);
    }
    if (value.buffers.size() > kMaxBuffers) {
        return refuse(Fault::InvalidLayout, "buffer_count", value.buffers.size(), kMaxBuffers);
    }
    if (!payload_fits(value.layout)) {
        return refuse(Fault::InvalidLayout, "layout_tag", static_cast<std::uint64_t>(value.layout.tag));
    }
    const auto& payload = value.layout.payload;
    if (const auto* strided = std::get_if<StridedValue>(&payload)) {
        return length_is(strided->strides.size(), rank, "layout.strides.size");
    }
    if (const auto* tiled = std::get_if<TiledValue>(&payload)) {
        return check_tiled(*tiled, rank);
    }
    if (const auto* morton = std::get_if<MortonValue>(&payload)) {
        return length_is(morton->bits.size(), rank, "layout.morton_bits.size");
    }
    if (const auto* csf = std::get_if<CsfValue>(&payload)) {
        return length_is(csf->mode_order.size(), rank, "layout.mode_order.size");
    }
    return {};
}

Check check_shard_lengths(const DescriptorValue& value) {
    if (!value.shard) {
        return {};
    }
    const std::size_t rank = value.shape.size();
    return length_is(value.shard->parent_shape.size(), rank, "shard.parent_shape.size").and_then([&] {
        return length_is(value.shard->offset.size(), rank, "shard.shard_offset.size");
    });
}

/// The arrays of a value in the form in which a descriptor holds them, and the view that lends them.
class PackedValue {
  public:
    explicit PackedValue(const DescriptorValue& value) {
        view_.version_major = value.version_major;
        view_.version_minor = value.version_minor;
        view_.element_type = value.element_type;
        view_.shape = Shape(pack(value.shape));
        view_.byte_offset = value.byte_offset;
        view_.layout.tag = value.layout.tag;
        std::visit([this](const auto& payload) { pack_layout(payload); }, value.layout.payload);
        view_.buffers = BufferTable(table(value.buffers));
        if (value.quantization) {
            view_.quantization = *value.quantization;
        }
        if (value.shard) {
            view_.shard = Shard{pack(value.shard->parent_shape), pack(value.shard->offset)};
        }
        view_.statistics = value.statistics;
        view_.extension_type = value.extension_type;
        view_.composite_member = value.composite_member;
    }

    /// Lends from this object and from the value.
    [[nodiscard]] const DescriptorView& view() const noexcept { return view_; }

  private:
    template <class Plain>
    void pack_layout(const Plain& payload) {
        view_.layout.payload = payload;
    }
    void pack_layout(const StridedValue& payload) { view_.layout.payload = StridedLayout{pack(payload.strides)}; }
    void pack_layout(const TiledValue& payload) {
        view_.layout.payload =
            TiledLayout{keep([&](ByteWriter& out) { write(out, payload); }), view_.shape.rank(), payload.levels.size()};
    }
    void pack_layout(const MortonValue& payload) { view_.layout.payload = MortonLayout{pack(payload.bits)}; }
    void pack_layout(const CsfValue& payload) {
        view_.layout.payload = CsfLayout{payload.nnz, pack(payload.mode_order)};
    }
    void pack_layout(const PrivateValue& payload) { view_.layout.payload = PrivateLayout{payload.id, payload.data}; }

    static void write(ByteWriter& out, const TiledValue& tiled) {
        for (const TiledLevelValue& level : tiled.levels) {
            write_all(out, level.tile_shape);
            out.write(static_cast<std::uint8_t>(level.outer));
            out.write(static_cast<std::uint8_t>(level.inner));
            out.zeros(2);
            write_all(out, level.outer_strides);
            write_all(out, level.inner_strides);
        }
    }

    template <class T>
    static void write_all(ByteWriter& out, const std::vector<T>& numbers) {
        for (const T number : numbers) {
            out.write(number);
        }
    }

    template <class T>
    PackedArray<T> pack(const std::vector<T>& numbers) {
        return PackedArray<T>(keep([&](ByteWriter& out) { write_all(out, numbers); }));
    }

    std::span<const std::uint8_t> table(const std::vector<BufferEntry>& buffers) {
        return keep([&](ByteWriter& out) {
            for (const BufferEntry& entry : buffers) {
                write_buffer_entry(out, entry);
            }
        });
    }

    /// Bytes that stay where they are. `fill` runs twice: to count, and to write.
    template <class Fill>
    std::span<const std::uint8_t> keep(Fill fill) {
        ByteWriter counter;
        fill(counter);
        auto& bytes = pieces_.emplace_back(counter.position());
        ByteWriter writer{std::span(bytes)};
        fill(writer);
        return bytes;
    }

    std::vector<std::vector<std::uint8_t>> pieces_;
    DescriptorView view_;
};

}  // namespace

DescriptorValue DescriptorValue::of(const DescriptorView& view) {
    DescriptorValue value;
    value.version_major = view.version_major;
    value.version_minor = view.version_minor;
    value.element_type = view.element_type;
    value.shape = unpack(view.shape.dims());
    value.byte_offset = view.byte_offset;
    value.layout = {view.layout.tag, std::visit(Unpack{}, view.layout.payload)};
    for (std::size_t i = 0; i < view.buffers.size(); ++i) {
        value.buffers.push_back(view.buffers[i]);
    }
    if (view.quantization) {
        value.quantization = copy(*view.quantization);
    }
    if (view.shard) {
        value.shard = ShardValue{unpack(view.shard->parent_shape), unpack(view.shard->offset)};
    }
    value.statistics = view.statistics;
    value.extension_type = view.extension_type;
    value.composite_member = view.composite_member;
    return value;
}

DescriptorResult<std::vector<std::uint8_t>> DescriptorValue::encode() const {
    if (const Check check = check_expressible(*this).and_then([&] { return check_shard_lengths(*this); }); !check) {
        return tl::unexpected(check.error());
    }
    const PackedValue packed(*this);
    const std::size_t size = encoded_size(packed.view());
    if (constexpr std::uint32_t kLongest = std::numeric_limits<std::uint32_t>::max(); size > kLongest) {
        return refuse(Fault::DescriptorLengthMismatch, "descriptor_length", kLongest, size);
    }
    std::vector<std::uint8_t> bytes(size);
    encode_descriptor(packed.view(), bytes);
    DescriptorView decoded;
    DescriptorError error;
    if (!decode_descriptor(bytes, decoded, error)) {
        return tl::unexpected(error);
    }
    return bytes;
}

}  // namespace hurray
