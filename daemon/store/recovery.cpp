#include "daemon/store/recovery.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.hpp"
#include "daemon/store/files.hpp"
#include "libhurray/base/result.hpp"

namespace hurrayd::store {
namespace {

using hurray::Errc;
using hurray::Result;

constexpr std::string_view kSegment = "s-";
constexpr std::string_view kCapsule = "c-";
constexpr std::string_view kJournal = "journal-";
/// What the service manager calls an entry whose name it could not use.
constexpr std::string_view kNameless = "stored";
/// A capsule's file is a packet and a little more; a journal has a note for each name.
constexpr std::size_t kMostCapsuleBytes = 4 * wire::kMaxPacketBytes;
constexpr std::size_t kMostJournalBytes = std::size_t{4} << 30U;

/// The number behind `prefix`, which is all that is there, without leading zeros.
std::optional<std::uint64_t> number_of(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) {
        return std::nullopt;
    }
    name.remove_prefix(prefix.size());
    std::uint64_t number = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_all = failed == std::errc{} && end == name.data() + name.size();
    return is_all && name.front() != '0' ? std::optional(number) : std::nullopt;
}

Result<std::string> read_all(int fd, std::size_t most) {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return hurray::fail(Errc::Protocol, "it is no file");
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > most) {
        return hurray::fail(Errc::Protocol,
                            "it has " + std::to_string(size) + " bytes, at most " + std::to_string(most) + " are read");
    }
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < size;) {
        const ssize_t got = ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(done));
        if (got <= 0 && errno != EINTR) {
            return hurray::fail(Errc::Protocol, std::string("it can't be read: ") + std::strerror(errno));
        }
        done += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return bytes;
}

std::span<const std::byte> bytes_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

/// The entries of one name are one file, or of no use.
using Entries = std::map<std::string, hurray::UniqueFd>;

/// Of a capsule's entry without its id.
void complain(const std::string& name, const std::string& reason) {
    const std::string shown = name.starts_with(kCapsule) ? name.substr(0, name.find('-', kCapsule.size())) : name;
    log::warning("stored_unusable", {{"entry", shown}, {"reason", reason}});
}

/// The journal of the highest generation that can be read.
void find_journal(Entries& entries, Found& found) {
    std::optional<Journal> newest;
    std::vector<std::string> journals;
    for (auto& [name, fd] : entries) {
        const auto generation = number_of(name, kJournal);
        if (!generation) {
            continue;
        }
        journals.push_back(name);
        found.last_generation = std::max(found.last_generation, *generation);
        const auto bytes = read_all(fd.get(), kMostJournalBytes);
        auto journal = bytes ? read_journal(bytes_of(*bytes)) : Result<Journal>(tl::unexpected(bytes.error()));
        if (!journal) {
            complain(name, journal.error().message);
        } else if (journal->generation != *generation) {
            complain(name, "it says that it is of generation " + std::to_string(journal->generation));
        } else {
            if (journal->whole_bytes != bytes->size()) {
                complain(name, "only " + std::to_string(journal->whole_bytes) + " of its " +
                                   std::to_string(bytes->size()) + " bytes are whole, the rest is passed over");
            }
            if (!newest || newest->generation < journal->generation) {
                newest = std::move(*journal);
                found.journal_name = name;
            }
        }
    }
    std::erase(journals, found.journal_name);
    found.rest = std::move(journals);
    found.has_journal = newest.has_value();
    if (newest) {
        for (const keep::Note& note : newest->notes) {
            found.journal.apply(note);
        }
    }
}

/// Fails: it is damaged, or not all of it is there.
Result<WholeCapsule> read_capsule(const std::string& name, int fd, const Entries& entries) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) {
        return hurray::fail(Errc::Protocol, "it is not sealed");
    }
    const auto bytes = read_all(fd, kMostCapsuleBytes);
    if (!bytes) {
        return tl::unexpected(bytes.error());
    }
    auto stored = read_capsule_file(bytes_of(*bytes));
    if (!stored) {
        return tl::unexpected(stored.error());
    }
    WholeCapsule capsule{{stored->uid, stored->offer.capsule}, std::move(stored->offer), {}, stored->group};
    if (name_of(capsule.id) != name) {
        return hurray::fail(Errc::Protocol, "it is another capsule's");
    }
    std::vector<int> fds;
    for (const wire::Segment& segment : capsule.offer.segments) {
        const auto entry = entries.find(name_of(keep::StoredSegment{segment.number}));
        if (entry == entries.end() || !entry->second) {
            return hurray::fail(Errc::NotFound, "its segment s-" + std::to_string(segment.number) + " is not there");
        }
        fds.push_back(entry->second.get());
    }
    for (wire::Segment& segment : capsule.offer.segments) {
        segment.carries_fd = true;
    }
    auto checked = check_publish(capsule.offer, fds);
    if (!checked) {
        return tl::unexpected(checked.error());
    }
    if (auto distinct = wire::check_distinct(checked->files, "publish"); !distinct) {
        return tl::unexpected(distinct.error());
    }
    capsule.checked = std::move(*checked);
    return capsule;
}

}  // namespace

bool is_stored_name(const std::string& name) noexcept {
    return name == kNameless || name.starts_with(kSegment) || name.starts_with(kCapsule) || name.starts_with(kJournal);
}

std::string name_of(const wire::CapsuleId& capsule) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string name(kCapsule);
    name += std::to_string(capsule.uid) + "-";
    for (const std::uint8_t byte : capsule.id.bytes) {
        name += kDigits[byte >> 4U];
        name += kDigits[byte & 15U];
    }
    return name;
}

std::string name_of(keep::StoredSegment segment) { return std::string(kSegment) + std::to_string(segment.value); }

std::string name_of_journal(std::uint64_t generation) { return std::string(kJournal) + std::to_string(generation); }

// exists_iff_all, clean_store.
Found find(std::vector<HandedOver> handed_over) {
    Found found;
    Entries entries;
    std::set<std::string> ambiguous;
    for (HandedOver& each : handed_over) {
        if (!entries.try_emplace(each.name, std::move(each.fd)).second) {
            ambiguous.insert(each.name);
        }
    }
    for (const std::string& name : ambiguous) {
        complain(name, "there are two of that name");
        entries[name].reset();
    }
    find_journal(entries, found);
    std::vector<std::string> segments_of_nobody;
    for (auto& [name, fd] : entries) {
        if (const auto number = number_of(name, kSegment)) {
            found.last_segment = std::max(found.last_segment, keep::StoredSegment{*number});
        }
        if (!name.starts_with(kCapsule)) {
            continue;
        }
        auto capsule = fd ? read_capsule(name, fd.get(), entries)
                          : Result<WholeCapsule>(hurray::fail(Errc::Protocol, "there are two of that name"));
        if (!capsule) {
            complain(name, capsule.error().message);
            found.rest.push_back(name);
            continue;
        }
        found.capsules.push_back(std::move(*capsule));
    }
    for (const WholeCapsule& capsule : found.capsules) {
        for (const wire::Segment& segment : capsule.offer.segments) {
            const keep::StoredSegment number{segment.number};
            if (!found.segments.contains(number)) {
                found.segments.emplace(number, std::move(entries.at(name_of(number))));
            }
        }
    }
    for (const auto& [name, fd] : entries) {
        const auto number = number_of(name, kSegment);
        const bool is_used = number && found.segments.contains(keep::StoredSegment{*number});
        if (!name.starts_with(kCapsule) && !number_of(name, kJournal) && !is_used) {
            found.rest.push_back(name);
        }
    }
    return found;
}

}  // namespace hurrayd::store
