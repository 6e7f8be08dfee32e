#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "libhurray/base/result.hpp"
#include "libhurray/base/unique_fd.hpp"

/// Shared memory as this process sees it: writable segments that it makes, read-only mappings of others' segments.
///
/// Threads: objects are shared by const pointer, and their last owner on any thread unmaps.
namespace hurray::client {

/// Whether a fresh read-only mapping gets all its pages at once, or as they are looked at.
enum class Populate : std::uint8_t {
    Auto,  ///< as they are looked at: the kernel brings sixteen at a time, which costs no more, and the first byte is there at once
    Yes,
    No,
};

/// A range of mapped shared memory; unmaps in its destructor.
class Mapping {
  public:
    /// Maps all `size` bytes of the memfd `fd` for reading. `size` is above 0.
    /// Fails: Limit (mappings or address space of this process).
    [[nodiscard]] static Result<std::shared_ptr<const Mapping>> open_read_only(int fd, std::uint64_t size,
                                                                               Populate populate);

    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    virtual ~Mapping();

    /// Brings what is missing of its pages. Kernels before 5.14 leave that to the first look.
    void populate() const noexcept;
    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  protected:
    struct Region;
    explicit Mapping(std::unique_ptr<Region> region) noexcept;

  private:
    std::unique_ptr<Region> region_;
    std::byte* data_;
    std::uint64_t size_;
};

/// What is to become of a segment.
enum class Purpose : std::uint8_t {
    Reuse,        ///< this process writes to it again and again, nobody else ever does
    WrittenOnce,  ///< make_immutable() before its descriptor leaves; nobody ever writes to it after that
};

/// A segment that this process made: a memfd whose pages are all reserved, sealed against everybody else's writing before
/// its descriptor leaves, and mapped writable here.
class WritableSegment : public Mapping {
  public:
    /// Whether there can be one of `size` bytes at all.
    /// Fails: NoSpace  no file is so long
    ///        Limit    none of this process may be (RLIMIT_FSIZE)
    [[nodiscard]] static Result<void> check_size(std::uint64_t size);
    /// Makes one of `size` bytes, above 0, a multiple of the page size, and found good. All of it is zero.
    /// Fails: NoSpace  the kernel could not reserve so much; the message gives asked and available bytes
    ///        Limit    descriptors or mappings of this process
    [[nodiscard]] static Result<std::shared_ptr<const WritableSegment>> create(std::uint64_t size,
                                                                               Purpose purpose = Purpose::Reuse);

    /// Of one that is WrittenOnce: from now on nobody can change a byte of it, this process neither. What points into it stays
    /// valid for reading; a write through it is a SIGSEGV. Twice is fine. One thread at a time.
    /// Fails: InvalidArgument  it is mapped writable elsewhere, as a rule in a forked child; it can be written as before
    ///        Limit            this process can't map it anew: nothing may point into it any more
    [[nodiscard]] Result<void> make_immutable() const;
    /// Whether that was done.
    [[nodiscard]] bool is_immutable() const noexcept;

    /// A loan; closed with the object.
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  private:
    WritableSegment(std::unique_ptr<Region> region, UniqueFd fd) noexcept;
    UniqueFd fd_;
};

}  // namespace hurray::client
