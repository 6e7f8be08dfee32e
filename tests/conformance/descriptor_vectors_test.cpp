// Agreement with the public implementation, vector for vector: descriptor_vectors.jsonl.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hurray.h"

#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/descriptor_value.hpp"
#include "libhurray/format/quantization.hpp"
#include "libhurray/format/validate.hpp"
#include "tests/support/hex.hpp"

namespace hurray {
namespace {

using nlohmann::json;

struct Vector {
    json fields;
    std::vector<std::uint8_t> bytes;

    [[nodiscard]] std::string id() const { return fields.at("id"); }
    [[nodiscard]] HurrayStatus status() const { return fields.at("status"); }
    [[nodiscard]] const json& decoded() const { return fields.at("decoded"); }
    /// What encoding the decoded descriptor gives.
    [[nodiscard]] std::vector<std::uint8_t> canonical() const {
        return decoded().at("reencode") == "identical"
                   ? bytes
                   : test::from_hex(decoded().at("reencode_hex").get<std::string>());
    }
};

const std::vector<Vector>& vectors() {
    static const auto all = [] {
        std::vector<Vector> result;
        std::ifstream file(HURRAY_CONFORMANCE_DIR "/descriptor_vectors.jsonl");
        for (std::string line; std::getline(file, line);) {
            json fields = json::parse(line);
            auto bytes = test::from_hex(fields.at("hex").get<std::string>());
            result.push_back({std::move(fields), std::move(bytes)});
        }
        return result;
    }();
    return all;
}

/// A pointer that is not null, also for no bytes.
const std::uint8_t* address(const std::vector<std::uint8_t>& bytes) {
    static const std::uint8_t nothing = 0;
    return bytes.empty() ? &nothing : bytes.data();
}

std::string decimal(std::uint64_t number) { return std::to_string(number); }

std::string label(const DescriptorResult<void>& result) {
    return result ? "ok" : std::string(fault_name(result.error().fault));
}

TEST(DescriptorVectors, ThereAreSome) { ASSERT_GT(vectors().size(), 1000U); }

TEST(DescriptorVectors, EveryStatusAgreesAndFailuresLeaveTheOutputAlone) {
    auto* const untouched = reinterpret_cast<HurrayDescriptor*>(std::uintptr_t{0xABCD});
    for (const Vector& vector : vectors()) {
        HurrayDescriptor* descriptor = untouched;
        const HurrayStatus status = hurray_descriptor_decode(address(vector.bytes), vector.bytes.size(), &descriptor);
        EXPECT_EQ(status, vector.status()) << vector.id() << ": " << hurray_last_error_message();
        if (status == HURRAY_OK) {
            hurray_descriptor_destroy(descriptor);
        } else {
            EXPECT_EQ(descriptor, untouched) << vector.id();
        }
    }
}

TEST(DescriptorVectors, EveryErrorHasTheSameName) {
    for (const Vector& vector : vectors()) {
        const auto view = decode_descriptor(vector.bytes);
        const json expected = vector.fields.at("error");
        if (view) {
            EXPECT_TRUE(expected.is_null()) << vector.id() << ": " << expected;
        } else {
            EXPECT_EQ(expected, fault_name(view.error().fault)) << vector.id() << ": " << describe(view.error());
        }
    }
}

TEST(DescriptorVectors, EveryDecodedFieldAgrees) {
    for (const Vector& vector : vectors()) {
        if (vector.status() != HURRAY_OK) {
            continue;
        }
        const auto view = decode_descriptor(vector.bytes);
        ASSERT_TRUE(view) << vector.id();
        json dims = json::array();
        for (std::size_t k = 0; k < view->shape.rank(); ++k) {
            dims.push_back(decimal(view->shape[k]));
        }
        json buffers = json::array();
        for (std::size_t i = 0; i < view->buffers.size(); ++i) {
            const BufferEntry entry = view->buffers[i];
            buffers.push_back({{"byte_size", decimal(entry.byte_size)},
                               {"alignment", entry.alignment},
                               {"device_tag", static_cast<unsigned>(entry.device)},
                               {"sync_mode", static_cast<unsigned>(entry.sync_mode)},
                               {"memory_class", static_cast<unsigned>(entry.memory_class)}});
        }
        const json& expected = vector.decoded();
        EXPECT_EQ(expected.at("version_major"), view->version_major) << vector.id();
        EXPECT_EQ(expected.at("version_minor"), view->version_minor) << vector.id();
        EXPECT_EQ(expected.at("rank"), view->shape.rank()) << vector.id();
        EXPECT_EQ(expected.at("element_type_tag"), static_cast<unsigned>(view->element_type)) << vector.id();
        EXPECT_EQ(expected.at("layout_tag"), static_cast<unsigned>(view->layout.tag)) << vector.id();
        EXPECT_EQ(expected.at("byte_offset"), decimal(view->byte_offset)) << vector.id();
        EXPECT_EQ(expected.at("buffer_count"), view->buffers.size()) << vector.id();
        EXPECT_EQ(expected.at("dims"), dims) << vector.id();
        EXPECT_EQ(expected.at("buffers"), buffers) << vector.id();
    }
}

TEST(DescriptorVectors, TheSameSectionsAreThere) {
    for (const Vector& vector : vectors()) {
        if (vector.status() != HURRAY_OK) {
            continue;
        }
        const auto view = decode_descriptor(vector.bytes);
        ASSERT_TRUE(view) << vector.id();
        std::vector<std::string> sections;
        const auto note = [&](bool present, const char* name) {
            if (present) {
                sections.emplace_back(name);
            }
        };
        note(view->composite_member.has_value(), "composite_member");
        note(view->extension_type.has_value(), "extension_type");
        note(view->quantization.has_value(), "quantization");
        note(view->shard.has_value(), "shard");
        note(view->statistics.has_value(), "statistics");
        auto expected = vector.decoded().at("sections").get<std::vector<std::string>>();
        std::sort(expected.begin(), expected.end());
        EXPECT_EQ(sections, expected) << vector.id();
    }
}

TEST(DescriptorVectors, EncodingAgainGivesTheSameBytes) {
    for (const Vector& vector : vectors()) {
        if (vector.status() != HURRAY_OK) {
            continue;
        }
        HurrayDescriptor* descriptor = nullptr;
        ASSERT_EQ(hurray_descriptor_decode(vector.bytes.data(), vector.bytes.size(), &descriptor), HURRAY_OK)
            << vector.id();
        uintptr_t length = 0;
        EXPECT_EQ(hurray_descriptor_encode(descriptor, nullptr, &length), HURRAY_ERR_BUFFER_TOO_SMALL);
        std::vector<std::uint8_t> encoded(length);
        EXPECT_EQ(hurray_descriptor_encode(descriptor, encoded.data(), &length), HURRAY_OK);
        EXPECT_EQ(encoded, vector.canonical()) << vector.id();
        hurray_descriptor_destroy(descriptor);
    }
}

TEST(DescriptorVectors, ValuesEncodeToTheSameBytesAsViews) {
    for (const Vector& vector : vectors()) {
        if (vector.status() != HURRAY_OK) {
            continue;
        }
        const auto view = decode_descriptor(vector.bytes);
        ASSERT_TRUE(view) << vector.id();
        const auto encoded = DescriptorValue::of(*view).encode();
        ASSERT_TRUE(encoded) << vector.id() << ": " << describe(encoded.error());
        EXPECT_EQ(*encoded, vector.canonical()) << vector.id();
    }
}

TEST(DescriptorVectors, TheChecksBeyondDecodingAgree) {
    for (const Vector& vector : vectors()) {
        if (vector.status() != HURRAY_OK) {
            continue;
        }
        const auto view = decode_descriptor(vector.bytes);
        ASSERT_TRUE(view) << vector.id();
        const json& expected = vector.decoded().at("beyond_decode");
        EXPECT_EQ(expected.at("layout_vs_shape"), label(check_layout_against_shape(*view))) << vector.id();
        EXPECT_EQ(expected.at("colocation"), label(check_colocation(view->buffers))) << vector.id();
        json quantization;
        if (view->quantization) {
            quantization = label(parse_quantization(*view->quantization).map([](const Quantization&) {}));
            // The whole check says the same of bytes that can't be taken apart, and goes on where they can.
            EXPECT_TRUE(quantization == "ok" || quantization == label(check_quantization(*view))) << vector.id();
        }
        EXPECT_EQ(expected.at("quantization"), quantization) << vector.id();
    }
}

TEST(DescriptorVectors, WhatTheStrictChecksAcceptTheReferenceAcceptsToo) {
    std::size_t valid = 0;
    for (const Vector& vector : vectors()) {
        const auto view = decode_descriptor(vector.bytes);
        if (!view || !validate_descriptor(*view)) {
            continue;
        }
        ++valid;
        const json& beyond = vector.decoded().at("beyond_decode");
        EXPECT_EQ(beyond.at("layout_vs_shape"), "ok") << vector.id();
        const bool head = view->layout.tag == LayoutTag::CompositeHead;  // it has no buffers to be together
        EXPECT_EQ(beyond.at("colocation"), head ? "EmptyBufferList" : "ok") << vector.id();
        EXPECT_TRUE(beyond.at("quantization").is_null() || beyond.at("quantization") == "ok") << vector.id();
    }
    EXPECT_GT(valid, 100U);
}

}  // namespace
}  // namespace hurray
