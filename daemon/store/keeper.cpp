#include "daemon/store/keeper.hpp"

#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/log.hpp"
#include "daemon/store/files.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U  // Linux 6.3
#endif

namespace hurrayd::store {
namespace {

using hurray::Errc;
using hurray::UniqueFd;

/// A journal is begun anew when it is four times as long as it was in the beginning, and this much more: with few names that is
/// every ten thousand publishes or so.
constexpr std::uint64_t kCompactAt = 4;
constexpr std::uint64_t kCompactSlack = std::uint64_t{1} << 20U;

UniqueFd make_file(const char* label) {
    UniqueFd fd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
    if (!fd && errno == EINVAL) {
        fd = UniqueFd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    }
    return fd;
}

/// False, with errno: not all of it could be written.
bool write_at(int fd, std::string_view bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (done < 0 && errno != EINTR) {
            return false;
        }
        const auto count = done > 0 ? static_cast<std::size_t>(done) : 0;
        bytes.remove_prefix(count);
        offset += count;
    }
    return true;
}

}  // namespace

hurray::Result<void> Keeper::begin(const Found& found) {
    for (const std::string& name : found.rest) {  // first, since the new journal needs a place
        store_.remove(name);
    }
    if (auto started = start_journal(found.last_generation + 1); !started) {
        return started;
    }
    if (!found.journal_name.empty()) {
        store_.remove(found.journal_name);
    }
    return {};
}

/// Writes it in full, stores it, and has everything appended to it from then on.
hurray::Result<void> Keeper::start_journal(std::uint64_t generation) {
    std::string bytes;
    append_header(generation, bytes);
    std::vector<keep::Note> notes;
    all_notes_(notes);
    for (const keep::Note& note : notes) {
        append_note(note, bytes);
    }
    UniqueFd file = make_file("hurray journal");
    if (!file || !write_at(file.get(), bytes, 0)) {
        return hurray::fail_call(Errc::Internal, errno, "begin a journal");
    }
    store_.add(name_of_journal(generation), file.get());
    journal_ = std::move(file);
    generation_ = generation;
    size_ = first_size_ = bytes.size();
    unwritten_.clear();  // the notes that it began with say as much
    caught_up();
    return {};
}

void Keeper::caught_up() {
    if (std::exchange(is_behind_, false)) {
        log::info("journal_caught_up", {{"bytes", size_}});
    }
}

void Keeper::keep(std::span<const keep::Step> steps) {
    struct Visitor {
        Keeper& self;

        void operator()(const keep::Note& note) const { append_note(note, self.unwritten_); }
        void operator()(const keep::StoreSegment& segment) const {
            self.append();
            self.store_.add(name_of(segment.as), self.segments_.fd(segment.segment));
        }
        void operator()(const keep::StoreCapsule& capsule) const {
            self.append();
            const std::string bytes = capsule_file(capsule.uid, capsule.offer, capsule.group);
            const UniqueFd file = make_file("hurray capsule");
            if (!file || !write_at(file.get(), bytes, 0) ||
                ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
                log::error("store_failed",
                           {{"reason", std::strerror(errno)}, {"effect", "a capsule does not outlive this process"}});
                return;
            }
            self.store_.add(name_of(wire::CapsuleId{capsule.uid, capsule.offer.capsule}), file.get());
        }
        void operator()(const keep::RemoveCapsule& capsule) const {
            self.append();
            self.store_.remove(name_of(capsule.capsule));
        }
        void operator()(const keep::RemoveSegment& segment) const {
            self.append();
            self.store_.remove(name_of(segment.segment));
        }
    };
    for (const keep::Step& step : steps) {
        std::visit(Visitor{*this}, step);
    }
    append();
    compact_if_due();
}

/// In one call for all notes that came one behind the other: either the kernel has them, or this process is dead.
void Keeper::append() {
    if (unwritten_.empty()) {
        return;
    }
    if (!write_at(journal_.get(), unwritten_, size_)) {
        if (!std::exchange(is_behind_, true)) {
            log::error(
                "journal_failed",
                {{"reason", std::strerror(errno)},
                 {"effect", "until it is written, a restart may give versions and names out twice, and lose a group"}});
        }
        return;  // the next one tries again, at the same place
    }
    size_ += unwritten_.size();
    unwritten_.clear();
    caught_up();
}

void Keeper::compact_if_due() {
    if (size_ + unwritten_.size() < first_size_ * kCompactAt + kCompactSlack) {
        return;
    }
    const std::uint64_t before = size_;
    const std::string old = name_of_journal(generation_);
    if (auto started = start_journal(generation_ + 1); !started) {
        first_size_ = size_ + unwritten_.size();  // later
        log::warning("journal_not_compacted", {{"reason", started.error().message}});
        return;
    }
    store_.remove(old);
    log::debug("journal_compacted", {{"generation", generation_}, {"bytes", size_}, {"before", before}});
}

}  // namespace hurrayd::store
