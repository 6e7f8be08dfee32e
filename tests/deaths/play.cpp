#include "tests/deaths/play.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace hurray::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

HurrayStatus status_of(const std::function<void()>& act) {
    try {
        act();
        return HURRAY_OK;
    } catch (const StatusError& error) {
        return error.status();
    }
}

bool all_are(const Tensor& tensor, std::uint32_t stamp) {
    return std::ranges::all_of(tensor.elements<std::uint32_t>(), [=](std::uint32_t each) { return each == stamp; });
}

bool has_memfd(pid_t process) {
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
        if (std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:") != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

/// Attaches on their way.
class Play::Asking {
  public:
    Asking(Play& play, std::uint64_t count) : play_(play), count_(count) {
        const std::lock_guard lock(play_.mutex_);
        play_.asking_ += count_;
        play_.most_asking_ = std::max(play_.most_asking_, play_.asking_);
    }
    ~Asking() {
        const std::lock_guard lock(play_.mutex_);
        play_.asking_ -= count_;
    }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

  private:
    Play& play_;
    const std::uint64_t count_;
};

void Play::require(bool is_so, const std::string& what) {
    if (!is_so) {
        throw std::runtime_error(what);
    }
}

void Play::insist(const std::function<void()>& act) {
    for (const auto gives_up = Clock::now() + kPatience;; std::this_thread::sleep_for(1ms)) {
        const HurrayStatus status = status_of(act);
        if (status == HURRAY_OK || status == HURRAY_ERR_NOT_FOUND) {
            return;
        }
        require(status == HURRAY_ERR_CONNECTION_LOST,
                "a call failed with status " + std::to_string(status) + ": " + hurray_last_error_message());
        require(Clock::now() < gives_up, "the daemon does not come back");
    }
}

void Play::wait_until(const std::string& what, const std::function<bool()>& is_so) {
    for (const auto gives_up = Clock::now() + kPatience; !is_so(); std::this_thread::sleep_for(1ms)) {
        require(Clock::now() < gives_up, "waited in vain: " + what);
    }
}

std::uint64_t Play::used(const Client& client, const std::string& name) {
    std::uint64_t sum = 0;
    insist([&] {
        sum = 0;
        const auto status = nlohmann::json::parse(client.status());
        require(status.contains("uses"), "a status without the daemon's counts");
        for (const auto& use : status.at("uses")) {
            if (name.empty() || use.at("name") == name) {
                sum += use.at("used").get<std::uint64_t>();
            }
        }
    });
    return sum;
}

void Play::complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    complaints_.push_back(what);
    changed_.notify_all();
}

Client& Play::connect() {
    std::optional<Client> client;
    wait_until("a connection", [&] {
        const HurrayStatus status = status_of([&] {
            ConnectOptions options;
            options.address = daemon_.socket_path();
            options.timeout = kPatience;
            client.emplace(Client::connect(std::move(options)));
        });
        require(status == HURRAY_OK || status == HURRAY_ERR_CONNECTION_LOST,
                "connecting failed with status " + std::to_string(status));
        return status == HURRAY_OK;
    });
    const std::lock_guard lock(mutex_);
    return clients_.emplace_back(std::move(*client));
}

// ---- Producers ------------------------------------------------------------------------------------------------------

Play::Account& Play::open_account(Client& client, const std::string& name) {
    const std::lock_guard lock(mutex_);
    Account& account = accounts_.emplace_back();
    account.stamp = 0xC0DE'0000U + static_cast<std::uint32_t>(accounts_.size());
    account.name = name;
    account.producer = &client;
    return account;
}

EventFunction Play::events_of(Account& account) {
    return [this, &account](const Event& event) {
        const std::lock_guard lock(mutex_);
        note(account, event);
        changed_.notify_all();
    };
}

void Play::note(Account& account, const Event& event) {
    const auto wrong = [&](const std::string& what) {
        complaints_.push_back("'" + account.name + "': event " + std::to_string(event.kind) + " " + what);
    };
    if (account.ended != 0) {
        wrong("after it had ended");
    }
    if (account.capsule && event.capsule != *account.capsule) {
        wrong("is of another capsule");
    }
    switch (event.kind) {
        case HURRAY_EVENT_LEASE_OPENED:
            ++account.opened;
            break;
        case HURRAY_EVENT_LEASE_RELEASED:
            ++account.released;
            break;
        case HURRAY_EVENT_LEASE_LOST:
            ++account.lost;
            break;
        case HURRAY_EVENT_LEASE_TAKEN:
            ++account.taken;
            break;
        case HURRAY_EVENT_ENDED:
            ++account.ended;
            if (account.opened != account.released + account.lost) {
                wrong("with leases open");
            }
            if (event.reusable && account.lost != 0) {
                wrong("as reusable, with a lost lease");
            }
            return;
        default:
            wrong("is not one of a capsule");
    }
    if (account.opened < account.released + account.lost) {
        wrong("closes more leases than were opened");
    } else if (event.remaining != account.opened - account.released - account.lost) {
        wrong("says that " + std::to_string(event.remaining) + " leases remain");
    }
}

Allocation Play::filled(Client& client, std::uint64_t elements, std::uint32_t stamp) {
    Allocation allocation = client.allocate<std::uint32_t>({elements});
    std::ranges::fill(allocation.elements<std::uint32_t>(), stamp);
    return allocation;
}

void Play::note_published(Account& account, const CapsuleInfo& info) {
    const std::lock_guard lock(mutex_);
    account.capsule = info.capsule;
    account.version = info.version;
    if (info.version != 0) {
        std::uint64_t& last = published_[account.name];
        if (info.version <= last) {
            complaints_.push_back("'" + account.name + "' was published as version " + std::to_string(info.version) +
                                  ", after " + std::to_string(last));
        }
        last = info.version;
    }
}

CapsuleInfo Play::publish(Client& client, const std::string& name, PublishOptions options, std::uint64_t elements) {
    Account& account = open_account(client, name);
    options.timeout = kPatience;
    options.tell_opened = true;
    options.on_event = events_of(account);
    account.once = options.once;
    CapsuleInfo info = client.publish(name, filled(client, elements, account.stamp), std::move(options));
    note_published(account, info);
    return info;
}

void Play::publish_many(Client& client, const std::vector<std::string>& names) {
    std::vector<Publication> publications;
    std::vector<Account*> accounts;
    for (const std::string& name : names) {
        Account& account = *accounts.emplace_back(&open_account(client, name));
        PublishOptions options;
        options.timeout = kPatience;
        options.tell_opened = true;
        options.on_event = events_of(account);
        publications.push_back({name, filled(client, kSmall, account.stamp), std::move(options)});
    }
    client.publish_many(publications);
    for (std::size_t i = 0; i < names.size(); ++i) {
        note_published(*accounts[i], publications[i].info);
    }
}

// ---- Consumers ------------------------------------------------------------------------------------------------------

void Play::note_view(const Client& client, Tensor&& tensor, bool is_latest) {
    const CapsuleInfo& info = tensor.info();
    const std::uint32_t stamp = tensor.elements<std::uint32_t>()[0];
    require(all_are(tensor, stamp), "a view of '" + info.name + "' that is not of one publish");
    const std::lock_guard lock(mutex_);
    std::uint64_t& seen = attached_[{&client, info.name}];
    if (is_latest && info.version < seen) {
        complaints_.push_back("'" + info.name + "' came as version " + std::to_string(info.version) + ", after " +
                              std::to_string(seen));
    }
    seen = std::max(seen, info.version);
    if (stamps_seen_.try_emplace(info.capsule, stamp).first->second != stamp) {
        complaints_.push_back("two views of one capsule of '" + info.name + "' differ");
    }
    ++views_[info.capsule];
    held_.push_back({std::move(tensor), stamp});
}

CapsuleInfo Play::attach(Client& client, const std::string& name, AttachOptions options) {
    const bool is_latest = options.version == 0 && options.newer_than == 0;
    options.timeout = kPatience;
    const Asking asking(*this, 1);
    Tensor tensor = client.attach(name, options);
    require(tensor.name() == name, "another name came than was asked for");
    require(options.version == 0 || tensor.info().version == options.version,
            "another version came than was asked for");
    require(tensor.info().version > options.newer_than, "no newer version came");
    CapsuleInfo info = tensor.info();
    note_view(client, std::move(tensor), is_latest);
    return info;
}

void Play::attach_many(Client& client, const std::vector<std::string>& names) {
    AttachOptions options;
    options.timeout = kPatience;
    const Asking asking(*this, names.size());
    std::vector<Tensor> tensors = client.attach_many(names, options);
    require(tensors.size() == names.size(), "not all came that were asked for");
    for (std::size_t i = 0; i < names.size(); ++i) {
        require(tensors[i].name() == names[i], "another name came than was asked for");
        note_view(client, std::move(tensors[i]), true);
    }
}

CapsuleInfo Play::take(Client& client, const std::string& name) {
    AttachOptions options;
    options.timeout = kPatience;
    const Asking asking(*this, 1);
    Tensor tensor = client.take(name, options);
    CapsuleInfo info = tensor.info();
    note_view(client, std::move(tensor), false);
    return info;
}

void Play::require_all_taken() {
    std::unique_lock lock(mutex_);
    for (const Account& account : accounts_) {
        if (account.once) {
            require(changed_.wait_for(lock, kPatience, [&] { return account.taken == 1; }),
                    "a taken capsule of '" + account.name + "' was not told taken");
            require(views_[*account.capsule] == 1,
                    "a capsule of '" + account.name + "' was taken by " + std::to_string(views_[*account.capsule]));
        }
    }
}

void Play::drop(View&& view) {
    if (!all_are(view.tensor, view.stamp)) {
        complain("'" + view.tensor.name() + "' was written to while it was held");
    }
    view.tensor.release();
}

void Play::release(const CapsuleInfo& info) {
    std::optional<View> view;
    {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::ranges::find_if(held_, [&](const View& each) { return each.tensor.info().capsule == info.capsule; });
        require(found != held_.end(), "there is no view of '" + info.name + "'");
        view.emplace(std::move(*found));
        held_.erase(found);
    }
    drop(std::move(*view));
}

void Play::release_all() {
    std::deque<View> views;
    {
        const std::lock_guard lock(mutex_);
        views.swap(held_);
    }
    for (View& view : views) {
        drop(std::move(view));
    }
}

// ---- The end --------------------------------------------------------------------------------------------------------

void Play::end_capsules() {
    for (Account& account : accounts_) {
        bool is_there = false;
        {
            const std::lock_guard lock(mutex_);
            is_there = account.capsule && account.ended == 0;
        }
        if (is_there) {
            insist([&] { account.producer->withdraw(*account.capsule); });
        }
    }
    std::unique_lock lock(mutex_);
    const auto all_ended = [this] {
        return std::ranges::all_of(accounts_,
                                   [](const Account& account) { return !account.capsule || account.ended != 0; });
    };
    if (!changed_.wait_for(lock, kPatience, all_ended)) {
        for (const Account& account : accounts_) {
            if (account.capsule && account.ended == 0) {
                complaints_.push_back("'" + account.name + "', version " + std::to_string(account.version) +
                                      ", was not told ended; leases opened " + std::to_string(account.opened) +
                                      ", released " + std::to_string(account.released) + ", lost " +
                                      std::to_string(account.lost));
            }
        }
    }
}

void Play::check_accounts() {
    const std::uint64_t deaths = daemon_.stopped() + 1;  // one may have been a plain kill
    const std::lock_guard lock(mutex_);
    const auto wrong = [&](const Account& account, const std::string& what) {
        complaints_.push_back("'" + account.name + "': " + what);
    };
    std::uint64_t lost = 0;
    std::uint64_t strangers = 0;
    for (const Account& account : accounts_) {
        lost += account.lost;
        if (!account.capsule) {
            continue;  // its publish has failed, as some may
        }
        const std::uint64_t viewed = views_[*account.capsule];
        strangers += account.released - std::min(viewed, account.released);
        if (account.released < viewed) {
            wrong(account, std::to_string(viewed) + " views were let go of, and " + std::to_string(account.released) +
                               " leases told released");
        }
        if (account.opened != account.released + account.lost) {
            wrong(account, std::to_string(account.opened) + " leases were opened, " + std::to_string(account.released) +
                               " released, " + std::to_string(account.lost) + " lost");
        }
        if (account.taken > 1) {
            wrong(account, "told taken " + std::to_string(account.taken) + " times");
        }
        if (const auto seen = stamps_seen_.find(*account.capsule);
            seen != stamps_seen_.end() && seen->second != account.stamp) {
            wrong(account, "was seen as something else");
        }
    }
    if (strangers > strangers_) {
        complaints_.push_back(std::to_string(strangers) + " leases were told released that nobody had");
    }
    if (const std::uint64_t most = deaths * most_asking_ + strangers_; lost > most) {
        complaints_.push_back(std::to_string(lost) + " leases were lost, at most " + std::to_string(most) + " can be");
    }
}

void Play::check_nothing_is_left() {
    Client& witness = connect();
    wait_until("the daemon has nothing left", [&] { return used(witness, "") == 0; });
    insist([&] {
        require(nlohmann::json::parse(witness.status()).at("writing").empty(), "something is being written still");
    });
    wait_until("the daemon has let go of all memory", [&] { return !has_memfd(daemon_.pid()); });
}

void Play::finish() {
    release_all();
    end_capsules();
    check_accounts();
    {
        const std::lock_guard lock(mutex_);
        if (!complaints_.empty()) {
            std::string all;
            for (const std::string& complaint : complaints_) {
                all += "\n  " + complaint;
            }
            throw std::runtime_error(all);
        }
    }
    clients_.clear();
    check_nothing_is_left();
    clients_.clear();
}

// ---- Watchers -------------------------------------------------------------------------------------------------------

EventFunction Watched::sink() {
    return [this](const Event& event) {
        const std::lock_guard lock(mutex_);
        switch (event.kind) {
            case HURRAY_EVENT_PRESENT:
            case HURRAY_EVENT_PUBLISHED:
                if (!ever_shown_.insert(event.capsule).second) {
                    complaint_ = "'" + std::string(event.name) + "' was told twice";
                }
                shown_[event.capsule] = {std::string(event.name), event.version};
                break;
            case HURRAY_EVENT_RETIRED:
                if (shown_.erase(event.capsule) == 0) {
                    complaint_ = "'" + std::string(event.name) + "' retired, and had not been there";
                }
                break;
            case HURRAY_EVENT_SNAPSHOT_END:
            case HURRAY_EVENT_GAP:
                break;
            default:
                complaint_ = "a watcher was told event " + std::to_string(event.kind);
        }
        changed_.notify_all();
    };
}

void Watched::wait_for(const std::set<std::pair<std::string, std::uint64_t>>& believed) {
    std::unique_lock lock(mutex_);
    const auto is_so = [&] {
        std::set<std::pair<std::string, std::uint64_t>> now;
        for (const auto& [capsule, shown] : shown_) {
            now.insert(shown);
        }
        return now == believed;
    };
    Play::require(changed_.wait_for(lock, kPatience, is_so), "a watcher does not come to know what is there");
    Play::require(complaint_.empty(), complaint_);
}

}  // namespace hurray::test
