// The facts of the dense descriptors in descriptor_bench.cpp, as a protobuf message and as a FlatBuffer: what do the usual
// ways of the trade take to get from bytes to the same numbers? Their parsers check the form alone, ours the tags as well.
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <flatbuffers/flatbuffers.h>

#include "bench/descriptor_samples.hpp"
#include "libhurray/format/descriptor_reader.hpp"

#include "same_facts.pb.h"
#include "same_facts_generated.h"

namespace {

/// The facts, out of a descriptor of ours.
struct Facts {
    explicit Facts(std::uint32_t rank) : bytes(bench::dense(rank)), view(hurray::decode_descriptor(bytes).value()) {}

    std::vector<std::uint8_t> bytes;
    hurray::DescriptorView view;
};

std::string as_protobuf(const Facts& facts) {
    bench::pb::Descriptor message;
    message.set_version_major(facts.view.version_major);
    message.set_version_minor(facts.view.version_minor);
    message.set_type_tag(static_cast<std::uint32_t>(facts.view.element_type));
    message.set_layout_tag(static_cast<std::uint32_t>(facts.view.layout.tag));
    for (std::size_t k = 0; k < facts.view.shape.rank(); ++k) {
        message.add_shape(facts.view.shape[k]);
    }
    message.set_byte_offset(facts.view.byte_offset);
    auto& buffer = *message.add_buffers();
    buffer.set_byte_size(facts.view.buffers[0].byte_size);
    buffer.set_alignment(facts.view.buffers[0].alignment);
    return message.SerializeAsString();
}

std::vector<std::uint8_t> as_flatbuffer(const Facts& facts) {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<std::uint64_t> shape;
    for (std::size_t k = 0; k < facts.view.shape.rank(); ++k) {
        shape.push_back(facts.view.shape[k]);
    }
    const std::vector<bench::fb::Buffer> buffers{
        {facts.view.buffers[0].byte_size, facts.view.buffers[0].alignment, 0, 0, 0}};
    const auto shape_offset = builder.CreateVector(shape);
    const auto buffers_offset = builder.CreateVectorOfStructs(buffers);
    builder.Finish(bench::fb::CreateDescriptor(
        builder, facts.view.version_major, facts.view.version_minor, static_cast<std::uint8_t>(facts.view.element_type),
        static_cast<std::uint8_t>(facts.view.layout.tag), shape_offset, facts.view.byte_offset, 0, buffers_offset));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

void protobuf_parse(benchmark::State& state) {
    const std::string bytes = as_protobuf(Facts(static_cast<std::uint32_t>(state.range(0))));
    for (auto _ : state) {
        bench::pb::Descriptor message;
        if (!message.ParseFromString(bytes)) {
            state.SkipWithError("the message does not parse");
        }
        benchmark::DoNotOptimize(message);
    }
}
BENCHMARK(protobuf_parse)->Arg(4)->Arg(8);

void protobuf_parse_into_the_same_message(benchmark::State& state) {
    const std::string bytes = as_protobuf(Facts(static_cast<std::uint32_t>(state.range(0))));
    bench::pb::Descriptor message;
    for (auto _ : state) {
        if (!message.ParseFromString(bytes)) {
            state.SkipWithError("the message does not parse");
        }
        benchmark::DoNotOptimize(message);
    }
}
BENCHMARK(protobuf_parse_into_the_same_message)->Arg(4)->Arg(8);

/// A FlatBuffer is read where it lies, so what is to be compared is verifying it and reading every fact once.
void flatbuffers_verify_and_read(benchmark::State& state) {
    const auto bytes = as_flatbuffer(Facts(static_cast<std::uint32_t>(state.range(0))));
    for (auto _ : state) {
        flatbuffers::Verifier verifier(bytes.data(), bytes.size());
        if (!bench::fb::VerifyDescriptorBuffer(verifier)) {
            state.SkipWithError("the buffer does not verify");
        }
        const auto* descriptor = bench::fb::GetDescriptor(bytes.data());
        std::uint64_t sum = descriptor->version_major() + descriptor->version_minor() + descriptor->type_tag() +
                            descriptor->layout_tag() + descriptor->byte_offset();
        for (const std::uint64_t size : *descriptor->shape()) {
            sum += size;
        }
        for (const bench::fb::Buffer* buffer : *descriptor->buffers()) {
            sum += buffer->byte_size() + buffer->alignment() + buffer->device_tag() + buffer->sync_mode() +
                   buffer->memory_class();
        }
        benchmark::DoNotOptimize(sum);
    }
}
BENCHMARK(flatbuffers_verify_and_read)->Arg(4)->Arg(8);

}  // namespace
