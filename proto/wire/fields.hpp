#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <protozero/basic_pbf_writer.hpp>
#include <protozero/pbf_reader.hpp>

#include "hurray/broker/v1/broker.pb.h"
#include "proto/wire/packet_buffer.hpp"

/// Protobuf's wire format, by protozero. For the codec's own files, and for what the daemon stores.
///
/// protoc's classes give the numbers of the fields, which come from broker.proto; none of their code is linked. They would
/// put every message together on the heap before it is read, and bring libprotobuf into programs that have one of their own.
namespace hurray::wire {

namespace pb = broker::v1;

using Reader = protozero::pbf_reader;
using Writer = protozero::basic_pbf_writer<PacketBuffer>;

/// What to compare Reader::tag_and_type() with. A field of another type is an unknown one.
template <class Number>
constexpr std::uint32_t varint(Number field) {
    return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(field), protozero::pbf_wire_type::varint);
}
template <class Number>
constexpr std::uint32_t bytes(Number field) {
    return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(field),
                                   protozero::pbf_wire_type::length_delimited);
}

inline std::string_view read_bytes(Reader& in) {
    const auto view = in.get_view();
    return {view.data(), view.size()};
}

/// Of any varint, as protobuf does.
inline bool read_bool(Reader& in) { return in.get_uint64() != 0; }

inline Reader reader(std::string_view message) { return Reader(message.data(), message.size()); }

// As proto3 has it: a field that is 0 or empty is left out. A message within a message says something even if it is empty.

inline void put(Writer& out, int field, std::uint64_t value) {
    if (value != 0) {
        out.add_uint64(static_cast<protozero::pbf_tag_type>(field), value);
    }
}

inline void put_bytes(Writer& out, int field, std::string_view value) {
    if (!value.empty()) {
        out.add_bytes(static_cast<protozero::pbf_tag_type>(field), value.data(), value.size());
    }
}

/// A message within `out`, as long as it lives. protozero leaves it out if nothing is written to it.
inline Writer part_of(Writer& out, int field) { return {out, static_cast<protozero::pbf_tag_type>(field)}; }

/// The numbers of a message that is one repeated field of them: packed, as proto3 has it, or one by one.
template <class Number>
std::vector<std::uint64_t> read_numbers(std::string_view message, Number field) {
    std::vector<std::uint64_t> numbers;
    for (Reader in = reader(message); in.next();) {
        if (in.tag_and_type() == bytes(field)) {
            const auto packed = in.get_packed_uint64();
            numbers.insert(numbers.end(), packed.begin(), packed.end());
        } else if (in.tag_and_type() == varint(field)) {
            numbers.push_back(in.get_uint64());
        } else {
            in.skip();
        }
    }
    return numbers;
}

}  // namespace hurray::wire
