#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hurray::test {

/// Users that no system has, for tests that run as root.
inline constexpr uid_t kAlice = 54321;
inline constexpr uid_t kBob = 54322;
inline constexpr uid_t kCarol = 54323;
inline constexpr gid_t kVideoGroup = 54401;

/// While it lives this process is another user, in these groups. Who connects counts for a daemon, not who it is later. Needs root.
class AsUser {
  public:
    explicit AsUser(uid_t uid, const std::vector<gid_t>& groups = {}) : AsUser(uid, uid, groups) {}
    AsUser(uid_t uid, gid_t gid, const std::vector<gid_t>& groups) {
        if (::setgroups(groups.size(), groups.data()) != 0 || ::setegid(gid) != 0 || ::seteuid(uid) != 0) {
            throw std::runtime_error("can't become user " + std::to_string(uid));
        }
    }
    AsUser(const AsUser&) = delete;
    AsUser& operator=(const AsUser&) = delete;
    ~AsUser() {
        if (::seteuid(0) != 0 || ::setegid(0) != 0 || ::setgroups(0, nullptr) != 0) {
            ::_exit(77);  // nothing that follows would be what it says
        }
    }
};

/// Lets every user come to the socket of a daemon of the tests.
inline void admit_everybody(const std::string& socket_path) {
    if (::chmod(socket_path.c_str(), 0666) != 0 ||
        ::chmod(socket_path.substr(0, socket_path.rfind('/')).c_str(), 0755) != 0) {
        throw std::runtime_error("chmod " + socket_path);
    }
}

}  // namespace hurray::test
