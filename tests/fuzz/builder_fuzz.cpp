// A script of calls of the descriptor builder, over all layouts and sections, refused ones among them. At any time what the
// builder encodes are the bytes that the tables of the format give for the same fields, or it fails as decoding them fails; and
// what it builds encodes, decodes, validates and builds again to the same.
//
// The first byte of an input picks the builder or, if it is odd, the one call that encodes a dense tensor.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hurray.h"

#include "libhurray/base/check.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "tests/fuzz/descriptor_checks.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/plain_descriptor.hpp"

namespace {

using hurray::fuzz::DescriptorHandle;
using hurray::fuzz::FuzzInput;
using hurray::test::Bytes;
using hurray::test::PlainDescriptor;
using hurray::test::put;
using hurray::test::put_all;
using hurray::test::put_zeros;

constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kMostBuffers = 300;

// ---- Arguments -----------------------------------------------------------------------------------------------------

/// Mostly small, in one byte; any other number in nine.
std::uint64_t number(FuzzInput& input) {
    const std::uint8_t small = input.byte();
    return small < 0xF0 ? small : input.number();
}

template <class T>
std::vector<T> numbers(FuzzInput& input, std::size_t count) {
    std::vector<T> all(count);
    for (T& one : all) {
        one = static_cast<T>(number(input));
    }
    return all;
}

/// Once in a while something that may not be: a reserved field that is not 0, an array that is missing.
bool is_wrong(FuzzInput& input) { return input.byte() == 0xFF; }

Bytes byte_string(FuzzInput& input) {
    const auto taken = input.take(input.byte());
    return {taken.begin(), taken.end()};
}

const char* last_message_past_function() {
    const char* colon = std::strstr(hurray_last_error_message(), ": ");
    return colon == nullptr ? "" : colon;
}

// ---- The builder and what it holds ---------------------------------------------------------------------------------

struct DestroyBuilder {
    void operator()(HurrayDescriptorBuilder* builder) const {
        HURRAY_CHECK(hurray_descriptor_builder_destroy(&builder) == HURRAY_OK && builder == nullptr);
    }
};

class Workshop {
  public:
    explicit Workshop(FuzzInput& input) : input_(input) {
        plain_.type_tag = input_.byte();
        plain_.shape = numbers<std::uint64_t>(input_, input_.below(70));
        HurrayDescriptorBuilder* made = nullptr;
        const HurrayStatus status = hurray_descriptor_builder_new(plain_.type_tag, plain_.shape.data(),
                                                                  static_cast<std::uint32_t>(rank()), &made);
        builder_.reset(made);
        HURRAY_CHECK(status == (rank() > HURRAY_MAX_RANK ? HURRAY_ERR_INVALID_LAYOUT : HURRAY_OK));
        HURRAY_CHECK((builder_ != nullptr) == (status == HURRAY_OK));
    }

    void run() {
        for (std::size_t steps = 0; builder_ != nullptr && !input_.is_over() && steps < kMostSteps; ++steps) {
            take_step();
        }
        if (builder_ != nullptr) {
            check();
        }
    }

  private:
    using Step = void (Workshop::*)();

    void take_step() {
        static constexpr std::array<Step, 24> kSteps = {
            &Workshop::byte_offset,
            &Workshop::row_major,
            &Workshop::column_major,
            &Workshop::strided,
            &Workshop::tiled,
            &Workshop::morton,
            &Workshop::hilbert,
            &Workshop::coo,
            &Workshop::csr,
            &Workshop::csc,
            &Workshop::csf,
            &Workshop::block_paged,
            &Workshop::composite_head,
            &Workshop::private_one,
            &Workshop::add_buffers,
            &Workshop::clear_buffers,
            &Workshop::quantization,
            &Workshop::quantization_bytes,
            &Workshop::shard,
            &Workshop::statistics,
            &Workshop::extension_type,
            &Workshop::composite_member,
            &Workshop::remove_section,
            &Workshop::check,
        };
        (this->*input_.one_of(kSteps))();
    }

    [[nodiscard]] std::size_t rank() const { return plain_.shape.size(); }
    [[nodiscard]] HurrayDescriptorBuilder* get() const { return builder_.get(); }

    // ---- Layouts

    void set_layout(std::uint8_t tag, Bytes payload) {
        plain_.layout_tag = tag;
        plain_.layout = std::move(payload);
        levels_follow_each_other_ = true;
    }

    void byte_offset() {
        plain_.byte_offset = number(input_);
        HURRAY_CHECK(hurray_descriptor_builder_set_byte_offset(get(), plain_.byte_offset) == HURRAY_OK);
    }
    void row_major() {
        set_layout(HURRAY_LAYOUT_ROW_MAJOR, {});
        HURRAY_CHECK(hurray_descriptor_builder_set_row_major(get()) == HURRAY_OK);
    }
    void column_major() {
        set_layout(HURRAY_LAYOUT_COLUMN_MAJOR, {});
        HURRAY_CHECK(hurray_descriptor_builder_set_column_major(get()) == HURRAY_OK);
    }

    /// A layout that is one array, between what stands before and behind it.
    template <class T, class Set>
    void array_layout(std::uint8_t tag, Bytes payload, std::size_t zeros_behind, Set set) {
        const bool missing = is_wrong(input_);
        const auto array = numbers<T>(input_, rank());
        const HurrayStatus status = set(missing || rank() == 0 ? nullptr : array.data());
        if (missing && rank() > 0) {
            HURRAY_CHECK(status == HURRAY_ERR_NULL_POINTER);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        put_all(payload, array);
        put_zeros(payload, zeros_behind);
        set_layout(tag, std::move(payload));
    }
    void strided() {
        array_layout<std::int64_t>(HURRAY_LAYOUT_STRIDED, {}, 0, [&](const std::int64_t* strides) {
            return hurray_descriptor_builder_set_strided(get(), strides);
        });
    }
    void morton() {
        array_layout<std::uint32_t>(HURRAY_LAYOUT_MORTON, {}, 0, [&](const std::uint32_t* bits) {
            return hurray_descriptor_builder_set_morton(get(), bits);
        });
    }
    void csf() {
        const std::uint64_t nnz = number(input_);
        Bytes payload;
        put(payload, nnz);
        array_layout<std::uint32_t>(HURRAY_LAYOUT_CSF, std::move(payload), 8, [&](const std::uint32_t* modes) {
            return hurray_descriptor_builder_set_csf(get(), nnz, modes);
        });
    }

    void tiled() {
        struct Level {
            std::vector<std::uint64_t> shape;
            std::vector<std::int64_t> outer;
            std::vector<std::int64_t> inner;
        };
        const std::size_t count = input_.below(10);
        std::vector<Level> arrays(count);
        std::vector<HurrayTiledLevel> levels(count);
        Bytes payload;
        bool follow = true;
        HurrayStatus expected = count == 0 || count > HURRAY_MAX_TILED_LEVELS ? HURRAY_ERR_INVALID_ARGUMENT : HURRAY_OK;
        for (std::size_t i = 0; i < count; ++i) {
            HurrayTiledLevel& level = levels[i];
            level = {};
            level.outer_layout = input_.byte();
            level.inner_layout = input_.byte();
            level.reserved[5] = is_wrong(input_) ? 1 : 0;
            const bool unwanted = is_wrong(input_);
            arrays[i].shape = numbers<std::uint64_t>(input_, rank());
            level.tile_shape = arrays[i].shape.data();
            put_all(payload, arrays[i].shape);
            put(payload, level.outer_layout, level.inner_layout);
            put_zeros(payload, 2);
            if (level.outer_layout == HURRAY_LAYOUT_STRIDED) {
                arrays[i].outer = numbers<std::int64_t>(input_, rank());
                put_all(payload, arrays[i].outer);
            }
            if (level.inner_layout == HURRAY_LAYOUT_STRIDED) {
                arrays[i].inner = numbers<std::int64_t>(input_, rank());
                put_all(payload, arrays[i].inner);
            }
            level.outer_strides = arrays[i].outer.empty() ? nullptr : arrays[i].outer.data();
            level.inner_strides = arrays[i].inner.empty() ? nullptr : arrays[i].inner.data();
            static constexpr std::int64_t kNotWanted = 1;
            if (unwanted && level.outer_layout != HURRAY_LAYOUT_STRIDED) {
                level.outer_strides = &kNotWanted;
            }
            if (level.reserved[5] != 0 || (unwanted && level.outer_layout != HURRAY_LAYOUT_STRIDED)) {
                expected = HURRAY_ERR_INVALID_ARGUMENT;
            }
            follow = follow && (level.inner_layout == HURRAY_LAYOUT_TILED) == (i + 1 < count);
        }
        static constexpr HurrayTiledLevel kNone = {};
        HURRAY_CHECK(hurray_descriptor_builder_set_tiled(get(), count == 0 ? &kNone : levels.data(),
                                                         static_cast<std::uint32_t>(count)) == expected);
        if (expected == HURRAY_OK) {
            set_layout(HURRAY_LAYOUT_TILED, std::move(payload));
            levels_follow_each_other_ = follow;
        }
    }

    void hilbert() {
        const auto order = static_cast<std::uint32_t>(number(input_));
        const auto stated_rank = static_cast<std::uint32_t>(number(input_));
        HURRAY_CHECK(hurray_descriptor_builder_set_hilbert(get(), order, stated_rank) == HURRAY_OK);
        Bytes payload;
        put(payload, order, stated_rank);
        set_layout(HURRAY_LAYOUT_HILBERT, std::move(payload));
    }
    void coo() {
        const std::uint64_t nnz = number(input_);
        const std::uint8_t is_sorted = input_.byte();
        const HurrayStatus status = hurray_descriptor_builder_set_coo(get(), nnz, is_sorted);
        if (is_sorted > 1) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes payload;
        put(payload, nnz, is_sorted);
        put_zeros(payload, 7);
        set_layout(HURRAY_LAYOUT_COO, std::move(payload));
    }
    template <class Set>
    void compressed(std::uint8_t tag, Set set) {
        const std::uint64_t nnz = number(input_);
        HURRAY_CHECK(set(get(), nnz) == HURRAY_OK);
        Bytes payload;
        put(payload, nnz);
        put_zeros(payload, 8);
        set_layout(tag, std::move(payload));
    }
    void csr() { compressed(HURRAY_LAYOUT_CSR, hurray_descriptor_builder_set_csr); }
    void csc() { compressed(HURRAY_LAYOUT_CSC, hurray_descriptor_builder_set_csc); }

    void block_paged() {
        HurrayBlockPaged pages{};
        pages.page_size = static_cast<std::uint32_t>(number(input_));
        pages.num_pages = number(input_);
        pages.paged_axis = static_cast<std::uint32_t>(number(input_));
        pages.num_seqs = static_cast<std::uint32_t>(number(input_));
        pages.kv_role = input_.byte();
        pages.layer_index = static_cast<std::uint32_t>(number(input_));
        pages.index_type = input_.byte();
        pages.reserved[0] = is_wrong(input_) ? 1 : 0;
        const HurrayStatus status = hurray_descriptor_builder_set_block_paged(get(), &pages);
        if (pages.index_type > 1 || pages.reserved[0] != 0) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes payload;
        put(payload, pages.page_size, pages.num_pages, pages.paged_axis, pages.num_seqs, pages.kv_role,
            pages.layer_index, pages.index_type);
        put_zeros(payload, 6);
        set_layout(HURRAY_LAYOUT_BLOCK_PAGED, std::move(payload));
    }
    void composite_head() {
        HurrayCompositeHead head{};
        head.composition_rule = input_.byte();
        head.combine_op = input_.byte();
        head.member_count = static_cast<std::uint32_t>(number(input_));
        head.reserved[1] = is_wrong(input_) ? 1 : 0;
        const HurrayStatus status = hurray_descriptor_builder_set_composite_head(get(), &head);
        if (head.reserved[1] != 0) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes payload;
        put(payload, head.composition_rule, head.combine_op);
        put_zeros(payload, 2);
        put(payload, head.member_count);
        set_layout(HURRAY_LAYOUT_COMPOSITE_HEAD, std::move(payload));
    }
    void private_one() {
        const std::uint8_t tag = input_.byte();
        const std::uint64_t id = number(input_);
        const Bytes data = byte_string(input_);
        const HurrayStatus status = hurray_descriptor_builder_set_private_layout(
            get(), tag, id, data.empty() ? nullptr : data.data(), data.size());
        if (tag < 0xF0 || tag == 0xFF) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes payload;
        put(payload, id, static_cast<std::uint32_t>(data.size()));
        payload.insert(payload.end(), data.begin(), data.end());
        set_layout(tag, std::move(payload));
    }

    // ---- Buffers

    void add_buffers() {
        const bool full_table = is_wrong(input_);
        const std::size_t count = full_table ? HURRAY_MAX_BUFFERS : input_.below(8);
        HurrayBufferEntry entry{};
        entry.byte_size = number(input_);
        const std::uint8_t alignment = input_.byte();  // a power of two, or the number itself
        entry.alignment = alignment < 32 ? std::uint32_t{1} << alignment : alignment;
        entry.device_tag = input_.byte();
        entry.sync_mode = input_.byte();
        entry.memory_class = input_.byte();
        entry.reserved = is_wrong(input_) ? 1 : 0;
        for (std::size_t i = 0; i < count && plain_.buffer_count < kMostBuffers; ++i) {
            const HurrayStatus status = hurray_descriptor_builder_add_buffer(get(), &entry);
            if (entry.reserved != 0) {
                HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
                return;
            }
            HURRAY_CHECK(status == HURRAY_OK);
            ++plain_.buffer_count;
            put(plain_.buffers, entry.byte_size, entry.alignment, entry.device_tag, entry.sync_mode, entry.memory_class,
                std::uint8_t{0});
        }
    }
    void clear_buffers() {
        plain_.buffer_count = 0;
        plain_.buffers.clear();
        HURRAY_CHECK(hurray_descriptor_builder_clear_buffers(get()) == HURRAY_OK);
    }

    // ---- Sections

    void quantization() {
        HurrayQuantization q{};
        q.scheme = input_.byte();
        q.scheme_version = input_.byte();
        q.symmetric = input_.byte();
        q.scale_type_tag = input_.byte();
        q.axis = static_cast<std::uint32_t>(number(input_));
        q.block_size = static_cast<std::uint32_t>(number(input_));
        q.scale_buffer_index = static_cast<std::uint32_t>(number(input_));
        q.zero_point_buffer_index = static_cast<std::uint32_t>(number(input_));
        q.scale = std::bit_cast<float>(input_.number<std::uint32_t>());
        q.zero_point = input_.number<std::int32_t>();
        const HurrayStatus status = hurray_descriptor_builder_set_quantization(get(), &q);
        HURRAY_CHECK(q.symmetric <= 1 || status == HURRAY_ERR_INVALID_ARGUMENT);
        if (status != HURRAY_OK) {
            HURRAY_CHECK(status == HURRAY_ERR_INTERNAL || q.symmetric > 1);
            return;
        }
        plain_.quantization = bytes_of(q);
    }

    /// By the tables of the schemes.
    static Bytes bytes_of(const HurrayQuantization& q) {
        const bool per_tensor = q.scheme == HURRAY_QUANTIZATION_PER_TENSOR;
        const bool has_flag = q.scheme == HURRAY_QUANTIZATION_PER_CHANNEL || q.scheme == HURRAY_QUANTIZATION_PER_BLOCK;
        HURRAY_CHECK(q.scheme >= HURRAY_QUANTIZATION_PER_TENSOR && q.scheme <= HURRAY_QUANTIZATION_MXFP);
        HURRAY_CHECK(has_flag || q.symmetric == 0);
        Bytes bytes;
        put(bytes, q.scheme, q.scheme_version, std::uint16_t{q.symmetric});
        if (per_tensor) {
            put(bytes, std::bit_cast<std::uint32_t>(q.scale), q.zero_point, std::uint32_t{0});
            return bytes;
        }
        put(bytes, q.axis);
        if (q.scheme != HURRAY_QUANTIZATION_PER_CHANNEL) {
            put(bytes, q.block_size);
        }
        put(bytes, q.scale_buffer_index);
        if (has_flag) {
            put(bytes, q.symmetric == 1 ? HURRAY_NO_BUFFER : q.zero_point_buffer_index, q.scale_type_tag);
            put_zeros(bytes, 3);
        }
        return bytes;
    }

    void quantization_bytes() {
        static constexpr std::uint8_t kSomewhere = 0;
        Bytes bytes = byte_string(input_);
        HURRAY_CHECK(hurray_descriptor_builder_set_quantization_bytes(get(), bytes.empty() ? &kSomewhere : bytes.data(),
                                                                      bytes.size()) == HURRAY_OK);
        plain_.quantization = std::move(bytes);
    }
    void shard() {
        const bool missing = is_wrong(input_);
        // A scalar's arrays are empty but not null.
        auto parent_shape = numbers<std::uint64_t>(input_, rank());
        auto offset = numbers<std::uint64_t>(input_, rank());
        parent_shape.reserve(1);
        const HurrayStatus status =
            hurray_descriptor_builder_set_shard(get(), parent_shape.data(), missing ? nullptr : offset.data());
        if (missing && rank() > 0) {
            HURRAY_CHECK(status == HURRAY_ERR_NULL_POINTER);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes bytes;
        put_all(bytes, parent_shape);
        put_all(bytes, offset);
        plain_.shard = std::move(bytes);
    }
    void statistics() {
        HurrayStatistics s{};
        s.computed_mask = static_cast<std::uint32_t>(number(input_));
        s.nnz = number(input_);
        const auto reals = numbers<std::uint64_t>(input_, 6);
        const auto real = [&](std::size_t i) { return std::bit_cast<double>(reals[i]); };
        s.sparsity_ratio = real(0);
        s.value_min = real(1);
        s.value_max = real(2);
        s.value_abs_max = real(3);
        s.value_mean = real(4);
        s.value_stddev = real(5);
        s.nm_n = input_.byte();
        s.nm_m = input_.byte();
        s.has_nan = input_.byte();
        s.has_inf = input_.byte();
        const HurrayStatus status = hurray_descriptor_builder_set_statistics(get(), &s);
        if (s.has_nan > 1 || s.has_inf > 1) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes bytes;
        put(bytes, s.computed_mask, std::uint32_t{0}, s.nnz);
        put_all(bytes, reals);
        put(bytes, s.nm_n, s.nm_m, s.has_nan, s.has_inf, std::uint32_t{0});
        plain_.statistics = std::move(bytes);
    }
    void extension_type() {
        HurrayExtensionType t{};
        t.bit_width = static_cast<std::uint32_t>(number(input_));
        t.packing_factor = input_.byte();
        t.is_float = input_.byte();
        t.is_signed = input_.byte();
        t.sign_bits = input_.byte();
        t.exponent_bits = input_.byte();
        t.mantissa_bits = input_.byte();
        t.exponent_bias = static_cast<std::uint32_t>(number(input_));
        t.has_nan = input_.byte();
        t.has_inf = input_.byte();
        const HurrayStatus status = hurray_descriptor_builder_set_extension_type(get(), &t);
        if (t.is_float > 1 || t.is_signed > 1 || t.has_nan > 1 || t.has_inf > 1) {
            HURRAY_CHECK(status == HURRAY_ERR_INVALID_ARGUMENT);
            return;
        }
        HURRAY_CHECK(status == HURRAY_OK);
        Bytes bytes;
        put(bytes, t.bit_width, t.packing_factor, t.is_float, t.is_signed, t.sign_bits, t.exponent_bits,
            t.mantissa_bits, std::uint16_t{0}, t.exponent_bias, t.has_nan, t.has_inf, std::uint16_t{0});
        plain_.extension_type = std::move(bytes);
    }
    void composite_member() {
        const std::uint8_t role = input_.byte();
        HURRAY_CHECK(hurray_descriptor_builder_set_composite_member(get(), &role) == HURRAY_OK);
        Bytes bytes = {role};
        put_zeros(bytes, 15);
        plain_.composite_member = std::move(bytes);
    }
    void remove_section() {
        HurrayStatus status = HURRAY_OK;
        switch (input_.below(6)) {
            case 0:
                plain_.quantization.reset();
                status = hurray_descriptor_builder_set_quantization(get(), nullptr);
                break;
            case 1:
                plain_.quantization.reset();
                status = hurray_descriptor_builder_set_quantization_bytes(get(), nullptr, 0);
                break;
            case 2:
                plain_.shard.reset();
                status = hurray_descriptor_builder_set_shard(get(), nullptr, nullptr);
                break;
            case 3:
                plain_.statistics.reset();
                status = hurray_descriptor_builder_set_statistics(get(), nullptr);
                break;
            case 4:
                plain_.extension_type.reset();
                status = hurray_descriptor_builder_set_extension_type(get(), nullptr);
                break;
            default:
                plain_.composite_member.reset();
                status = hurray_descriptor_builder_set_composite_member(get(), nullptr);
        }
        HURRAY_CHECK(status == HURRAY_OK);
    }

    // ---- What comes out

    void check() {
        const Bytes expected = plain_.encode();
        const auto encoded = hurray::fuzz::write_all([&](std::uint8_t* out, std::uintptr_t* length) {
            return hurray_descriptor_builder_encode(get(), out, length);
        });
        const std::string message = last_message_past_function();
        HurrayDescriptor* made = nullptr;
        const HurrayStatus built = hurray_descriptor_builder_build(get(), &made);
        const DescriptorHandle handle(made);
        HURRAY_CHECK(built == encoded.status && (handle != nullptr) == (built == HURRAY_OK));
        HURRAY_CHECK(built == HURRAY_OK || message == last_message_past_function());
        if (!levels_follow_each_other_ || plain_.buffer_count > HURRAY_MAX_BUFFERS) {  // no bytes say so
            HURRAY_CHECK(built == HURRAY_ERR_INVALID_LAYOUT);
            return;
        }
        HurrayDescriptor* decoded = nullptr;
        const HurrayStatus status = hurray_descriptor_decode(expected.data(), expected.size(), &decoded);
        const DescriptorHandle owned(decoded);
        HURRAY_CHECK(built == status);
        if (status != HURRAY_OK) {
            HURRAY_CHECK(message == last_message_past_function());
            return;
        }
        HURRAY_CHECK(encoded.bytes == expected);
        check_built(handle.get(), expected);
        start_again_from(handle.get());
    }

    static void check_built(const HurrayDescriptor* handle, const Bytes& expected) {
        HURRAY_CHECK(hurray::fuzz::write_all([&](std::uint8_t* out, std::uintptr_t* length) {
                         return hurray_descriptor_encode(handle, out, length);
                     }).bytes == expected);
        const auto view = hurray::decode_descriptor(expected).value();
        HURRAY_CHECK(hurray::fuzz::canonical_bytes(view) == expected);
        HURRAY_CHECK(hurray::DescriptorValue::of(view).encode() == expected);
        hurray::fuzz::check_same_through_c(handle, hurray::fuzz::validate(view));
    }

    /// The script goes on with a builder that began as what this one has built.
    void start_again_from(const HurrayDescriptor* handle) {
        HurrayDescriptorBuilder* made = nullptr;
        HURRAY_CHECK(hurray_descriptor_builder_from_descriptor(handle, &made) == HURRAY_OK);
        builder_.reset(made);
        const auto again = hurray::fuzz::write_all([&](std::uint8_t* out, std::uintptr_t* length) {
            return hurray_descriptor_builder_encode(get(), out, length);
        });
        HURRAY_CHECK(again.status == HURRAY_OK && again.bytes == plain_.encode());
    }

    FuzzInput& input_;
    std::unique_ptr<HurrayDescriptorBuilder, DestroyBuilder> builder_;
    PlainDescriptor plain_;
    bool levels_follow_each_other_ = true;
};

// ---- Dense tensors in one call -------------------------------------------------------------------------------------

/// The same tensor part by part; nothing where sizes are left to the library.
PlainDescriptor plain_of(const HurrayDenseDescriptor& dense, std::uint64_t byte_size) {
    PlainDescriptor plain;
    plain.type_tag = dense.element_type;
    plain.layout_tag = dense.layout == 0 ? std::uint8_t{HURRAY_LAYOUT_ROW_MAJOR} : dense.layout;
    plain.shape.assign(dense.shape, dense.shape + dense.rank);
    plain.byte_offset = dense.byte_offset;
    if (dense.strides != nullptr) {
        put_all(plain.layout, std::vector<std::int64_t>(dense.strides, dense.strides + dense.rank));
    }
    plain.buffer_count = 1;
    put(plain.buffers, byte_size, dense.alignment == 0 ? HURRAY_MIN_BUFFER_ALIGNMENT : dense.alignment,
        dense.device_tag, dense.sync_mode, dense.memory_class, std::uint8_t{0});
    return plain;
}

bool may_be_shared(const Bytes& bytes) {
    HurrayDescriptor* made = nullptr;
    if (hurray_descriptor_decode(bytes.data(), bytes.size(), &made) != HURRAY_OK) {
        return false;
    }
    return hurray_descriptor_validate_sharing(DescriptorHandle(made).get()) == HURRAY_OK;
}

void encode_dense(FuzzInput& input) {
    HurrayDenseDescriptor dense{};
    dense.struct_size = sizeof(dense);
    dense.element_type = input.byte();
    dense.layout = input.byte();
    dense.device_tag = input.byte();
    dense.sync_mode = input.byte();
    dense.memory_class = input.byte();
    dense.byte_offset = number(input);
    dense.byte_size = number(input);
    const std::uint8_t alignment = input.byte();
    dense.alignment = alignment < 32 ? std::uint32_t{1} << alignment : 0;
    const auto shape = numbers<std::uint64_t>(input, input.below(HURRAY_MAX_RANK + 2));
    dense.rank = static_cast<std::uint32_t>(shape.size());
    dense.shape = shape.data();
    const auto strides = numbers<std::int64_t>(input, dense.layout == HURRAY_LAYOUT_STRIDED ? shape.size() : 0);
    dense.strides = strides.empty() ? nullptr : strides.data();

    std::uint64_t needed = 0;
    const HurrayStatus sized = hurray_descriptor_dense_byte_size(&dense, &needed);
    const auto encoded = hurray::fuzz::write_all(
        [&](std::uint8_t* out, std::uintptr_t* length) { return hurray_descriptor_encode_dense(&dense, out, length); });
    if (encoded.status != HURRAY_OK) {
        const std::uint64_t byte_size = dense.byte_size == 0 ? needed : dense.byte_size;
        HURRAY_CHECK(sized != HURRAY_OK || !may_be_shared(plain_of(dense, byte_size).encode()));
        return;
    }
    HURRAY_CHECK(sized == HURRAY_OK);
    HURRAY_CHECK(dense.byte_size == 0 || dense.byte_size >= needed);
    const Bytes expected = plain_of(dense, dense.byte_size == 0 ? needed : dense.byte_size).encode();
    HURRAY_CHECK(encoded.bytes == expected && may_be_shared(expected));
    // One byte less is too little, so that the size is exactly what is needed.
    HURRAY_CHECK(needed == 0 || !may_be_shared(plain_of(dense, needed - 1).encode()));
}

}  // namespace

// A step of the script may fill the table of buffers.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {std::size_t{256} << 10, 64, 256};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    FuzzInput script(input);
    if (script.byte() % 2 == 1) {
        encode_dense(script);
    } else {
        Workshop(script).run();
    }
}
