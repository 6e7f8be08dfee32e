#pragma once

#include <string>

#include "daemon/notify_socket.hpp"

namespace hurrayd::store {

/// The service manager's descriptor store: what is in it comes back when this process is started again, whatever ended it. Each entry has
/// a name; they come back in an order that says nothing.
///
/// What was sent is with the manager, in this order, even if this process is killed the moment after. The manager answers nothing: over its
/// limit it drops what it is sent, and so does it the same open file under a second name. Who calls sees to both.
///
/// Threads: one. Blocks: while the manager does not read. It is what everything rests on, so nothing is answered without it.
class DescriptorStore {
  public:
    /// `manager` is a loan for life, and must be there.
    explicit DescriptorStore(const NotifySocket& manager) noexcept : manager_(manager) {}

    /// `name` has none of the kernel's line breaks and no ':'. `fd` is a loan for the call.
    void add(const std::string& name, int fd);
    /// All of that name; none is fine.
    void remove(const std::string& name);

  private:
    void send(const std::string& lines, int fd);

    const NotifySocket& manager_;
    bool is_lost_ = false;  ///< and that was said
};

}  // namespace hurrayd::store
