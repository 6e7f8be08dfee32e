#pragma once

// The only include of Boost.Asio. <utility> comes first: Asio of Boost 1.74 uses std::exchange without it (gcc 12).
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

namespace hurrayd {

namespace asio = boost::asio;

/// Something to wait on: a socket, a listener, a set of pidfds. Asio only waits; what is read, sent or accepted goes through the
/// system calls themselves, since descriptors arrive only there and are born close-on-exec only there. So no socket class
/// of Asio's is needed, nor one for SOCK_SEQPACKET.
using Waitable = asio::posix::stream_descriptor;

}  // namespace hurrayd
