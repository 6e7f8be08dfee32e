#pragma once

#include "hurray/hurray.hpp"

namespace hurray::test {

/// The status that `call` throws, HURRAY_OK if it does not.
template <class Call>
HurrayStatus status_of(Call call) {
    try {
        call();
    } catch (const StatusError& error) {
        return error.status();
    }
    return HURRAY_OK;
}

}  // namespace hurray::test
