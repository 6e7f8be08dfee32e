#include "hurray.h"

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
    switch (static_cast<Errc>(status)) {
        case Errc::InvalidMagic:
            return "HURRAY_ERR_INVALID_MAGIC";
        case Errc::VersionMismatch:
            return "HURRAY_ERR_VERSION_MISMATCH";
        case Errc::InvalidLayout:
            return "HURRAY_ERR_INVALID_LAYOUT";
        case Errc::InvalidType:
            return "HURRAY_ERR_INVALID_TYPE";
        case Errc::BufferTooSmall:
            return "HURRAY_ERR_BUFFER_TOO_SMALL";
        case Errc::NullPointer:
            return "HURRAY_ERR_NULL_POINTER";
        case Errc::InternalPanic:
            return "HURRAY_ERR_INTERNAL_PANIC";
        case Errc::InvalidSyncMode:
            return "HURRAY_ERR_INVALID_SYNC_MODE";
        case Errc::SyncModeMismatch:
            return "HURRAY_ERR_SYNC_MODE_MISMATCH";
        case Errc::Internal:
            return "HURRAY_ERR_INTERNAL";
        case Errc::IndexOutOfBounds:
            return "HURRAY_ERR_INDEX_OUT_OF_BOUNDS";
        case Errc::NotFound:
            return "HURRAY_ERR_NOT_FOUND";
        case Errc::AlreadyExists:
            return "HURRAY_ERR_ALREADY_EXISTS";
        case Errc::TimedOut:
            return "HURRAY_ERR_TIMED_OUT";
        case Errc::NotPermitted:
            return "HURRAY_ERR_NOT_PERMITTED";
        case Errc::OverQuota:
            return "HURRAY_ERR_OVER_QUOTA";
        case Errc::NoSpace:
            return "HURRAY_ERR_NO_SPACE";
        case Errc::Limit:
            return "HURRAY_ERR_LIMIT";
        case Errc::DaemonUnavailable:
            return "HURRAY_ERR_DAEMON_UNAVAILABLE";
        case Errc::ConnectionLost:
            return "HURRAY_ERR_CONNECTION_LOST";
        case Errc::Protocol:
            return "HURRAY_ERR_PROTOCOL";
        case Errc::ProducerLost:
            return "HURRAY_ERR_PRODUCER_LOST";
        case Errc::Unsupported:
            return "HURRAY_ERR_UNSUPPORTED";
        case Errc::InvalidArgument:
            return "HURRAY_ERR_INVALID_ARGUMENT";
        case Errc::Forked:
            return "HURRAY_ERR_FORKED";
        case Errc::Closed:
            return "HURRAY_ERR_CLOSED";
        case Errc::WouldBlock:
            return "HURRAY_ERR_WOULD_BLOCK";
        case Errc::DeviceUnavailable:
            return "HURRAY_ERR_DEVICE_UNAVAILABLE";
        case Errc::DeviceError:
            return "HURRAY_ERR_DEVICE_ERROR";
        case Errc::Interrupted:
            return "HURRAY_ERR_INTERRUPTED";
    }
    return "not a HurrayStatus";
}
