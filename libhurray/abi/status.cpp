#include "hurray.h"

#include "libhurray/base/errc_name.hpp"
#include "libhurray/base/result.hpp"

namespace {

using hurray::Errc;

constexpr HurrayStatus number(Errc code) { return static_cast<HurrayStatus>(code); }

// Errc and HurrayStatus are one table of numbers.
static_assert(number(Errc::InvalidMagic) == HURRAY_ERR_INVALID_MAGIC);
static_assert(number(Errc::VersionMismatch) == HURRAY_ERR_VERSION_MISMATCH);
static_assert(number(Errc::InvalidLayout) == HURRAY_ERR_INVALID_LAYOUT);
static_assert(number(Errc::InvalidType) == HURRAY_ERR_INVALID_TYPE);
static_assert(number(Errc::BufferTooSmall) == HURRAY_ERR_BUFFER_TOO_SMALL);
static_assert(number(Errc::NullPointer) == HURRAY_ERR_NULL_POINTER);
static_assert(number(Errc::InternalPanic) == HURRAY_ERR_INTERNAL_PANIC);
static_assert(number(Errc::InvalidSyncMode) == HURRAY_ERR_INVALID_SYNC_MODE);
static_assert(number(Errc::SyncModeMismatch) == HURRAY_ERR_SYNC_MODE_MISMATCH);
static_assert(number(Errc::Internal) == HURRAY_ERR_INTERNAL);
static_assert(number(Errc::IndexOutOfBounds) == HURRAY_ERR_INDEX_OUT_OF_BOUNDS);
static_assert(number(Errc::NotFound) == HURRAY_ERR_NOT_FOUND);
static_assert(number(Errc::AlreadyExists) == HURRAY_ERR_ALREADY_EXISTS);
static_assert(number(Errc::TimedOut) == HURRAY_ERR_TIMED_OUT);
static_assert(number(Errc::NotPermitted) == HURRAY_ERR_NOT_PERMITTED);
static_assert(number(Errc::OverQuota) == HURRAY_ERR_OVER_QUOTA);
static_assert(number(Errc::NoSpace) == HURRAY_ERR_NO_SPACE);
static_assert(number(Errc::Limit) == HURRAY_ERR_LIMIT);
static_assert(number(Errc::DaemonUnavailable) == HURRAY_ERR_DAEMON_UNAVAILABLE);
static_assert(number(Errc::ConnectionLost) == HURRAY_ERR_CONNECTION_LOST);
static_assert(number(Errc::Protocol) == HURRAY_ERR_PROTOCOL);
static_assert(number(Errc::ProducerLost) == HURRAY_ERR_PRODUCER_LOST);
static_assert(number(Errc::Unsupported) == HURRAY_ERR_UNSUPPORTED);
static_assert(number(Errc::InvalidArgument) == HURRAY_ERR_INVALID_ARGUMENT);
static_assert(number(Errc::Forked) == HURRAY_ERR_FORKED);
static_assert(number(Errc::Closed) == HURRAY_ERR_CLOSED);
static_assert(number(Errc::WouldBlock) == HURRAY_ERR_WOULD_BLOCK);
static_assert(number(Errc::DeviceUnavailable) == HURRAY_ERR_DEVICE_UNAVAILABLE);
static_assert(number(Errc::DeviceError) == HURRAY_ERR_DEVICE_ERROR);
static_assert(number(Errc::Interrupted) == HURRAY_ERR_INTERRUPTED);

}  // namespace

uint32_t hurray_c_abi_version(void) { return HURRAY_C_ABI_VERSION; }

const char* hurray_status_string(HurrayStatus status) {
    if (status == HURRAY_OK) {
        return "HURRAY_OK";
    }
    return hurray::errc_name(static_cast<Errc>(status));
}
