// hurray_soak: producers and consumers of a private hurrayd hand memory over, a million times if asked, while others take jobs from queues
// and watch, and consumers, takers and watchers are killed and everybody comes and goes. Each view must show what was published, as
// long as it is held; each producer must be told what happened to its memory, once; each job is had by one taker; and in the end nothing is
// left. With --daemon-deaths the daemon is killed as well, at any moment, and comes back; it must all be the same. Leavers, then, publish what
// lingers, and leave or are killed: it must be there until they withdraw or replace it, and never again.
//
//   hurray_soak [--rounds N] [--daemon-deaths N] [--seed N] [--producers N] [--leavers N] [--consumers N] [--takers N] [--watchers N]
//               [--max-bytes N] [--kill-every N]
//
// A round is a capsule that is published and, on the average, one view of it that is checked. It ends after so many rounds, or after so many deaths
// of the daemon if any are wanted. The seed decides what each process does; in which order they meet, only the machine knows. Ends with 0
// if all was as it must be, else with 1 and what was not.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <hurray/client.hpp>
#include <nlohmann/json.hpp>

#include "tests/soak/actor.hpp"
#include "tests/soak/stage.hpp"
#include "tests/support/prometheus_text.hpp"
#include "tests/support/store_manager.hpp"
#include "tests/support/temporary_directory.hpp"

namespace hurray::soak {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Wanted {
    std::uint64_t rounds = 10'000;
    std::uint64_t daemon_deaths = 0;  ///< that many, whatever `rounds` says
    std::uint64_t seed = std::random_device()();
    std::uint64_t producers = 3;
    std::uint64_t leavers = 2;  ///< if the daemon dies
    std::uint64_t consumers = 4;
    std::uint64_t takers = 2;
    std::uint64_t watchers = 1;
    std::uint64_t max_bytes = std::uint64_t{4} << 20;
    std::uint64_t kill_every = 500;  ///< rounds
};

Wanted parse(int argc, char** argv) {
    static const std::set<std::string> kMayBeZero = {"--seed", "--daemon-deaths", "--leavers", "--watchers"};
    Wanted wanted;
    const std::map<std::string, std::uint64_t*> numbers = {
        {"--rounds", &wanted.rounds},       {"--daemon-deaths", &wanted.daemon_deaths},
        {"--seed", &wanted.seed},           {"--producers", &wanted.producers},
        {"--leavers", &wanted.leavers},     {"--consumers", &wanted.consumers},
        {"--takers", &wanted.takers},       {"--watchers", &wanted.watchers},
        {"--max-bytes", &wanted.max_bytes}, {"--kill-every", &wanted.kill_every}};
    for (int i = 1; i < argc; i += 2) {
        const auto found = numbers.find(argv[i]);
        char* end = nullptr;
        if (found == numbers.end() || i + 1 == argc) {
            throw std::invalid_argument(std::string("unknown option, or one without a number: ") + argv[i]);
        }
        *found->second = std::strtoull(argv[i + 1], &end, 10);
        if (*end != '\0' || (*found->second == 0 && kMayBeZero.count(found->first) == 0)) {
            throw std::invalid_argument(std::string(argv[i]) + " takes a number above 0, not " + argv[i + 1]);
        }
    }
    return wanted;
}

/// The run as whoever started it sees it.
class Run {
  public:
    explicit Run(const Wanted& wanted)
        : wanted_(wanted),
          random_(wanted.seed),
          ledger_(Ledger::create(wanted.producers, leavers(), kMostRecords)),
          daemon_({.arguments = {"--config", config()}}) {}

    bool play() {
        std::fprintf(stderr,
                     "hurray_soak: %s, %llu producers, %llu leavers, %llu consumers, %llu takers, %llu watchers, up to "
                     "%llu bytes, "
                     "one of those that are not producers killed every %llu rounds; seed %llu\n",
                     goal().c_str(), as_printed(wanted_.producers), as_printed(leavers()),
                     as_printed(wanted_.consumers), as_printed(wanted_.takers), as_printed(wanted_.watchers),
                     as_printed(wanted_.max_bytes), as_printed(wanted_.kill_every), as_printed(wanted_.seed));
        const std::size_t descriptors_before = open_descriptors().size();
        if (!play_out() || !nothing_is_left(descriptors_before)) {
            std::fprintf(stderr, "hurray_soak: the daemon's log:\n%s\n", daemon_.log().c_str());
            return false;
        }
        return true;
    }

  private:
    /// Of each producer: more than any run publishes. Memory is used as far as it is written.
    static constexpr std::size_t kMostRecords = std::size_t{1} << 22;

    [[nodiscard]] bool is_mortal() const { return wanted_.daemon_deaths != 0; }
    [[nodiscard]] std::uint64_t leavers() const { return is_mortal() ? wanted_.leavers : 0; }

    [[nodiscard]] std::string goal() const {
        return is_mortal() ? std::to_string(wanted_.daemon_deaths) + " deaths of the daemon"
                           : std::to_string(wanted_.rounds) + " rounds";
    }

    std::string config() {
        const std::string file = directory_ / "hurrayd.toml";
        // Some windows end between two deaths: as a rule as soon as all that was there is back. On a slow machine everybody must have come in
        // time, or what is his is over.
        std::ofstream(file) << "[resume]\nwindow = 10\n[metrics]\npath = \"" << metrics_path() << "\"\n";
        return file;
    }
    [[nodiscard]] std::string metrics_path() const { return directory_ / "metrics.sock"; }

    /// What the daemon's descriptors are.
    std::vector<std::string> open_descriptors() {
        std::vector<std::string> targets;
        for (const auto& entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(daemon_.pid()) + "/fd")) {
            std::error_code gone;
            targets.push_back(std::filesystem::read_symlink(entry.path(), gone).string());
        }
        return targets;
    }

    void start(const std::string& role, std::uint64_t count, std::size_t first = 0) {
        for (std::size_t i = first; i < first + count; ++i) {
            const std::uint64_t share = is_mortal() ? kMostRecords / 2 : (wanted_.rounds + i) / wanted_.producers;
            stage_.start({role, i, 0, wanted_.seed, role == "producer" ? share : 0, wanted_.max_bytes,
                          daemon_.socket_path(), ledger_.fd(), is_mortal()});
        }
    }

    bool play_out() {
        start("watcher", wanted_.watchers);
        start("producer", wanted_.producers);
        start("leaver", leavers(), wanted_.producers);
        start("consumer", wanted_.consumers);
        start("taker", wanted_.takers);
        std::vector<std::string> victims = {"consumer", "consumer", "taker", "taker", "watcher"};
        if (leavers() != 0) {
            victims.insert(victims.end(), 2, "leaver");
        }
        std::uint64_t kill_at = wanted_.kill_every;
        while (stage_.running("producer") > 0) {
            if (!look()) {
                return false;
            }
            if (tally().published >= kill_at) {
                stage_.replace(victims.at(random_() % victims.size()), random_);
                ++killed_;
                kill_at = tally().published + 1 + random_() % (2 * wanted_.kill_every);
            }
            if (is_mortal()) {
                let_daemon_die();
            }
        }
        if (!wait_for("leaver")) {
            return false;
        }
        tally().stop = true;
        if (!wait_for("consumer") || !wait_for("taker") || !wait_for("watcher")) {
            return false;
        }
        print_progress();
        return true;
    }

    /// Until all of that role have ended. False if not all is well.
    bool wait_for(const char* role) {
        while (stage_.running(role) > 0) {
            if (!look()) {
                return false;
            }
        }
        return true;
    }

    /// When its time has come: most often before its window is over, but one life in eight lives longer, however slow the machine, and one in
    /// every ten seconds: without the end of a window nobody can go on. In the others it may die of its own store before: right after it has
    /// sent something to be kept or removed, before anybody is told.
    void let_daemon_die() {
        if (Clock::now() < dies_at_ || tally().enough) {
            return;
        }
        if (std::exchange(outlives_window_, false)) {
            const double window_left = test::scrape(metrics_path()).at("hurray_resume_window_seconds");
            outlives_window_ = window_left != 0;
            window_ended_at_ = Clock::now();
            dies_at_ = Clock::now() + (outlives_window_ ? 100ms : std::chrono::milliseconds(random_() % 2000));
            return;
        }
        daemon_.kill();
        ++tally().restarts;
        daemon_.start();
        deaths_ = tally().restarts + daemon_.deaths();
        if (deaths_ >= wanted_.daemon_deaths) {
            daemon_.kill_at(0);  // never
            tally().enough = true;
            return;
        }
        outlives_window_ = ++life_ % 8 == 0 || Clock::now() - window_ended_at_ > 10s;
        daemon_.kill_at(outlives_window_ ? 0 : 1 + random_() % 32);
        dies_at_ = Clock::now() + std::chrono::milliseconds(random_() % (random_() % 2 == 0 ? 500 : 50));
    }

    static unsigned long long as_printed(std::uint64_t number) { return number; }
    Tally& tally() { return ledger_.tally(); }

    /// Rests a moment. False if somebody failed, or nothing has moved for two minutes.
    bool look() {
        if (!stage_.look()) {
            return false;
        }
        const Clock::time_point now = Clock::now();
        if (const std::uint64_t moved =
                tally().published + tally().viewed + tally().viewed_again + tally().taken + deaths_;
            moved != moved_) {
            moved_ = moved;
            moved_at_ = now;
        } else if (now - moved_at_ > 2min) {
            std::fprintf(stderr, "hurray_soak: nothing has moved for two minutes\n");
            print_progress();
            return false;
        }
        if (now - printed_at_ > 10s) {
            printed_at_ = now;
            print_progress();
        }
        std::this_thread::sleep_for(1ms);
        return true;
    }

    void print_progress() {
        const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
        std::fprintf(stderr,
                     "hurray_soak: %llu rounds, %llu daemons killed, of %s, in %.0f s (%.0f rounds a second); views "
                     "checked %llu, again after "
                     "being held %llu; %llu others killed; capsules aborted %llu, clients closed with capsules %llu; "
                     "leases told opened "
                     "%llu, released %llu, lost %llu; ends told %llu; jobs %llu, told taken %llu, taken %llu, takes "
                     "failed %llu; "
                     "events watched %llu\n",
                     as_printed(tally().published), as_printed(deaths_), goal().c_str(), seconds,
                     static_cast<double>(tally().published) / seconds, as_printed(tally().viewed),
                     as_printed(tally().viewed_again), as_printed(killed_), as_printed(tally().aborted),
                     as_printed(tally().closed), as_printed(tally().opened), as_printed(tally().released),
                     as_printed(tally().lost), as_printed(tally().ended), as_printed(tally().jobs),
                     as_printed(tally().told_taken), as_printed(tally().taken), as_printed(tally().takes_failed),
                     as_printed(tally().watched));
        if (leavers() != 0) {
            const Tally& left = ledger_.tally_of(wanted_.producers);
            std::fprintf(
                stderr,
                "hurray_soak: lingering: %llu published, views checked %llu; stocks taken %llu, clients closed %llu; "
                "leases told opened %llu, released %llu, lost %llu; ends told %llu; jobs %llu, told taken %llu, "
                "taken %llu\n",
                as_printed(left.published), as_printed(left.viewed), as_printed(left.stocks), as_printed(left.closed),
                as_printed(left.opened), as_printed(left.released), as_printed(left.lost), as_printed(left.ended),
                as_printed(left.jobs), as_printed(left.told_taken), as_printed(left.taken));
        }
    }

    /// Everybody has gone: what does the daemon still have?
    bool nothing_is_left(std::size_t descriptors_before) {
        bool clean = true;
        const auto complain = [&](const std::string& what) {
            std::fprintf(stderr, "hurray_soak: %s\n", what.c_str());
            clean = false;
        };
        {
            ConnectOptions options;
            options.address = daemon_.socket_path();
            options.dispatch_by_caller = true;  // no threads here, whose forks are to stay simple
            const Client client = Client::connect(std::move(options));
            const auto is_used = [](const nlohmann::json& use) { return use.at("used") != 0; };
            auto status = nlohmann::json::parse(client.status());
            // A window may still be open, for claims of those that were killed.
            for (const auto gives_up = Clock::now() + 30s;
                 is_mortal() && Clock::now() < gives_up && std::ranges::any_of(status.at("uses"), is_used);
                 status = nlohmann::json::parse(client.status())) {
                std::this_thread::sleep_for(1ms);
            }
            for (const auto& use : status.at("uses")) {
                if (is_used(use)) {
                    complain("in use at the end: " + use.dump());
                }
            }
            if (!status.at("writing").empty()) {
                complain("being written at the end: " + status.at("writing").dump());
            }
        }
        const test::Samples counted = test::scrape(metrics_path());
        for (const char* name : {"hurray_capsules", "hurray_names", "hurray_segment_bytes",
                                 "hurray_segment_descriptors", "hurray_leases", "hurray_waiting_attaches"}) {
            if (counted.at(name) != 0) {
                complain(std::string("the daemon still counts ") + name);
            }
        }
        const auto opened = static_cast<std::uint64_t>(counted.at("hurray_leases_opened_total"));
        const auto released = static_cast<std::uint64_t>(counted.at("hurray_leases_ended_total{how=\"released\"}"));
        const auto lost = static_cast<std::uint64_t>(counted.at("hurray_leases_ended_total{how=\"lost\"}"));
        if (opened != released + lost) {
            complain(std::to_string(opened) + " leases were opened, " + std::to_string(released) + " released and " +
                     std::to_string(lost) + " lost");
        }
        // Of what was still held when a producer closed its client it is told no more. And each life of the daemon counts anew.
        if (!is_mortal() && (tally().opened > opened || tally().released > released || tally().lost > lost ||
                             (tally().closed == 0 && tally().opened != opened))) {
            complain("producers were not told what the daemon counted: " + std::to_string(opened) + " opened, " +
                     std::to_string(released) + " released, " + std::to_string(lost) + " lost");
        }
        if (tally().taken > tally().told_taken && tally().closed == 0) {
            complain("takers have " + std::to_string(tally().taken) + " jobs, and their producers were told of " +
                     std::to_string(tally().told_taken));
        }
        if (const std::uint64_t nobody_has =
                tally().told_taken - std::min(tally().told_taken.load(), tally().taken.load()) + missing_jobs();
            nobody_has > killed_ + tally().takes_failed) {
            complain(std::to_string(nobody_has) + " jobs are told taken or went missing, and nobody has them; " +
                     std::to_string(killed_) + " takers and leavers were killed, at most, and " +
                     std::to_string(tally().takes_failed) + " takes failed");
        }
        if (counted.at("hurray_connections_ended_total{how=\"cut\"}") != 0) {
            complain("the daemon has cut connections");
        }
        // That this client is gone the daemon learns when it reads its socket.
        const Clock::time_point gives_up = Clock::now() + 10s;
        std::vector<std::string> open = open_descriptors();
        while (open.size() != descriptors_before && Clock::now() < gives_up) {
            std::this_thread::sleep_for(1ms);
            open = open_descriptors();
        }
        if (open.size() != descriptors_before) {
            complain(std::to_string(open.size()) + " descriptors are open in the daemon, not " +
                     std::to_string(descriptors_before) + " as at the start");
        }
        for (const std::string& target : open) {
            if (target.find("memfd:") != std::string::npos && target.find("journal") == std::string::npos) {
                complain("the daemon still has " + target);
            }
        }
        for (const std::string& name : daemon_.entries()) {
            if (!name.starts_with("journal-") || daemon_.entries().size() != 1) {
                complain("stored at the end: " + name);
            }
        }
        if (tally().viewed + 128 < tally().published) {
            complain("fewer views were checked than capsules published");
        }
        daemon_.stop();
        return clean;
    }

    /// Lingering jobs that were there, and no more, without a taker who says so.
    std::uint64_t missing_jobs() {
        std::uint64_t missing = 0;
        for (std::size_t page = wanted_.producers; page < ledger_.pages(); ++page) {
            for (std::size_t i = 0; i < ledger_.size(page); ++i) {
                const Record& record = ledger_.at(page, i);
                missing += record.slot == kQueueSlot && Ledger::fate_of(record) == Fate::Missing &&
                                   Ledger::times_taken(record) == 0
                               ? 1
                               : 0;
            }
        }
        return missing;
    }

    const Wanted wanted_;
    Random random_;
    Ledger ledger_;
    test::TemporaryDirectory directory_;
    test::StoreManager daemon_;
    Stage stage_;  // goes before the daemon
    std::uint64_t killed_ = 0;
    std::uint64_t deaths_ = 0;
    Clock::time_point dies_at_ = Clock::now() + 100ms;
    std::uint64_t life_ = 0;  ///< of the daemon
    bool outlives_window_ = false;
    Clock::time_point window_ended_at_ = Clock::now();  ///< in the last life that outlived it
    std::uint64_t moved_ = 0;
    Clock::time_point began_ = Clock::now();
    Clock::time_point moved_at_ = began_;
    Clock::time_point printed_at_ = began_;
};

void play(const Part& part) {
    static const std::map<std::string, void (*)(const Part&)> parts = {{"producer", run_producer},
                                                                       {"leaver", run_leaver},
                                                                       {"consumer", run_consumer},
                                                                       {"taker", run_taker},
                                                                       {"watcher", run_watcher}};
    parts.at(part.role)(part);
}

}  // namespace
}  // namespace hurray::soak

int main(int argc, char** argv) {
    using namespace hurray::soak;
    if (const auto part = part_of(argc, argv)) {
        try {
            play(*part);
            return 0;
        } catch (const std::exception& error) {
            fail_run(*part, error.what());
        }
    }
    try {
        return Run(parse(argc, argv)).play() ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "hurray_soak: %s\n", error.what());
        return 1;
    }
}
