// What a consumer holds: the tensor, the lease behind it and the views onto its memory.
//
// A Lease is shared by the Tensor and by everything that was made from it: arrays, memoryviews, DLPack capsules. It is
// given back to the producer when the last of them goes. None of that needs the GIL, so a foreign library may drop a
// DLPack tensor from any thread, also after the interpreter has gone.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "handles.hpp"

namespace hurray_python {

namespace nb = nanobind;

/// "UID:ID", the id in hexadecimal: how Python code names a capsule.
std::string capsule_text(const HurrayCapsuleId& capsule);
/// Throws InvalidArgumentError.
HurrayCapsuleId capsule_from_text(const std::string& text);

/// What a descriptor says about its tensor. Never changes.
struct TensorInfo {
    std::vector<std::uint64_t> dims;  // as in the descriptor
    std::uint8_t type_tag = 0;
    std::string element_type;       // "float32", "private 0xF1"
    std::uint32_t bits = 0;         // of one element; 0 if unknown
    std::uint64_t byte_offset = 0;  // of the element with all-zero index, in buffer 0
    std::uint64_t byte_size = 0;    // of the elements, without gaps
    std::string problem;            // why there is no view of whole elements; empty: there is one
    // For those that can be viewed only:
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // in elements
    std::vector<std::int64_t> byte_strides;
    bool c_contiguous = false;
    bool f_contiguous = false;

    [[nodiscard]] std::uint32_t item_size() const { return bits / 8; }
};

/// Throws what the descriptor's decoding gives, if it can't be read at all.
TensorInfo read_descriptor(const std::uint8_t* bytes, std::uint64_t length);

/// One hold on a capsule. Dropping the last reference is the release; it never blocks.
struct Lease {
    Context context;     // destroyed last: it tells the producer that nobody reads any more
    BufferList buffers;  // destroyed first
    std::shared_ptr<const TensorInfo> info;
    std::byte* data = nullptr;  // of the element with all-zero index; null if info->problem
};

/// Raw bytes of one buffer, read-only, as a Python buffer: NumPy arrays have it as their base.
struct View {
    std::shared_ptr<const Lease> lease;
    void* data;
    std::uint64_t size;
};

class Tensor {
  public:
    /// `info` is what hurray_client_attach filled in. Throws if the descriptor can't be read; the lease ends then.
    Tensor(BufferList buffers, Context context, const HurrayCapsuleInfo& info);

    [[nodiscard]] const TensorInfo& info() const { return *info_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& capsule() const { return capsule_; }
    [[nodiscard]] std::uint64_t version() const { return version_; }
    [[nodiscard]] bool immutable() const { return immutable_; }
    [[nodiscard]] bool unsealed() const { return unsealed_; }
    [[nodiscard]] std::uint32_t gid() const { return gid_; }
    [[nodiscard]] std::uint32_t mode() const { return mode_; }
    [[nodiscard]] bool closed() const { return lease_ == nullptr; }

    /// Lets go of the lease; views keep it.
    void close() { lease_.reset(); }
    /// Throws ClosedError after close().
    [[nodiscard]] const std::shared_ptr<Lease>& lease() const;
    /// "ok", "connection-lost" or "producer-lost".
    [[nodiscard]] std::string state() const;
    [[nodiscard]] std::uint64_t buffer_count() const;
    [[nodiscard]] View view(std::uint64_t index) const;

    [[nodiscard]] nb::object dlpack(nb::handle stream, std::optional<std::pair<int, int>> max_version,
                                    std::optional<std::pair<int, int>> device, std::optional<bool> copy) const;

  private:
    std::shared_ptr<Lease> lease_;
    std::shared_ptr<const TensorInfo> info_;  // also after close()
    std::string name_;
    std::string capsule_;
    std::uint64_t version_;
    std::uint32_t gid_;
    std::uint32_t mode_;
    bool immutable_;
    bool unsealed_;
};

/// Adds Tensor and View to the module; hurray/_tensor.py has the members of Tensor that are written in Python.
void bind_tensor(nb::module_& module);

}  // namespace hurray_python
