#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "libhurray/base/result.hpp"
#include "proto/wire/faults.hpp"
#include "proto/wire/fields.hpp"
#include "proto/wire/messages.hpp"

/// Reading and writing the parts that several messages have. For the codec's own files, and for what the daemon stores.
///
/// Each reader takes the bytes of its part, checks it and names the rule that was broken. All throw protozero::exception for what
/// is not protobuf.
namespace hurray::wire {

[[nodiscard]] Result<Id16> read_id(std::string_view bytes, const Path& path);

/// `path` is that of the capsule's id.
[[nodiscard]] Result<CapsuleId> read_capsule_id(std::string_view part, const Path& path);

/// `path` is that of its session_hash.
[[nodiscard]] Result<LeaseId> read_lease_id(std::string_view part, const Path& path);

[[nodiscard]] Access read_access(std::string_view part);

[[nodiscard]] Result<std::string> read_descriptor(std::string_view bytes, const Path& path);

/// Of a message that may have a name: empty, or one that obeys the rules.
[[nodiscard]] Result<std::string> read_optional_name(std::string_view bytes, const Path& path);

/// The bytes of each element of a repeated message. Most capsules have few.
using Parts = boost::container::small_vector<std::string_view, 8>;

/// `path_head` is that of the list.
[[nodiscard]] Result<std::vector<Segment>> read_segments(const Parts& parts, std::string_view path_head);
[[nodiscard]] Result<std::vector<Placement>> read_placements(const Parts& parts, std::string_view path_head);

/// Whether as many descriptors came as the segments carry.
[[nodiscard]] Result<void> check_fd_count(const std::vector<Segment>& segments, std::size_t fd_count,
                                          std::string_view path_head);

void put_id(Writer& out, int field, const Id16& value);
void put_capsule(Writer& out, int field, const CapsuleId& value);
void put_lease(Writer& out, int field, const LeaseId& lease);

}  // namespace hurray::wire
