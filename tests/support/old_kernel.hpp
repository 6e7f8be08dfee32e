#pragma once

namespace hurray::test {

/// Makes system calls fail as on an older kernel: for the calling process and all that it starts, for good. Throws
/// std::runtime_error where the kernel lets nobody do that. For a forked child, before it has threads.
///
/// Before Linux 6.5: no SO_PEERPIDFD, which tells the daemon of a peer's death.
void refuse_peer_pidfd();
/// Before Linux 6.3: memfd_create knows no MFD_NOEXEC_SEAL.
void refuse_noexec_seal();
/// Before Linux 5.3: no pidfd_open, nor pidfd_getfd.
void refuse_pidfd_calls();

}  // namespace hurray::test
