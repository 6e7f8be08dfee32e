#include "libhurray/format/find_element.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/index_contents.hpp"
#include "tests/support/sample_descriptors.hpp"

namespace hurray {
namespace {

using test::Contents;
using test::U32s;
using test::U64s;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// A tensor of uint8 with its buffers. The place of a value is its byte.
struct Sample : test::SampleTensor {
    Sample(const U64s& shape, const Layout& layout, Contents buffers)
        : SampleTensor(ElementType::UInt8, shape, table(buffers)), contents(std::move(buffers)) {
        view.layout = layout;
    }
    /// With a mode order, which the layout borrows.
    Sample(const U64s& shape, std::uint64_t nnz, const U32s& mode_order, Contents buffers)
        : Sample(shape, Layout{}, std::move(buffers)) {
        view.layout = {LayoutTag::Csf, CsfLayout{nnz, test::pack(mode_order, mode_bytes_)}};
    }

    /// The place of the value, "not stored", or the name of what went wrong.
    [[nodiscard]] std::string at(const U64s& index) const {
        const auto spans = contents.spans();
        const auto found = find_element(view, spans, index);
        if (!found) {
            return std::string(fault_name(found.error().fault));
        }
        return *found ? std::to_string((*found)->byte) : "not stored";
    }
    [[nodiscard]] std::string why(const U64s& index) const {
        const auto spans = contents.spans();
        return describe(find_element(view, spans, index).error());
    }

    Contents contents;

  private:
    static std::vector<BufferEntry> table(Contents& buffers) {
        std::vector<BufferEntry> entries;
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            entries.push_back(test::cpu_buffer(buffers[i].size()));
        }
        return entries;
    }
    std::vector<std::uint8_t> mode_bytes_;
};

Contents values(std::uint64_t count) { return std::move(Contents().add(std::vector<std::uint8_t>(count))); }

Layout coo(std::uint64_t nnz, bool sorted) { return {LayoutTag::Coo, CooLayout{nnz, sorted}}; }
Layout csr(std::uint64_t nnz) { return {LayoutTag::Csr, CompressedLayout{nnz}}; }
Layout csc(std::uint64_t nnz) { return {LayoutTag::Csc, CompressedLayout{nnz}}; }

// ---- The examples of the written format ----------------------------------------------------------------------------

TEST(FindElement, CooExampleOfTheFormat) {
    const Sample tensor({3, 4}, coo(2, true), values(2).add(U64s{0, 3, 2, 1}));
    EXPECT_EQ(tensor.at({0, 3}), "0");
    EXPECT_EQ(tensor.at({2, 1}), "1");
    EXPECT_EQ(tensor.at({1, 1}), "not stored");
}

TEST(FindElement, CsrAndCscExamplesOfTheFormat) {
    const Sample rows({3, 4}, csr(3), values(3).add(U64s{1, 3, 0}).add(U64s{0, 2, 2, 3}));
    EXPECT_EQ(rows.at({0, 1}), "0");
    EXPECT_EQ(rows.at({0, 3}), "1");
    EXPECT_EQ(rows.at({2, 0}), "2");
    EXPECT_EQ(rows.at({1, 0}), "not stored");
    const Sample columns({3, 4}, csc(3), values(3).add(U64s{2, 0, 0}).add(U64s{0, 1, 2, 2, 3}));
    EXPECT_EQ(columns.at({2, 0}), "0");
    EXPECT_EQ(columns.at({0, 1}), "1");
    EXPECT_EQ(columns.at({0, 3}), "2");
    EXPECT_EQ(columns.at({0, 2}), "not stored");
}

TEST(FindElement, CsfExampleOfTheFormat) {
    const Sample tensor({2, 2, 3}, 3, {0, 1, 2},
                        values(3)
                            .add(U64s{0, 2})
                            .add(U64s{0, 1})
                            .add(U64s{0, 1, 3})
                            .add(U64s{0, 0, 1})
                            .add(U64s{0, 1, 2, 3})
                            .add(U64s{2, 0, 1}));
    EXPECT_EQ(tensor.at({0, 0, 2}), "0");
    EXPECT_EQ(tensor.at({1, 0, 0}), "1");
    EXPECT_EQ(tensor.at({1, 1, 1}), "2");
    EXPECT_EQ(tensor.at({0, 1, 1}), "not stored");
    EXPECT_EQ(tensor.at({1, 1, 2}), "not stored");
}

TEST(FindElement, BlockPagedExampleOfTheFormat) {
    const BlockPagedLayout layout{2, 4, 0, 2, 0, std::nullopt, false};
    const Sample tensor({5, 2, 4}, {LayoutTag::BlockPaged, layout}, values(64).add(U32s{3, 0, 3}).add(U32s{0, 2, 3}));
    const auto spans = tensor.contents.spans();
    EXPECT_EQ(find_paged_element(tensor.view, spans, {0, 3, 1, 2})->address.byte, 14U);
    EXPECT_EQ(find_paged_element(tensor.view, spans, {1, 0, 0, 0})->address.byte, 48U);
    EXPECT_EQ(tensor.at({0, 0, 0}), "SequenceNotGiven");
}

// ---- Against a table of all elements -------------------------------------------------------------------------------

using Entries = std::map<U64s, std::uint64_t>;  // coordinates of what is stored, in order; the number is filled in

Entries random_entries(const U64s& shape, double density, std::mt19937_64& random) {
    Entries entries;
    U64s index(shape.size(), 0);
    for (bool more = true; more;) {
        if (std::uniform_real_distribution<>()(random) < density) {
            entries[index] = 0;
        }
        more = false;
        for (std::size_t k = shape.size(); k-- > 0 && !more;) {
            more = ++index[k] < shape[k];
            index[k] = more ? index[k] : 0;
        }
    }
    return entries;
}

/// Every index there is.
Entries all_of(const U64s& shape) {
    std::mt19937_64 random;
    return random_entries(shape, 2, random);
}

void expect_exactly(const Sample& tensor, const U64s& shape, const Entries& entries) {
    for (const auto& [index, unused] : all_of(shape)) {
        const auto stored = entries.find(index);
        ASSERT_EQ(tensor.at(index), stored == entries.end() ? "not stored" : std::to_string(stored->second));
    }
}

TEST(FindElement, CooFindsWhatIsStoredAndNothingElse) {
    std::mt19937_64 random(1);
    for (const U64s& shape : {U64s{9}, U64s{5, 7}, U64s{3, 4, 2}, U64s{2, 1, 3, 2}}) {
        for (const double density : {0.0, 0.1, 0.5, 1.0}) {
            for (const bool sorted : {true, false}) {
                Entries entries = random_entries(shape, density, random);
                std::vector<U64s> order;
                for (const auto& [index, unused] : entries) {
                    order.push_back(index);
                }
                if (!sorted) {
                    std::shuffle(order.begin(), order.end(), random);
                }
                U64s coordinates;
                for (std::size_t i = 0; i < order.size(); ++i) {
                    entries[order[i]] = i;
                    coordinates.insert(coordinates.end(), order[i].begin(), order[i].end());
                }
                const Sample tensor(shape, coo(order.size(), sorted), values(order.size()).add(coordinates));
                expect_exactly(tensor, shape, entries);
            }
        }
    }
}

TEST(FindElement, CsrAndCscFindWhatIsStoredAndNothingElse) {
    std::mt19937_64 random(2);
    for (const U64s& shape : {U64s{1, 1}, U64s{5, 7}, U64s{8, 3}}) {
        for (const double density : {0.0, 0.2, 0.6, 1.0}) {
            for (const std::size_t major : {std::size_t{0}, std::size_t{1}}) {
                Entries entries = random_entries(shape, density, random);
                U64s coordinates;
                U64s pointers{0};
                for (std::uint64_t line = 0; line < shape[major]; ++line) {
                    for (std::uint64_t place = 0; place < shape[1 - major]; ++place) {
                        const U64s index = major == 0 ? U64s{line, place} : U64s{place, line};
                        if (const auto entry = entries.find(index); entry != entries.end()) {
                            entry->second = coordinates.size();
                            coordinates.push_back(place);
                        }
                    }
                    pointers.push_back(coordinates.size());
                }
                const std::uint64_t nnz = coordinates.size();
                const Sample tensor(shape, major == 0 ? csr(nnz) : csc(nnz),
                                    values(nnz).add(coordinates).add(pointers));
                expect_exactly(tensor, shape, entries);
            }
        }
    }
}

/// The tree of the entries below one node, level by level; `entries` are sorted by mode order.
struct CsfTree {
    std::vector<U64s> pointers;
    std::vector<U64s> coordinates;

    CsfTree(const std::vector<U64s>& entries, const U32s& mode_order)
        : pointers(mode_order.size(), U64s{0}), coordinates(mode_order.size()) {
        for (std::size_t level = 0; level < mode_order.size(); ++level) {
            const U64s* last = nullptr;
            for (const U64s& entry : entries) {
                const auto same = [&](std::size_t levels) {
                    return last != nullptr &&
                           std::all_of(mode_order.begin(), mode_order.begin() + static_cast<std::ptrdiff_t>(levels),
                                       [&](std::uint32_t mode) { return entry[mode] == (*last)[mode]; });
                };
                if (last != nullptr && !same(level)) {  // the parent ends
                    pointers[level].push_back(coordinates[level].size());
                }
                if (!same(level + 1)) {
                    coordinates[level].push_back(entry[mode_order[level]]);
                }
                last = &entry;
            }
            if (last != nullptr || level == 0) {
                pointers[level].push_back(coordinates[level].size());
            }
        }
    }
};

TEST(FindElement, CsfFindsWhatIsStoredAndNothingElse) {
    std::mt19937_64 random(3);
    for (const auto& [shape, mode_order] : std::vector<std::pair<U64s, U32s>>{
             {{3, 4, 5}, {0, 1, 2}}, {{3, 4, 5}, {2, 0, 1}}, {{2, 3, 2, 3}, {3, 1, 0, 2}}}) {
        for (const double density : {0.0, 0.1, 0.5, 1.0}) {
            Entries entries = random_entries(shape, density, random);
            std::vector<U64s> order;
            for (const auto& [index, unused] : entries) {
                order.push_back(index);
            }
            const auto key = [&modes = mode_order](const U64s& index) {
                U64s permuted;
                for (const std::uint32_t mode : modes) {
                    permuted.push_back(index[mode]);
                }
                return permuted;
            };
            std::sort(order.begin(), order.end(), [&](const U64s& a, const U64s& b) { return key(a) < key(b); });
            for (std::size_t i = 0; i < order.size(); ++i) {
                entries[order[i]] = i;
            }
            const CsfTree tree(order, mode_order);
            Contents buffers = values(order.size());
            for (std::size_t level = 0; level < mode_order.size(); ++level) {
                buffers.add(tree.pointers[level]).add(tree.coordinates[level]);
            }
            const Sample tensor(shape, order.size(), mode_order, std::move(buffers));
            expect_exactly(tensor, shape, entries);
        }
    }
}

TEST(FindElement, BlockPagedFindsEverySlotOfEverySequence) {
    for (const bool wide : {false, true}) {
        const U32s pointers{0, 2, 2, 5};
        const U32s table{4, 1, 0, 4, 2};
        const BlockPagedLayout layout{3, 5, 0, 3, 2, std::nullopt, wide};
        Contents buffers = values(5 * 3 * 2 * 4);
        if (wide) {
            buffers.add(U64s(table.begin(), table.end())).add(U64s(pointers.begin(), pointers.end()));
        } else {
            buffers.add(table).add(pointers);
        }
        const Sample tensor({15, 2, 4}, {LayoutTag::BlockPaged, layout}, std::move(buffers));
        const auto spans = tensor.contents.spans();
        for (std::uint64_t s = 0; s < 3; ++s) {
            for (std::uint64_t t = 0; t < 12; ++t) {
                for (std::uint64_t h = 0; h < 2; ++h) {
                    for (std::uint64_t d = 0; d < 4; ++d) {
                        const auto found = find_paged_element(tensor.view, spans, {s, t, h, d});
                        if (t / 3 >= pointers[s + 1] - pointers[s]) {
                            ASSERT_EQ(found.error().fault, Fault::IndexOutOfRange);
                            continue;
                        }
                        const std::uint64_t page = table[pointers[s] + t / 3];
                        ASSERT_EQ(found->address.byte, ((page * 3 + t % 3) * 2 + h) * 4 + d);
                    }
                }
            }
        }
    }
}

TEST(FindElement, LogicalIndexIsEnoughForOneSequence) {
    const BlockPagedLayout layout{2, 4, 0, 1, 2, std::nullopt, false};
    const Sample tensor({4, 1, 1}, {LayoutTag::BlockPaged, layout}, values(8).add(U32s{3, 1}).add(U32s{0, 2}));
    EXPECT_EQ(tensor.at({0, 0, 0}), "6");
    EXPECT_EQ(tensor.at({3, 0, 0}), "3");
    EXPECT_EQ(tensor.at({4, 0, 0}), "IndexOutOfRange");
}

TEST(FindElement, DenseTensorsNeedNoContents) {
    test::SampleTensor tensor(ElementType::Float32, {2, 3}, {test::cpu_buffer(24)});
    const std::vector<std::uint8_t> bytes(24);
    const std::vector<std::span<const std::uint8_t>> spans{bytes};
    const U64s index{1, 2};
    EXPECT_EQ((*find_element(tensor.view, spans, index))->byte, 20U);
    // Fewer bytes than the table promises: no address outside of them.
    const std::vector<std::span<const std::uint8_t>> fewer{std::span(bytes).first(20)};
    EXPECT_EQ(find_element(tensor.view, fewer, index).error().fault, Fault::ByteAddressOverflow);
    EXPECT_EQ(find_element(tensor.view, {}, index).error().fault, Fault::BufferCountMismatch);
}

// ---- Contents that lie ---------------------------------------------------------------------------------------------

TEST(FindElementHostile, CooCoordinatesOutsideTheShape) {
    const Sample unsorted({3, 4}, coo(2, false), values(2).add(U64s{0, 4, 2, 1}));
    EXPECT_EQ(unsorted.why({2, 1}), "coordinates[1] is 4, which its layout does not allow (InvalidLayout)");
    const Sample sorted({3, 4}, coo(1, true), values(1).add(U64s{kMax, 0}));
    EXPECT_EQ(sorted.at({2, 1}), "InvalidLayout");
}

TEST(FindElementHostile, CooCountThatTheBufferDoesNotHold) {
    EXPECT_EQ(Sample({3, 4}, coo(3, true), values(3).add(U64s{0, 3, 2, 1})).why({1, 1}),
              "buffers[1] has 32 bytes, its contents take 48 (BufferTooShort)");
    EXPECT_EQ(Sample({3, 4}, coo(kMax, true), values(1).add(U64s{0, 3})).at({1, 1}), "BufferTooShort");
    EXPECT_EQ(Sample({3, 4}, coo(kMax / 2 + 1, false), values(1).add(U64s{0, 3})).at({1, 1}), "BufferTooShort");
}

TEST(FindElementHostile, CooWithTwoEntriesFewerValuesThanEntries) {
    const Sample tensor({3, 4}, coo(2, true), values(1).add(U64s{0, 3, 2, 1}));
    EXPECT_EQ(tensor.at({0, 3}), "0");
    EXPECT_EQ(tensor.at({2, 1}), "ByteAddressOverflow");
}

TEST(FindElementHostile, CsrPointersThatDontCount) {
    const auto with = [](const U64s& pointers) {
        return Sample({3, 4}, csr(3), values(3).add(U64s{1, 3, 0}).add(pointers)).why({1, 1});
    };
    EXPECT_EQ(with({1, 2, 2, 3}), "pointers[0] is 1, which its layout does not allow (InvalidLayout)");
    EXPECT_EQ(with({0, 2, 2, 4}), "pointers[3] is 4, which its layout does not allow (InvalidLayout)");
    EXPECT_EQ(with({0, 2, 1, 3}), "pointers[2] is 1, which its layout does not allow (InvalidLayout)");
    EXPECT_EQ(with({0, 2, kMax, 3}),
              "pointers[2] is 18446744073709551615, which its layout does not allow (InvalidLayout)");
    EXPECT_EQ(with({0, 2, 3}), "buffers[2] has 24 bytes, its contents take 32 (BufferTooShort)");
}

TEST(FindElementHostile, CsrColumnsOutOfOrderOrOutsideTheShape) {
    const auto with = [](const U64s& columns, std::uint64_t column) {
        return Sample({1, 8}, csr(columns.size()), values(8).add(columns).add(U64s{0, columns.size()})).at({0, column});
    };
    EXPECT_EQ(with({1, 3, 5}, 3), "1");
    EXPECT_EQ(with({1, 8, 5}, 3), "InvalidLayout");  // outside
    EXPECT_EQ(with({5, 3, 1}, 1), "InvalidLayout");  // 5 below 3
    EXPECT_EQ(with({3, 3, 3}, 1), "InvalidLayout");  // twice the same
    EXPECT_EQ(with({3, 3, 3}, 5), "InvalidLayout");
}

TEST(FindElementHostile, CsrCountThatNoBufferHolds) {
    EXPECT_EQ(Sample({3, 4}, csr(kMax), values(3).add(U64s{1}).add(U64s{0, 0, 0, kMax})).at({0, 0}), "BufferTooShort");
    EXPECT_EQ(Sample({kMax - 1, 4}, csr(1), values(3).add(U64s{1}).add(U64s{0, 1})).at({0, 0}), "BufferTooShort");
}

TEST(FindElementHostile, LayoutThatDoesNotFitTheRank) {
    EXPECT_EQ(Sample({3, 4, 5}, csr(1), values(1).add(U64s{1}).add(U64s{0, 1})).at({0, 0, 0}), "InvalidLayout");
    EXPECT_EQ(Sample({3, 4}, 1, {0, 1}, values(1)).at({0, 0}), "InvalidLayout");
    EXPECT_EQ(Sample({}, coo(1, true), values(1).add(U64s{})).at({}), "InvalidLayout");
    const BlockPagedLayout empty_pages{0, 4, 0, 1, 0, std::nullopt, false};
    EXPECT_EQ(
        Sample({5, 2, 4}, {LayoutTag::BlockPaged, empty_pages}, values(1).add(U32s{0}).add(U32s{0, 1})).at({0, 0, 0}),
        "InvalidLayout");
}

TEST(FindElementHostile, SparseTensorWithAByteOffset) {
    Sample tensor({3, 4}, coo(2, true), values(2).add(U64s{0, 3, 2, 1}));
    tensor.view.byte_offset = 1;
    EXPECT_EQ(tensor.at({0, 3}), "InvalidLayout");
}

TEST(FindElementHostile, CsfLevelsThatContradictEachOther) {
    const auto with = [](const U64s& pos0, const U64s& pos1, const U64s& pos2, std::uint64_t nnz) {
        return Sample({2, 2, 3}, nnz, {0, 1, 2},
                      values(3).add(pos0).add(U64s{0, 1}).add(pos1).add(U64s{0, 0, 1}).add(pos2).add(U64s{2, 0, 1}))
            .at({1, 1, 1});
    };
    EXPECT_EQ(with({0, 2}, {0, 1, 3}, {0, 1, 2, 3}, 3), "2");
    EXPECT_EQ(with({0, 3}, {0, 1, 3}, {0, 1, 2, 3}, 3), "BufferTooShort");     // three nodes, two coordinates
    EXPECT_EQ(with({0, kMax}, {0, 1, 3}, {0, 1, 2, 3}, 3), "BufferTooShort");  // more nodes than pointers can be
    EXPECT_EQ(with({1, 2}, {0, 1, 3}, {0, 1, 2, 3}, 3), "InvalidLayout");
    EXPECT_EQ(with({0, 2}, {0, 4, 3}, {0, 1, 2, 3}, 3), "InvalidLayout");
    EXPECT_EQ(with({0, 2}, {0, 1, 3}, {0, 1, 2, 3}, 2), "InvalidLayout");  // ends elsewhere than the count
    EXPECT_EQ(with({0, 2}, {0, 1, 3}, {0, 1, 2}, 3), "BufferTooShort");
}

TEST(FindElementHostile, CsfThatIsEmpty) {
    const Sample tensor({2, 2, 3}, 0, {0, 1, 2},
                        values(0).add(U64s{0, 0}).add(U64s{}).add(U64s{0}).add(U64s{}).add(U64s{0}).add(U64s{}));
    EXPECT_EQ(tensor.at({1, 1, 1}), "not stored");
}

TEST(FindElementHostile, BlockTablesThatPointOutOfThePool) {
    const auto with = [](const U32s& table, const U32s& pointers, std::uint64_t pages = 4) {
        const BlockPagedLayout layout{2, pages, 0, 1, 0, std::nullopt, false};
        return Sample({5, 2, 4}, {LayoutTag::BlockPaged, layout}, values(64).add(table).add(pointers)).at({3, 1, 2});
    };
    EXPECT_EQ(with({3, 0}, {0, 2}), "14");
    EXPECT_EQ(with({3, 4}, {0, 2}), "InvalidLayout");           // page 4 of 4
    EXPECT_EQ(with({3, 0}, {1, 2}), "InvalidLayout");           // does not begin at 0
    EXPECT_EQ(with({3, 0}, {0, 3}), "InvalidLayout");           // past the table
    EXPECT_EQ(with({3, 0}, {0, 0xFFFFFFFF}), "InvalidLayout");  // far past it
    EXPECT_EQ(with({3, 0}, {0}), "BufferTooShort");
    EXPECT_EQ(with({3, 5}, {0, 2}, kMax), "ByteAddressOverflow");
}

TEST(FindElementHostile, PagesPastEveryAddress) {
    const BlockPagedLayout layout{0xFFFFFFFF, kMax, 0, 1, 0, std::nullopt, true};
    const Sample tensor({5, kMax - 1, kMax - 1}, {LayoutTag::BlockPaged, layout},
                        values(64).add(U64s{kMax - 1}).add(U64s{0, 1}));
    EXPECT_EQ(tensor.at({4, kMax - 2, kMax - 2}), "AddressOverflow");
    EXPECT_EQ(tensor.at({0, 0, 0}), "AddressOverflow");
}

// Any contents at all give an answer inside the buffer, or a refusal.
TEST(FindElementHostile, RandomContentsNeverLeadOutside) {
    std::mt19937_64 random(4);
    const auto noise = [&random](std::size_t count, std::uint64_t below) {
        U64s numbers(count);
        for (auto& number : numbers) {
            number = random() % 16 == 0 ? random() : random() % below;
        }
        return numbers;
    };
    for (int round = 0; round < 20'000; ++round) {
        const std::uint64_t nnz = random() % 6;
        Contents buffers = values(nnz);
        buffers.add(noise(6, 3)).add(noise(6, 5)).add(noise(6, 5)).add(noise(6, 5)).add(noise(6, 5)).add(noise(6, 5));
        Sample tensor({3, 3, 3}, nnz, {1, 2, 0}, std::move(buffers));
        const U64s index{random() % 3, random() % 3, random() % 3};
        if (round % 4 == 1) {
            tensor.view.layout = coo(nnz % 3, round % 8 == 1);
        } else if (round % 4 == 2) {
            const BlockPagedLayout layout{2, 3, 0, 1, 0, std::nullopt, true};
            tensor.view.layout = {LayoutTag::BlockPaged, layout};
        }
        const auto spans = tensor.contents.spans();
        const auto found = find_element(tensor.view, spans, index);
        if (found && *found) {
            ASSERT_LT((*found)->byte, nnz);
        }
    }
}

}  // namespace
}  // namespace hurray
