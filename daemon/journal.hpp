#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/log.hpp"
#include "libhurray/base/unique_fd.hpp"

namespace hurrayd {

/// The systemd journal's native protocol: one datagram a line, whose fields can be searched
/// (`journalctl -t hurrayd HURRAY_EVENT=session_cut HURRAY_UID=1000`).
///
/// Not sd_journal_send, which waits while the journal takes nothing: a journal that hangs would stop the daemon.
class Journal {
  public:
    /// Where the journal listens.
    static constexpr const char* kSocket = "/run/systemd/journal/socket";

    /// The journal, if $JOURNAL_STREAM says that `fd` leads there. It does not when stderr was redirected on the way.
    [[nodiscard]] static std::optional<Journal> behind(int fd);
    /// Whatever listens, or will listen, at `path`.
    explicit Journal(std::string path);

    enum class Sent { Done, NoRoom, NobodyThere };
    /// Sends `line` as MESSAGE, with PRIORITY and SYSLOG_IDENTIFIER, `event` as HURRAY_EVENT, and each field as
    /// HURRAY_KEY, as it is and not escaped. Never waits.
    Sent send(log::Level level, std::string_view line, std::string_view event, std::span<const log::Field> fields);

  private:
    std::string path_;
    hurray::UniqueFd socket_;
};

}  // namespace hurrayd
