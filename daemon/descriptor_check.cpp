#include "daemon/descriptor_check.hpp"

#include <cstdint>
#include <span>
#include <string>

#include "libhurray/format/descriptor_error.hpp"
#include "libhurray/format/descriptor_reader.hpp"
#include "libhurray/format/validate.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;

/// The format's own statuses (INVALID_LAYOUT and so on) say what a decoder may say to its caller; to a peer it is all one:
/// a bad argument, with the rule in the message.
[[gnu::cold]] tl::unexpected<hurray::Error> refuse(const hurray::DescriptorError& fault, std::string_view field) {
    hurray::Error error = hurray::to_error(fault);
    error.code = Errc::InvalidArgument;
    error.field = error.field.empty() ? std::string(field) : std::string(field) + "." + error.field;
    return hurray::fail(std::move(error));
}

}  // namespace

hurray::Result<std::vector<hurray::wire::BufferExtent>> check_descriptor(std::string_view encoded,
                                                                         std::string_view field) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(encoded.data()), encoded.size());
    const auto view = hurray::decode_descriptor(bytes);
    if (!view) {
        return refuse(view.error(), field);
    }
    const auto length = hurray::declared_descriptor_length(bytes);
    if (!length) {
        return refuse(length.error(), field);
    }
    if (*length != bytes.size()) {
        return hurray::fail_field(Errc::InvalidArgument, std::string(field),
                                  "the descriptor declares " + std::to_string(*length) + " bytes, but " +
                                      std::to_string(bytes.size()) + " came");
    }
    if (const auto valid = hurray::validate_descriptor(*view, hurray::ValidationRules::Sharing); !valid) {
        return refuse(valid.error(), field);
    }
    std::vector<hurray::wire::BufferExtent> extents;
    extents.reserve(view->buffers.size());
    for (std::size_t i = 0; i < view->buffers.size(); ++i) {
        const hurray::BufferEntry entry = view->buffers[i];
        if (entry.device != hurray::DeviceTag::Cpu) {
            return hurray::fail_field(Errc::Unsupported,
                                      std::string(field) + ".buffers[" + std::to_string(i) + "].device",
                                      "memory of a device other than the CPU is not built yet");
        }
        extents.push_back({entry.byte_size, entry.alignment});
    }
    return extents;
}

}  // namespace hurrayd
