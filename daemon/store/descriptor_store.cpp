#include "daemon/store/descriptor_store.hpp"

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "daemon/log.hpp"

namespace hurrayd::store {

void DescriptorStore::add(const std::string& name, int fd) { send("FDSTORE=1\nFDNAME=" + name, fd); }

void DescriptorStore::remove(const std::string& name) { send("FDSTOREREMOVE=1\nFDNAME=" + name, -1); }

void DescriptorStore::send(const std::string& lines, int fd) {
    const auto sent = manager_.send_in_time(lines, fd < 0 ? std::span<const int>() : std::span(&fd, 1));
    if (sent != NotifySocket::Sent::Done && !std::exchange(is_lost_, true)) {
        log::error("store_lost", {{"reason", std::strerror(errno)},
                                  {"effect", "what is published from now on does not outlive this process"}});
    }
}

}  // namespace hurrayd::store
