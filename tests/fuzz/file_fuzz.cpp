// Any bytes as a file: reading stays inside them, and what can be read whole is written by our writer as a file that holds
// the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/container/file_reader.hpp"
#include "libhurray/container/file_writer.hpp"
#include "tests/fuzz/descriptor_checks.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/memory_file.hpp"

namespace {

using hurray::FileReader;

using Parts = std::vector<std::span<const std::uint8_t>>;

void look_at_values(const hurray::KeyValues& values, hurray::FileWriter& writer) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        hurray::KeyValue entry = values[i];
        HURRAY_CHECK(values.find(entry.key) == i);
        const bool empty = entry.value.tag == hurray::ValueTag::Array && entry.value.count == 0;
        HURRAY_CHECK(writer.add_value(entry.key, entry.value).has_value() == !empty);
        while (entry.value.tag == hurray::ValueTag::Array && entry.value.count > 0) {
            HURRAY_CHECK(hurray::take_element(entry.value).has_value());
        }
    }
}

/// Copies the current tensor. False: it can't be read, or not be written.
bool copy_tensor(FileReader& reader, hurray::FileWriter& writer) {
    std::vector<hurray::MemoryBlock> blocks;
    Parts parts;
    for (std::size_t i = 0; i < reader.current()->buffers.size(); ++i) {
        auto block = reader.read_buffer(i);
        if (!block) {
            return false;
        }
        blocks.push_back(*std::move(block));
        parts.emplace_back(blocks.back().bytes());
    }
    return writer.write(reader.entries()[reader.current_number()].name, *reader.current(), parts).has_value();
}

/// A file of our own making can be read, and holds the tensors of `original`, all of them.
void compare(FileReader& original, std::span<const std::uint8_t> bytes) {
    const auto copy = FileReader::open(hurray::test::memory_file(bytes), {}).value();
    HURRAY_CHECK(copy->entries().size() == original.entries().size());
    for (std::size_t i = 0; i < original.entries().size(); ++i) {
        HURRAY_CHECK(original.go_to(i).has_value());
        const auto number = copy->find(original.entries()[i].name);
        HURRAY_CHECK(number.has_value());
        HURRAY_CHECK(copy->go_to(*number).has_value());
        HURRAY_CHECK(std::ranges::equal(hurray::fuzz::canonical_bytes(*original.current()), copy->descriptor_bytes()));
        for (std::size_t k = 0; k < copy->current()->buffers.size(); ++k) {
            HURRAY_CHECK(std::ranges::equal(original.read_buffer(k)->bytes(), copy->read_buffer(k)->bytes()));
        }
    }
}

}  // namespace

// Where a tensor has buffers of a byte, each takes a page of memory, twice at the end, and one in the file that is written.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {65536, 16, 1024};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    const auto opened = FileReader::open(hurray::test::memory_file(input), {});
    if (!opened) {
        HURRAY_CHECK(!opened.error().message.empty());
        return;
    }
    FileReader& reader = **opened;
    const hurray::UniqueFd output = hurray::test::memory_file();
    const auto writer = hurray::FileWriter::open(hurray::UniqueFd(::dup(output.get())), {}).value();
    look_at_values(reader.values(), *writer);
    bool whole = true;

    for (std::size_t i = 0; i < reader.entries().size(); ++i) {
        const auto more = reader.next();
        whole = more && *more && copy_tensor(reader, *writer) && whole;
    }
    HURRAY_CHECK(reader.next().value() == false);
    if (whole && writer->finish()) {
        compare(reader, hurray::test::contents(output));
    }
}
