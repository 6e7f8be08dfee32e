#include "withdraw.hpp"

#include <iostream>
#include <vector>

#include "exit_codes.hpp"
#include "tensor_text.hpp"
#include "text.hpp"
#include "with_client.hpp"

namespace hurrayctl {

int withdraw(const Look& look, const std::string& name, std::uint64_t version) {
    if (name.empty() || name.back() == '/') {
        complain("withdraw wants a capsule's whole name; `hurrayctl list " + name + "` shows which there are");
        return kUsage;
    }
    return with_client(look, [&](hurray::Client& client) {
        std::vector<hurray::CapsuleInfo> found;
        client.for_each(name, [&](const hurray::CapsuleInfo& info) {
            if (!info.retired && (version == 0 || info.version == version)) {
                found.push_back(info);
            }
        });
        Json withdrawn = Json::array();
        // Oldest first, so that nobody who asks for the latest meanwhile gets an older one.
        for (const hurray::CapsuleInfo& info : found) {
            try {
                client.withdraw(info.capsule);
            } catch (const hurray::StatusError& error) {
                if (error.status() != HURRAY_ERR_NOT_FOUND) {
                    throw;
                }
                continue;  // it has ended meanwhile
            }
            withdrawn.push_back({{"name", info.name}, {"version", info.version}});
            if (!look.json) {
                std::cout << info.name << " version " << info.version << '\n';
            }
        }
        if (withdrawn.empty()) {
            complain("there is nothing to withdraw under " + name +
                     (version == 0 ? std::string() : " in version " + std::to_string(version)) +
                     ", as far as you may read; `hurrayctl list` shows what there is");
            return kRefused;
        }
        if (look.json) {
            print(withdrawn);
        }
        return kDone;
    });
}

}  // namespace hurrayctl
