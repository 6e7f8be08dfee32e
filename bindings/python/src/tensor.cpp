#include "tensor.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "dlpack.hpp"
#include "status.hpp"

namespace hurray_python {
namespace {

// What the world outside calls an element type: `format` as in Python's struct module, null where there is none.
struct ElementType {
    std::uint8_t tag;
    const char* format;
    dlpack::TypeCode code;
};

constexpr bool kLongIs64 = sizeof(long) == 8;  // NumPy's int64 is then 'l', not 'q'

constexpr ElementType kElementTypes[] = {
    {HURRAY_TYPE_FLOAT16, "e", dlpack::kFloat},
    {HURRAY_TYPE_BFLOAT16, nullptr, dlpack::kBfloat},
    {HURRAY_TYPE_FLOAT32, "f", dlpack::kFloat},
    {HURRAY_TYPE_FLOAT64, "d", dlpack::kFloat},
    {HURRAY_TYPE_INT8, "b", dlpack::kInt},
    {HURRAY_TYPE_UINT8, "B", dlpack::kUInt},
    {HURRAY_TYPE_INT16, "h", dlpack::kInt},
    {HURRAY_TYPE_UINT16, "H", dlpack::kUInt},
    {HURRAY_TYPE_INT32, "i", dlpack::kInt},
    {HURRAY_TYPE_UINT32, "I", dlpack::kUInt},
    {HURRAY_TYPE_INT64, kLongIs64 ? "l" : "q", dlpack::kInt},
    {HURRAY_TYPE_UINT64, kLongIs64 ? "L" : "Q", dlpack::kUInt},
    {HURRAY_TYPE_FLOAT8_E4M3, nullptr, dlpack::kFloat8E4M3FN},
    {HURRAY_TYPE_FLOAT8_E5M2, nullptr, dlpack::kFloat8E5M2},
    {HURRAY_TYPE_FLOAT8_E8M0, nullptr, dlpack::kFloat8E8M0FNU},
    {HURRAY_TYPE_FLOAT128, nullptr, dlpack::kFloat},
    {HURRAY_TYPE_COMPLEX64, "Zf", dlpack::kComplex},
    {HURRAY_TYPE_COMPLEX128, "Zd", dlpack::kComplex},
};

const ElementType* find_type(std::uint8_t tag) {
    const auto* found = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                     [&](const ElementType& type) { return type.tag == tag; });
    return found == std::end(kElementTypes) ? nullptr : found;
}

std::string element_type_name(std::uint8_t tag) {
    const char* name = nullptr;
    if (hurray_element_type_name(tag, &name) == HURRAY_OK) {
        return name;
    }
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "private 0x%02X", tag);
    return text.data();
}

// The product of the dimensions; nothing if it does not fit, or a dimension is not known yet.
std::optional<std::uint64_t> count_elements(const std::vector<std::uint64_t>& dims) {
    if (std::find(dims.begin(), dims.end(), 0u) != dims.end()) {
        return 0;
    }
    std::uint64_t count = 1;
    for (const std::uint64_t dim : dims) {
        if (dim > INT64_MAX || __builtin_mul_overflow(count, dim, &count) || count > INT64_MAX) {
            return std::nullopt;
        }
    }
    return count;
}

// Fills in what a view needs; returns why there can't be one, or "".
std::string prepare_view(TensorInfo& info, const HurrayDescriptor* descriptor) {
    const std::string raw = "; the raw bytes are in `buffers`";
    if (info.bits == 0) {
        return info.element_type + " is not a type that this package knows" + raw;
    }
    if (info.bits % 8 != 0) {
        std::string why = info.element_type + " is packed, " + std::to_string(info.bits) +
                          (info.bits == 1 ? " bit" : " bits") + " an element, which has no view by element" + raw;
        if (info.type_tag == HURRAY_TYPE_BOOL) {
            why += ": numpy.unpackbits(tensor.buffers[0], bitorder=\"little\")";
        }
        return why;
    }
    HurrayBufferEntry entry{};
    if (hurray_descriptor_validate(descriptor) != HURRAY_OK ||
        hurray_descriptor_buffer_entry(descriptor, 0, &entry) != HURRAY_OK) {
        return std::string("the descriptor describes no view: ") + hurray_last_error_message() + raw;
    }
    if (entry.device_tag != HURRAY_DEVICE_CPU) {
        return "the tensor is not in CPU memory";
    }
    const std::optional<std::uint64_t> count = count_elements(info.dims);
    std::uintptr_t rank = info.dims.size();
    std::vector<std::int64_t> strides(rank + 1);  // never null
    if (!count || hurray_descriptor_strides(descriptor, strides.data(), &rank) != HURRAY_OK) {
        return "the layout has no strides" + raw;
    }
    strides.resize(rank);
    const std::int64_t item_size = info.item_size();
    bool c = true;
    bool f = true;
    std::int64_t expected = 1;
    for (std::size_t i = rank; i-- > 0;) {
        c = c && (info.dims[i] == 1 || strides[i] == expected);
        expected *= static_cast<std::int64_t>(info.dims[i]);
    }
    expected = 1;
    for (std::size_t i = 0; i < rank; ++i) {
        f = f && (info.dims[i] == 1 || strides[i] == expected);
        expected *= static_cast<std::int64_t>(info.dims[i]);
    }
    info.c_contiguous = c || *count == 0;
    info.f_contiguous = f || *count == 0;
    for (std::size_t i = 0; i < rank; ++i) {
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(strides[i], item_size, &bytes)) {
            if (*count != 0 && info.dims[i] > 1) {
                return "the strides do not fit 63 bits" + raw;
            }
            bytes = 0;
        }
        info.byte_strides.push_back(bytes);
        info.shape.push_back(static_cast<std::int64_t>(info.dims[i]));
    }
    info.strides = std::move(strides);
    return "";
}

[[noreturn]] void raise_buffer_error(const std::string& message) { throw nb::buffer_error(message.c_str()); }

// ---- Buffer protocol ------------------------------------------------------------------------------------------------

// Runs `fill`, which may throw; buffer slots report by -1.
template <typename Fill>
int buffer_slot(Py_buffer* view, Fill&& fill) noexcept {
    view->obj = nullptr;
    try {
        fill();
        return 0;
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_BufferError, error.what());
    }
    return -1;
}

int view_get(PyObject* self, Py_buffer* view, int flags) noexcept {
    const View* source = nb::inst_ptr<View>(self);
    return PyBuffer_FillInfo(view, self, source->data, static_cast<Py_ssize_t>(source->size), 1, flags);
}

bool asks(int flags, int what) { return (flags & what) == what; }

int tensor_get(PyObject* self, Py_buffer* view, int flags) noexcept {
    return buffer_slot(view, [&] {
        const std::shared_ptr<Lease>& lease = nb::inst_ptr<Tensor>(self)->lease();
        const TensorInfo& info = *lease->info;
        if (asks(flags, PyBUF_WRITABLE)) {
            raise_buffer_error("the tensor is read-only: its producer and other consumers read the same memory");
        }
        if (!info.problem.empty()) {
            raise_buffer_error(info.problem);
        }
        const ElementType* type = find_type(info.type_tag);
        if (type == nullptr || type->format == nullptr) {
            raise_buffer_error("Python's buffer protocol has no " + info.element_type +
                               "; numpy.asarray or __dlpack__ may know it, and the raw bytes are in `buffers`");
        }
        if ((asks(flags, PyBUF_C_CONTIGUOUS) || !asks(flags, PyBUF_STRIDES)) && !info.c_contiguous) {
            raise_buffer_error("the tensor is not C-contiguous");
        }
        if (asks(flags, PyBUF_F_CONTIGUOUS) && !info.f_contiguous) {
            raise_buffer_error("the tensor is not Fortran-contiguous");
        }
        if (asks(flags, PyBUF_ANY_CONTIGUOUS) && !info.c_contiguous && !info.f_contiguous) {
            raise_buffer_error("the tensor is not contiguous");
        }
        static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
        auto hold = std::make_unique<std::shared_ptr<Lease>>(lease);
        view->buf = lease->data;
        view->len = static_cast<Py_ssize_t>(info.byte_size);
        view->readonly = 1;
        view->itemsize = static_cast<Py_ssize_t>(info.item_size());
        view->format = asks(flags, PyBUF_FORMAT) ? const_cast<char*>(type->format) : nullptr;
        view->ndim = static_cast<int>(info.shape.size());
        // Nobody writes to them; the protocol predates const.
        auto* shape = reinterpret_cast<Py_ssize_t*>(const_cast<std::int64_t*>(info.shape.data()));
        auto* strides = reinterpret_cast<Py_ssize_t*>(const_cast<std::int64_t*>(info.byte_strides.data()));
        view->shape = asks(flags, PyBUF_ND) ? shape : nullptr;
        view->strides = asks(flags, PyBUF_STRIDES) ? strides : nullptr;
        view->suboffsets = nullptr;
        view->internal = hold.release();
        view->obj = nb::handle(self).inc_ref().ptr();
    });
}

void tensor_release(PyObject*, Py_buffer* view) noexcept {
    delete static_cast<std::shared_ptr<Lease>*>(view->internal);
}

PyType_Slot view_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(view_get)}, {0, nullptr}};
PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(tensor_get)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_release)},
                              {0, nullptr}};

// ---- DLPack ---------------------------------------------------------------------------------------------------------

// The elements of a tensor, one after the other, in C order.
struct Copy {
    std::vector<std::byte> bytes;
    std::vector<std::int64_t> strides;  // in elements
};

void copy_elements(const TensorInfo& info, std::size_t dim, const std::byte* from, std::byte*& to) {
    if (dim == info.shape.size()) {
        std::memcpy(to, from, info.item_size());
        to += info.item_size();
        return;
    }
    for (std::int64_t i = 0; i < info.shape[dim]; ++i) {
        copy_elements(info, dim + 1, from + i * info.byte_strides[dim], to);
    }
}

Copy copy_of(const Lease& lease) {
    const TensorInfo& info = *lease.info;
    Copy copy;
    copy.bytes.resize(std::max<std::uint64_t>(info.byte_size, 1));
    copy.strides.resize(info.shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = info.shape.size(); i-- > 0;) {
        copy.strides[i] = stride;
        stride *= info.shape[i];
    }
    if (info.byte_size == 0) {
        return copy;
    }
    if (info.c_contiguous) {
        std::memcpy(copy.bytes.data(), lease.data, info.byte_size);
    } else {
        std::byte* to = copy.bytes.data();
        copy_elements(info, 0, lease.data, to);
    }
    return copy;
}

// What an exported tensor keeps alive. The deleter needs no GIL.
template <typename Managed>
struct Export {
    Managed managed{};
    std::shared_ptr<const Lease> lease;
    std::shared_ptr<const TensorInfo> info;
    Copy copy;
};

template <typename Managed>
void delete_export(Managed* managed) {
    delete static_cast<Export<Managed>*>(managed->manager_context);
}

template <typename Managed>
constexpr const char* kCapsuleName = nullptr;
template <>
constexpr const char* kCapsuleName<dlpack::ManagedTensor> = "dltensor";
template <>
constexpr const char* kCapsuleName<dlpack::ManagedTensorVersioned> = "dltensor_versioned";

// Runs for every capsule; one that was taken over has another name by then.
template <typename Managed>
void delete_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kCapsuleName<Managed>) != 0) {
        auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kCapsuleName<Managed>));
        managed->deleter(managed);
    }
}

template <typename Managed>
nb::object export_capsule(const std::shared_ptr<Lease>& lease, dlpack::TypeCode code, bool copy,
                          [[maybe_unused]] std::uint32_t minor) {
    auto exported = std::make_unique<Export<Managed>>();
    exported->info = lease->info;
    void* data = lease->data;
    const std::vector<std::int64_t>* strides = &lease->info->strides;
    if (copy) {
        exported->copy = copy_of(*lease);
        data = exported->copy.bytes.data();
        strides = &exported->copy.strides;
    } else {
        exported->lease = lease;
    }
    const TensorInfo& info = *exported->info;
    Managed& managed = exported->managed;
    managed.manager_context = exported.get();
    managed.deleter = delete_export<Managed>;
    managed.tensor.data = data;
    managed.tensor.device = {dlpack::kCpu, 0};
    managed.tensor.ndim = static_cast<std::int32_t>(info.shape.size());
    managed.tensor.dtype = {code, static_cast<std::uint8_t>(info.bits), 1};
    managed.tensor.shape = const_cast<std::int64_t*>(info.shape.data());
    managed.tensor.strides = const_cast<std::int64_t*>(strides->data());
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
        managed.version = {dlpack::kMajor, minor};
        managed.flags = copy ? dlpack::kCopied : dlpack::kReadOnly;
    }
    PyObject* capsule = PyCapsule_New(&managed, kCapsuleName<Managed>, delete_capsule<Managed>);
    if (capsule == nullptr) {
        throw nb::python_error();
    }
    static_cast<void>(exported.release());
    return nb::steal(capsule);
}

template <typename Numbers>
nb::object tuple_of(const Numbers& numbers) {
    nb::list list;
    for (const auto number : numbers) {
        list.append(number);
    }
    return nb::tuple(list);
}

}  // namespace

// ---- Capsule ids ----------------------------------------------------------------------------------------------------

std::string capsule_text(const HurrayCapsuleId& capsule) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text = std::to_string(capsule.uid) + ":";
    for (const std::uint8_t byte : capsule.id) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

HurrayCapsuleId capsule_from_text(const std::string& text) {
    const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    HurrayCapsuleId capsule{};
    const std::size_t colon = text.find(':');
    bool good = colon != std::string::npos && colon >= 1 && colon <= 10 && text.size() == colon + 1 + 32;
    std::uint64_t uid = 0;
    for (std::size_t i = 0; good && i < colon; ++i) {
        good = text[i] >= '0' && text[i] <= '9';
        uid = uid * 10 + static_cast<std::uint64_t>(text[i] - '0');
    }
    for (std::size_t i = 0; good && i < 16; ++i) {
        const int high = digit(text[colon + 1 + 2 * i]);
        const int low = digit(text[colon + 2 + 2 * i]);
        good = high >= 0 && low >= 0;
        capsule.id[i] = static_cast<std::uint8_t>((high * 16 + low) & 0xFF);
    }
    if (!good || uid > UINT32_MAX) {
        raise_status(HURRAY_ERR_INVALID_ARGUMENT, "'" + text + "' is no capsule id: UID:ID, the id as 32 hex digits");
    }
    capsule.uid = static_cast<std::uint32_t>(uid);
    return capsule;
}

// ---- Tensor ---------------------------------------------------------------------------------------------------------

TensorInfo read_descriptor(const std::uint8_t* bytes, std::uint64_t length) {
    HurrayDescriptor* decoded = nullptr;
    check(hurray_descriptor_decode(bytes, length, &decoded));
    const Descriptor descriptor(decoded);

    TensorInfo info;
    std::uint32_t rank32 = 0;
    check(hurray_descriptor_rank(decoded, &rank32));
    std::uintptr_t rank = rank32;
    info.dims.resize(rank + 1);  // never null
    check(hurray_descriptor_shape(decoded, info.dims.data(), &rank));
    info.dims.resize(rank);
    check(hurray_descriptor_element_type_tag(decoded, &info.type_tag));
    check(hurray_descriptor_byte_offset(decoded, &info.byte_offset));
    info.element_type = element_type_name(info.type_tag);
    if (hurray_element_type_bits(info.type_tag, &info.bits) != HURRAY_OK) {
        info.bits = 0;
    }
    const std::uint64_t count = count_elements(info.dims).value_or(0);
    if (info.bits % 8 == 0) {
        if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(info.bits / 8), &info.byte_size)) {
            info.byte_size = 0;
        }
    } else if (info.bits == 6) {
        info.byte_size = (count / 4 + (count % 4 != 0 ? 1 : 0)) * 3;
    } else {
        const std::uint64_t in_a_byte = 8 / info.bits;
        info.byte_size = count / in_a_byte + (count % in_a_byte != 0 ? 1 : 0);
    }
    info.problem = prepare_view(info, decoded);
    return info;
}

Tensor::Tensor(BufferList buffers, Context context, const HurrayCapsuleInfo& info)
    : lease_(std::make_shared<Lease>()),
      name_(info.name == nullptr ? "" : info.name),
      capsule_(capsule_text(info.capsule)),
      version_(info.version),
      gid_(info.access.gid),
      mode_(info.access.mode),
      immutable_((info.flags & HURRAY_CAPSULE_IMMUTABLE) != 0),
      unsealed_((info.flags & HURRAY_CAPSULE_UNSEALED) != 0) {
    lease_->buffers = std::move(buffers);
    lease_->context = std::move(context);
    TensorInfo read = read_descriptor(info.descriptor, info.descriptor_len);
    std::byte* data = nullptr;
    if (read.problem.empty()) {
        // The descriptor fits its own table (validated above); what is mapped must hold what the table promises.
        HurrayBuffer* buffer = nullptr;
        void* start = nullptr;
        std::uint64_t size = 0;
        check(hurray_buffer_list_get(lease_->buffers.get(), 0, &buffer));
        check(hurray_buffer_data_ptr(buffer, &start));
        check(hurray_buffer_byte_size(buffer, &size));
        HurrayDescriptor* decoded = nullptr;
        check(hurray_descriptor_decode(info.descriptor, info.descriptor_len, &decoded));
        const Descriptor descriptor(decoded);
        HurrayBufferEntry entry{};
        check(hurray_descriptor_buffer_entry(decoded, 0, &entry));
        if (size < entry.byte_size || read.byte_offset > size) {
            read.problem = "the buffer is smaller than its descriptor says";
        } else {
            data = static_cast<std::byte*>(start) + read.byte_offset;
        }
    }
    info_ = std::make_shared<const TensorInfo>(std::move(read));
    lease_->info = info_;
    lease_->data = data;
}

const std::shared_ptr<Lease>& Tensor::lease() const {
    if (!lease_) {
        raise_status(HURRAY_ERR_CLOSED, "the tensor is closed");
    }
    return lease_;
}

std::string Tensor::state() const {
    HurrayStatus state = HURRAY_OK;
    check(hurray_lease_state(lease()->context.get(), &state));
    switch (state) {
        case HURRAY_OK:
            return "ok";
        case HURRAY_ERR_PRODUCER_LOST:
            return "producer-lost";
        default:
            return "connection-lost";
    }
}

std::uint64_t Tensor::buffer_count() const {
    std::uint64_t count = 0;
    check(hurray_buffer_list_len(lease()->buffers.get(), &count));
    return count;
}

View Tensor::view(std::uint64_t index) const {
    HurrayBuffer* buffer = nullptr;
    View view{lease(), nullptr, 0};
    check(hurray_buffer_list_get(lease()->buffers.get(), index, &buffer));
    std::uint8_t device = HURRAY_DEVICE_CPU;
    check(hurray_buffer_device_tag(buffer, &device));
    if (device != HURRAY_DEVICE_CPU) {
        raise_buffer_error("buffer " + std::to_string(index) + " is not in CPU memory");
    }
    check(hurray_buffer_data_ptr(buffer, &view.data));
    check(hurray_buffer_byte_size(buffer, &view.size));
    return view;
}

nb::object Tensor::dlpack(nb::handle stream, std::optional<std::pair<int, int>> max_version,
                          std::optional<std::pair<int, int>> device, std::optional<bool> copy) const {
    const std::shared_ptr<Lease>& held = lease();
    if (!stream.is_none()) {
        raise_buffer_error("stream must be None: the tensor is in CPU memory");
    }
    if (device && *device != std::pair<int, int>(dlpack::kCpu, 0)) {
        raise_buffer_error("the tensor is in CPU memory, dl_device (1, 0), and is not copied to another device");
    }
    if (!held->info->problem.empty()) {
        raise_buffer_error(held->info->problem);
    }
    const ElementType* type = find_type(held->info->type_tag);
    if (type == nullptr) {
        raise_buffer_error("DLPack has no " + held->info->element_type + "; the raw bytes are in `buffers`");
    }
    const bool versioned = max_version && max_version->first >= static_cast<int>(dlpack::kMajor);
    const bool recent = type->code >= dlpack::kFloat8E4M3FN;
    if (recent && !versioned) {
        raise_buffer_error("DLPack before 1.1 has no " + held->info->element_type +
                           "; the raw bytes are in `buffers`, as uint8");
    }
    if (!versioned) {
        return export_capsule<dlpack::ManagedTensor>(held, type->code, copy.value_or(false), 0);
    }
    const bool newest = recent || *max_version >= std::pair<int, int>(dlpack::kMajor, dlpack::kMinor);
    return export_capsule<dlpack::ManagedTensorVersioned>(held, type->code, copy.value_or(false),
                                                          newest ? dlpack::kMinor : 0);
}

// ---- Python ---------------------------------------------------------------------------------------------------------

void bind_tensor(nb::module_& module) {
    nb::class_<View>(module, "View", nb::type_slots(view_slots), "Read-only bytes of one buffer of a tensor.");

    nb::class_<Tensor>(
        module, "Tensor", nb::type_slots(tensor_slots), nb::is_weak_referenceable(),
        "A tensor of another program, read-only and not copied.\n\n"
        "numpy.asarray(tensor), memoryview(tensor) and torch.from_dlpack(tensor) are views of the shared\n"
        "memory. The producer is told that this program is done when the tensor is closed, or collected,\n"
        "and the last of its views is gone.")
        .def_prop_ro(
            "shape", [](const Tensor& self) { return tuple_of(self.info().dims); }, "Sizes, a tuple of int.")
        .def_prop_ro(
            "element_type", [](const Tensor& self) { return self.info().element_type; },
            "Hurray's name of the element type, e.g. \"float32\".")
        .def_prop_ro(
            "strides",
            [](const Tensor& self) -> nb::object {
                return self.info().problem.empty() ? tuple_of(self.info().byte_strides) : nb::none();
            },
            "Strides in bytes; None if elements can't be viewed one by one.")
        .def_prop_ro(
            "nbytes", [](const Tensor& self) { return self.info().byte_size; },
            "Bytes of the elements, without gaps between them.")
        .def_prop_ro("name", &Tensor::name, "The name it was published under; \"\" if it has none.")
        .def_prop_ro("version", &Tensor::version, "Version of its name; rises with each publish, with gaps.")
        .def_prop_ro("capsule", &Tensor::capsule, "Id of the capsule, \"UID:HEX\".")
        .def_prop_ro("immutable", &Tensor::immutable,
                     "Whether nobody can change a byte of it any more, its producer neither.")
        .def_prop_ro("unsealed", &Tensor::unsealed,
                     "Whether it lies in a dma-buf, which others may write to while it is read.")
        .def_prop_ro("closed", &Tensor::closed, "Whether close() was called.")
        .def_prop_ro(
            "state", &Tensor::state,
            "\"ok\"; \"producer-lost\" once its producer has left; \"connection-lost\" once the connection to\n"
            "the daemon has ended. The memory stays readable in each case.")
        .def("close", &Tensor::close,
             "Let go of the tensor. The lease ends now, or with the last view of it that is still alive: views stay\n"
             "readable. Closing twice is fine; anything else that needs the memory raises ClosedError afterwards.")
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def(
            "__exit__", [](Tensor& self, nb::handle, nb::handle, nb::handle) { self.close(); }, nb::arg("type").none(),
            nb::arg("value").none(), nb::arg("traceback").none())
        .def(
            "__dlpack__", &Tensor::dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
            nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
            "A DLPack capsule that keeps the lease. It is marked read-only if `max_version` is (1, 0) or newer; older\n"
            "capsules can't say so, and writing through one ends the process.")
        .def(
            "__dlpack_device__", [](const Tensor&) { return std::pair<int, int>(dlpack::kCpu, 0); }, "(1, 0): CPU.")
        .def("__reduce__",
             [](const Tensor&) -> nb::object {
                 throw nb::type_error(
                     "a Tensor can't be copied or sent to another process: attach it there, by its name");
             })
        .def("_view", &Tensor::view, nb::arg("index"))
        .def_prop_ro("_gid", &Tensor::gid)
        .def_prop_ro("_mode", &Tensor::mode)
        .def_prop_ro("_buffer_count", &Tensor::buffer_count)
        .def_prop_ro("_byte_offset", [](const Tensor& self) { return self.info().byte_offset; })
        .def_prop_ro("_problem", [](const Tensor& self) { return self.info().problem; });
}

}  // namespace hurray_python
