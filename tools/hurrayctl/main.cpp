// hurrayctl: shows and withdraws what hurrayd holds, and runs programs with a daemon of their own.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "exit_codes.hpp"
#include "file.hpp"
#include "look.hpp"
#include "metrics.hpp"
#include "run.hpp"
#include "text.hpp"
#include "withdraw.hpp"

namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no daemon; `run` returns the command's own.";

/// Cuts `hurrayctl [OPTIONS] run [--] COMMAND...` in two: everything behind `run` is the command's, whatever it looks like. What
/// begins with a dash there is an option of `run` itself, unless "--" comes before it.
std::vector<std::string> take_command(std::vector<std::string>& arguments) {
    auto run = arguments.begin();
    while (run != arguments.end() && run->starts_with('-')) {
        run += *run == "--socket" && run + 1 != arguments.end() ? 2 : 1;
    }
    if (run == arguments.end() || *run != "run") {
        return {};
    }
    auto first = run + 1;
    if (first != arguments.end() && *first == "--") {
        first = arguments.erase(first);
    } else if (first != arguments.end() && first->starts_with('-')) {
        return {};
    }
    std::vector<std::string> command(first, arguments.end());
    arguments.erase(first, arguments.end());
    return command;
}

/// Whether the first argument that is no option names no command; if so, says so.
bool names_no_command(const std::vector<std::string>& arguments, const CLI::App& app) {
    auto word = arguments.begin();
    while (word != arguments.end() && word->starts_with('-')) {
        word += *word == "--socket" && word + 1 != arguments.end() ? 2 : 1;
    }
    if (word == arguments.end()) {
        return false;
    }
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
    }
    if (std::find(names.begin(), names.end(), *word) != names.end()) {
        return false;
    }
    std::cerr << "hurrayctl: there is no command `" << *word << '`';
    const std::string meant = hurrayctl::closest(*word, names);
    std::cerr << (meant.empty() ? std::string(".") : "; did you mean `" + meant + "`?")
              << " `hurrayctl --help` shows all of them.\n";
    return true;
}

}  // namespace

int main(int argc, char** argv) try {
    std::setlocale(LC_CTYPE, "");  // for the width of characters
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    const std::vector<std::string> command = take_command(arguments);

    hurrayctl::Look look;
    std::string pattern;
    std::string name;
    hurrayctl::FileLook file;
    std::string capsule;
    std::string metrics_socket;
    std::uint64_t version = 0;

    CLI::App app("Shows and withdraws what hurrayd holds, and runs programs with a daemon of their own.", "hurrayctl");
    app.footer(kExitCodes);
    app.require_subcommand(1);
    app.add_option("--socket", look.socket,
                   "The daemon's socket; default: $HURRAY_SOCKET, else your own daemon's, else the system's")
        ->type_name("PATH");
    app.set_version_flag("--version", "hurrayctl " HURRAYCTL_VERSION);
    // Both options may stand before the command and after it.
    const auto add_json = [&](CLI::App& where) { where.add_flag("--json", look.json, "Print JSON"); };
    add_json(app);

    CLI::App& run = *app.add_subcommand("run", "Run COMMAND with a private daemon: hurrayctl run -- COMMAND...");
    run.footer(
        "The daemon lives as long as COMMAND. COMMAND finds it through HURRAY_SOCKET.\n"
        "Exit codes: COMMAND's; 126 it can't be executed; 127 there is no such command; 3 the daemon did not start.");
    CLI::App& list = *app.add_subcommand("list", "List capsules");
    list.add_option("PATTERN", pattern, "A name, or a prefix that ends in '/'; default: all");
    add_json(list);
    list.fallthrough();
    CLI::App& inspect = *app.add_subcommand("inspect", "Show all that is known of a capsule, or what is in a file");
    CLI::Option& any = *inspect.add_option("NAME", name, "A capsule's name; or, if it ends in .hrry, a file's path");
    CLI::Option& by_name = *inspect.add_option("--capsule", capsule, "A capsule's name, whatever it ends in");
    CLI::Option& by_path = *inspect.add_option("--file", file.path, "A file's path, whatever it ends in");
    by_name.type_name("NAME")->excludes(&any)->excludes(&by_path);
    by_path.type_name("PATH")->excludes(&any);
    inspect.add_option("--tensor", file.tensor, "Of a file: show all of this tensor")->type_name("NAME");
    add_json(inspect);
    inspect.fallthrough();
    CLI::App& status = *app.add_subcommand("status", "Show the daemon's counters");
    add_json(status);
    status.fallthrough();
    CLI::App& metrics = *app.add_subcommand("metrics", "Print the daemon's metrics, in Prometheus' text format");
    metrics
        .add_option("--metrics-socket", metrics_socket,
                    "The daemon's metrics.path; default: beside its socket, hurrayd-metrics.sock for hurrayd.sock")
        ->type_name("PATH");
    metrics.footer(
        "Only who may open that socket is told (metrics.mode, metrics.group): they are of all users together.");
    metrics.fallthrough();

    CLI::App& withdraw = *app.add_subcommand(
        "withdraw", "Let nobody attach or take any more what is published under a name; who holds it goes on reading");
    withdraw.add_option("NAME", name, "A capsule's name")->required();
    withdraw.add_option("--version", version, "This version alone; default: all that can be attached or taken")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    add_json(withdraw);
    withdraw.fallthrough();

    if (names_no_command(arguments, app)) {
        return hurrayctl::kUsage;
    }
    try {
        std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
        app.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? hurrayctl::kDone : hurrayctl::kUsage;
    }
    if (run) {
        if (!look.socket.empty()) {
            std::cerr << "hurrayctl: --socket does not go with run, whose daemon has a socket of its own\n";
            return hurrayctl::kUsage;
        }
        if (look.json) {
            std::cerr << "hurrayctl: --json does not go with run, which prints nothing of its own\n";
            return hurrayctl::kUsage;
        }
        if (command.empty()) {
            std::cerr << "hurrayctl: run what? hurrayctl run -- COMMAND...\n";
            return hurrayctl::kUsage;
        }
        return hurrayctl::run(command);
    }
    if (list) {
        return hurrayctl::list(look, pattern);
    }
    if (inspect) {
        if (name.empty() && capsule.empty() && file.path.empty()) {
            std::cerr << "hurrayctl: inspect what? hurrayctl inspect NAME, or hurrayctl inspect FILE.hrry\n";
            return hurrayctl::kUsage;
        }
        if (hurrayctl::is_file_argument(name)) {
            file.path = name;
        }
        if (!file.path.empty()) {
            file.json = look.json;
            return hurrayctl::inspect_file(file);
        }
        if (!file.tensor.empty()) {
            std::cerr << "hurrayctl: --tensor is for files; a capsule is one tensor\n";
            return hurrayctl::kUsage;
        }
        return hurrayctl::inspect(look, capsule.empty() ? name : capsule);
    }
    if (withdraw) {
        return hurrayctl::withdraw(look, name, version);
    }
    if (metrics) {
        if (look.json) {
            std::cerr << "hurrayctl: --json does not go with metrics, which are Prometheus' text\n";
            return hurrayctl::kUsage;
        }
        return hurrayctl::metrics(look, metrics_socket);
    }
    return hurrayctl::status(look);
} catch (const std::exception& error) {
    std::cerr << "hurrayctl: " << error.what() << '\n';
    return hurrayctl::kRefused;
}
