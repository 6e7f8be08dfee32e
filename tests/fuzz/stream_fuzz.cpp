// Any bytes as a stream: reading stays inside them, and what comes out of them goes in again and comes out the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libhurray/base/check.hpp"
#include "libhurray/container/stream_reader.hpp"
#include "libhurray/container/tensor_writer.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/memory_file.hpp"

namespace {

using hurray::StreamReader;

/// Reads all that can be read, and writes what can be written of it: all of it, or nothing.
std::vector<std::uint8_t> copy(std::span<const std::uint8_t> bytes) {
    StreamReader reader(hurray::test::memory_file(bytes), {});
    const hurray::UniqueFd output = hurray::test::memory_file();
    hurray::StreamWriter writer(hurray::UniqueFd(::dup(output.get())));
    for (auto more = reader.next(); more && *more; more = reader.next()) {
        std::vector<hurray::MemoryBlock> blocks;
        std::vector<std::span<const std::uint8_t>> parts;
        for (std::size_t i = 0; i < reader.current()->buffers.size(); ++i) {
            auto block = reader.read_buffer(i);
            if (!block) {
                HURRAY_CHECK(!reader.next());
                return {};
            }
            blocks.push_back(*std::move(block));
            parts.emplace_back(blocks.back().bytes());
        }
        if (!writer.write({}, *reader.current(), parts)) {
            return {};
        }
    }
    return hurray::test::contents(output);
}

/// Passes over every other tensor and half of the others' buffers.
void skip_through(std::span<const std::uint8_t> bytes) {
    StreamReader reader(hurray::test::memory_file(bytes), {});
    bool look = false;
    for (auto more = reader.next(); more && *more; more = reader.next(), look = !look) {
        if (look && reader.current()->buffers.size() > 0) {
            std::uint8_t byte = 0;
            const std::uint64_t size = reader.current()->buffers[0].byte_size;
            static_cast<void>(reader.read(0, size / 2, {&byte, size > 0 ? 1U : 0U}));
        }
    }
}

}  // namespace

// The first chunk of a buffer; and a page for a buffer of a byte.
const hurray::fuzz::MemoryLimit hurray::fuzz::kMemoryLimit = {65536, 16, 1024};

void hurray::fuzz::run_input(std::span<const std::uint8_t> input) {
    skip_through(input);
    const auto once = copy(input);
    HURRAY_CHECK(once.size() <= input.size());
    HURRAY_CHECK(copy(once) == once);
}
