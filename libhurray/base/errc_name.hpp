#pragma once

#include "libhurray/base/result.hpp"

namespace hurray {

/// The name of the status as it is written in hurray.h; logs, metrics and `hurray_status_string` use the same.
constexpr const char* errc_name(Errc code) noexcept {
    switch (code) {
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

}  // namespace hurray
