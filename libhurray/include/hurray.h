/*
 * hurray.h - the C ABI of libhurray: buffers, buffer lists, tensor descriptors, tensor contexts, streams and files.
 *
 * Plain C99, usable from C++. The library has no threads and opens no socket; sharing tensors between processes is the
 * work of hurray_client.h, which hands out the handles of this header.
 *
 * Rules that hold for every function (cited by number in the comments below):
 *
 *  R1  Status. A function that can fail returns a HurrayStatus: HURRAY_OK (0) or a negative code. The thread's last
 *      message, hurray_last_error_message(), says in words what went wrong.
 *  R2  Null. Every pointer is required unless its comment says "may be null". A required pointer that is null gives
 *      HURRAY_ERR_NULL_POINTER before anything else is looked at.
 *  R3  Outputs are written last, and only on success, except where the capacity pattern (R6) says otherwise.
 *  R4  Handles are opaque. What a *_new, *_from_ptr, *_open_*, *_decode or *_start function made is destroyed exactly
 *      once. A handle may move between threads, but is used by one thread at a time; different handles are independent.
 *  R5  Borrowed pointers live as long as the handle that they came from, unless a comment says less.
 *  R6  Capacity pattern: the in/out length holds the capacity of the array, and the needed length afterwards, always.
 *      A null array or too small a capacity gives HURRAY_ERR_BUFFER_TOO_SMALL and writes the length alone.
 *  R7  No C++ exception leaves the library. Running out of memory is HURRAY_ERR_INTERNAL; an exception that should not
 *      have been there is HURRAY_ERR_INTERNAL_PANIC, after which the handle concerned must not be used again.
 *
 * Sizes, lengths and offsets are in bytes, unless a comment says elements. Multi-byte numbers inside encoded descriptors
 * are little-endian.
 */
#ifndef HURRAY_H
#define HURRAY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HURRAY_API __attribute__((visibility("default")))
#else
#define HURRAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ---------------------------------------------------------------------------------------------------- */

/* Raised when the contract of an existing function changes; additions keep it. The SONAME carries the same number. */
#define HURRAY_C_ABI_VERSION 2u

/* The HURRAY_C_ABI_VERSION that the library was built with. Compare it once, at start-up. Cannot fail. */
HURRAY_API uint32_t hurray_c_abi_version(void);

/* ---- Status ----------------------------------------------------------------------------------------------------- */

typedef int32_t HurrayStatus;

#define HURRAY_OK 0
#define HURRAY_ERR_INVALID_MAGIC (-1)        /* a descriptor does not start with "HRRY" */
#define HURRAY_ERR_VERSION_MISMATCH (-2)     /* a descriptor's major version is newer than this library */
#define HURRAY_ERR_INVALID_LAYOUT (-3)       /* malformed structure: layout, lengths, reserved bits, alignment, shape */
#define HURRAY_ERR_INVALID_TYPE (-4)         /* element type tag, device tag or memory class is not valid */
#define HURRAY_ERR_BUFFER_TOO_SMALL (-5)     /* the output array is too short; the needed length was written */
#define HURRAY_ERR_NULL_POINTER (-6)         /* a required pointer is null */
#define HURRAY_ERR_INTERNAL_PANIC (-7)       /* an exception reached the boundary; do not use the handle again */
#define HURRAY_ERR_INVALID_SYNC_MODE (-8)    /* the sync mode byte is none of 0, 1, 2, or does not fit the device */
#define HURRAY_ERR_SYNC_MODE_MISMATCH (-9)   /* the handoff does not fit the buffer's declared sync mode */
#define HURRAY_ERR_INTERNAL (-10)            /* anything else; also a detected second destroy */
#define HURRAY_ERR_INDEX_OUT_OF_BOUNDS (-11) /* list index at or past the length */
/* -12 to -31 are unused. From -32 on: codes of the broker client (hurray_client.h). */
#define HURRAY_ERR_NOT_FOUND (-32)          /* no such capsule, version, stream or lease */
#define HURRAY_ERR_ALREADY_EXISTS (-33)     /* the name is held by someone who may not be replaced; id already known */
#define HURRAY_ERR_TIMED_OUT (-34)          /* a wait ran out; nothing was acquired */
#define HURRAY_ERR_NOT_PERMITTED (-35)      /* the socket's permissions or write access say no */
#define HURRAY_ERR_OVER_QUOTA (-36)         /* a quota of the daemon; the message names it, the limit and the use */
#define HURRAY_ERR_NO_SPACE (-37)           /* the kernel could not reserve memory */
#define HURRAY_ERR_LIMIT (-38)              /* a limit of the process, kernel or protocol; the message names it */
#define HURRAY_ERR_DAEMON_UNAVAILABLE (-39) /* nobody listens at that address */
#define HURRAY_ERR_CONNECTION_LOST (-40)    /* the connection ended and could not be resumed in time */
#define HURRAY_ERR_PROTOCOL (-41)           /* the peer speaks another protocol or version, or broke it */
#define HURRAY_ERR_PRODUCER_LOST (-42)      /* the producer died and its memory can't be relied on */
#define HURRAY_ERR_UNSUPPORTED (-43)        /* not possible with this memory, platform or build; see the message */
#define HURRAY_ERR_INVALID_ARGUMENT (-44)   /* an argument breaks a documented rule; the message names it */
#define HURRAY_ERR_FORKED (-45)             /* the handle belongs to the parent process */
#define HURRAY_ERR_CLOSED (-46)             /* withdrawn, closed or shut down while waiting, or used after close */
#define HURRAY_ERR_WOULD_BLOCK (-47)        /* a try_ call found nothing ready */
#define HURRAY_ERR_DEVICE_UNAVAILABLE (-48) /* no usable GPU driver, or the GPU is not visible here */
#define HURRAY_ERR_DEVICE_ERROR (-49)       /* a GPU driver call failed; the message gives call, name and number */
#define HURRAY_ERR_INTERRUPTED (-50)        /* the caller's interrupt check asked to stop waiting */

/* The name of a status, e.g. "HURRAY_ERR_NOT_FOUND"; a fixed text for numbers that are no status. Static storage. */
HURRAY_API const char *hurray_status_string(HurrayStatus status);

/* What went wrong in this thread's last failed call, in words (UTF-8). Empty before the first failure; a successful
 * call leaves it as it is. Never null. Valid until the next failing call of this thread. */
HURRAY_API const char *hurray_last_error_message(void);

/* Sets that message. For libraries that hand out this library's handles and report through the same message, as
 * libhurray-client does. `message` may be null (empty); it is copied, and cut at 1023 bytes. */
HURRAY_API void hurray_last_error_set(const char *message);

/* ---- Constants of the format ------------------------------------------------------------------------------------ */

#define HURRAY_MAX_RANK 64u
#define HURRAY_MAX_BUFFERS 255u
#define HURRAY_MIN_BUFFER_ALIGNMENT 64u
#define HURRAY_DYNAMIC_DIM UINT64_MAX /* a dimension whose size is not known yet */

/* Element types (type_tag). Types below 8 bits are packed, the first element in the lowest bits. */
#define HURRAY_TYPE_FLOAT16 0x01
#define HURRAY_TYPE_BFLOAT16 0x02
#define HURRAY_TYPE_FLOAT32 0x03
#define HURRAY_TYPE_FLOAT64 0x04
#define HURRAY_TYPE_INT8 0x10
#define HURRAY_TYPE_UINT8 0x11
#define HURRAY_TYPE_INT16 0x12
#define HURRAY_TYPE_UINT16 0x13
#define HURRAY_TYPE_INT32 0x14
#define HURRAY_TYPE_UINT32 0x15
#define HURRAY_TYPE_INT64 0x16
#define HURRAY_TYPE_UINT64 0x17
#define HURRAY_TYPE_BOOL 0x20 /* one bit an element */
#define HURRAY_TYPE_FLOAT8_E4M3 0x40
#define HURRAY_TYPE_FLOAT8_E5M2 0x41
#define HURRAY_TYPE_FLOAT8_E8M0 0x42
#define HURRAY_TYPE_FLOAT4_E2M1 0x43
#define HURRAY_TYPE_FLOAT6_E2M3 0x44
#define HURRAY_TYPE_FLOAT6_E3M2 0x45
#define HURRAY_TYPE_FLOAT128 0x46
#define HURRAY_TYPE_INT4 0x48
#define HURRAY_TYPE_UINT4 0x49
#define HURRAY_TYPE_INT2 0x4A
#define HURRAY_TYPE_UINT2 0x4B
#define HURRAY_TYPE_COMPLEX64 0x50
#define HURRAY_TYPE_COMPLEX128 0x51

/* Layouts (layout_tag). */
#define HURRAY_LAYOUT_ROW_MAJOR 0x01
#define HURRAY_LAYOUT_COLUMN_MAJOR 0x02
#define HURRAY_LAYOUT_STRIDED 0x03
#define HURRAY_LAYOUT_TILED 0x04
#define HURRAY_LAYOUT_MORTON 0x05
#define HURRAY_LAYOUT_COO 0x06
#define HURRAY_LAYOUT_CSR 0x07
#define HURRAY_LAYOUT_CSC 0x08
#define HURRAY_LAYOUT_CSF 0x09
#define HURRAY_LAYOUT_BLOCK_PAGED 0x0A
#define HURRAY_LAYOUT_COMPOSITE_HEAD 0x0B
#define HURRAY_LAYOUT_HILBERT 0x40

/* Devices (device_tag). */
#define HURRAY_DEVICE_CPU 0x00
#define HURRAY_DEVICE_CUDA 0x01
#define HURRAY_DEVICE_ROCM 0x02
#define HURRAY_DEVICE_METAL 0x03
#define HURRAY_DEVICE_VULKAN 0x04
#define HURRAY_DEVICE_WEBGPU 0x05
#define HURRAY_DEVICE_HEXAGON 0x06
#define HURRAY_DEVICE_LEVEL_ZERO 0x07
#define HURRAY_DEVICE_OPENCL 0x08

/* Who has to wait for the producer's writes (sync_mode). CPU buffers are always producer-synced. */
#define HURRAY_SYNC_PRODUCER_SYNCED 0x00
#define HURRAY_SYNC_EVENT 0x01
#define HURRAY_SYNC_CONSUMER_STREAM 0x02

/* Memory classes (memory_class). */
#define HURRAY_MEMORY_STANDARD 0x00
#define HURRAY_MEMORY_HOST_PINNED 0x01
#define HURRAY_MEMORY_UNIFIED 0x02
#define HURRAY_MEMORY_PEER 0x03

/* ---- Handles ---------------------------------------------------------------------------------------------------- */

typedef struct HurrayBuffer HurrayBuffer;               /* one range of memory, and how to let it go */
typedef struct HurrayBufferList HurrayBufferList;       /* buffers in the order of a descriptor's buffer table */
typedef struct HurrayDescriptor HurrayDescriptor;       /* a decoded tensor descriptor; never changes */
typedef struct HurrayTensorContext HurrayTensorContext; /* encoded descriptor + what runs when the tensor is let go */
typedef struct HurrayCompositeSet HurrayCompositeSet;   /* a composite head and its members, checked together */
typedef struct HurrayReader HurrayReader;               /* tensors that come out of a stream or file */
typedef struct HurrayWriter HurrayWriter;               /* tensors that go into a stream or file */

/* ---- Buffers ---------------------------------------------------------------------------------------------------- */

/* Runs once, in hurray_buffer_destroy, with the `data` and `release_context` that the buffer was made with. */
typedef void (*HurrayReleaseCallback)(void *data, void *context);

/* Makes a buffer over `byte_size` bytes at `data`, which stay the caller's until `release` runs.
 *
 * data             required even when byte_size is 0; never dereferenced, nor is its address compared with alignment
 * alignment        a power of two; at least 64 unless byte_size is 0
 * release          may be null: nothing runs
 * release_context  may be null
 *
 * HURRAY_ERR_INVALID_TYPE       device_tag or memory_class is not one
 * HURRAY_ERR_INVALID_SYNC_MODE  sync_mode is not one, or is not producer-synced on CPU
 * HURRAY_ERR_INVALID_LAYOUT     alignment
 */
HURRAY_API HurrayStatus hurray_buffer_from_ptr(void *data, uint64_t byte_size, uint32_t alignment, uint8_t device_tag,
                                               uint8_t sync_mode, uint8_t memory_class, HurrayReleaseCallback release,
                                               void *release_context, HurrayBuffer **out);

/* Runs the release callback and frees the handle. Destroying twice is a caller's error; a library built with
 * HURRAY_HANDLE_CHECKS detects it (HURRAY_ERR_INTERNAL) within the next 2^20 destroys, for this and every other kind
 * of handle. */
HURRAY_API HurrayStatus hurray_buffer_destroy(HurrayBuffer *buffer);

HURRAY_API HurrayStatus hurray_buffer_data_ptr(const HurrayBuffer *buffer, void **out);
HURRAY_API HurrayStatus hurray_buffer_byte_size(const HurrayBuffer *buffer, uint64_t *out);
HURRAY_API HurrayStatus hurray_buffer_alignment(const HurrayBuffer *buffer, uint32_t *out);
HURRAY_API HurrayStatus hurray_buffer_device_tag(const HurrayBuffer *buffer, uint8_t *out);
HURRAY_API HurrayStatus hurray_buffer_sync_mode(const HurrayBuffer *buffer, uint8_t *out);
HURRAY_API HurrayStatus hurray_buffer_memory_class(const HurrayBuffer *buffer, uint8_t *out);

/* ---- Sync handoff ----------------------------------------------------------------------------------------------- */

typedef void (*HurrayEventReleaseFn)(void *sync_handle, void *context);

typedef struct HurraySyncEventPayload {
    void *sync_handle; /* e.g. a cudaEvent_t */
    uint8_t sync_handle_device_tag;
    HurrayEventReleaseFn event_release_fn;
    void *event_release_context; /* may be null */
} HurraySyncEventPayload;

typedef struct HurraySyncConsumerStreamPayload {
    void *consumer_stream; /* e.g. a cudaStream_t */
    uint8_t consumer_stream_device_tag;
} HurraySyncConsumerStreamPayload;

/* Whether what the consumer is about to do fits what the producer declared. They compare and nothing more: they do not
 * wait, keep no payload, call nothing. HURRAY_ERR_SYNC_MODE_MISMATCH if it does not fit. */
HURRAY_API HurrayStatus hurray_buffer_handoff_producer_synced(const HurrayBuffer *buffer);
/* Fits: mode Event, sync_handle and event_release_fn not null, sync_handle_device_tag that of the buffer. */
HURRAY_API HurrayStatus hurray_buffer_handoff_event(const HurrayBuffer *buffer, const HurraySyncEventPayload *payload);
/* Fits: mode ConsumerStream, consumer_stream not null, consumer_stream_device_tag that of the buffer. */
HURRAY_API HurrayStatus hurray_buffer_handoff_consumer_stream(const HurrayBuffer *buffer,
                                                              const HurraySyncConsumerStreamPayload *payload);

/* ---- Buffer lists ----------------------------------------------------------------------------------------------- */

/* `capacity` is a hint; it is not trusted with memory. */
HURRAY_API HurrayStatus hurray_buffer_list_new(uint64_t capacity, HurrayBufferList **out);
/* On success the list owns `buffer`; on failure the caller still does. */
HURRAY_API HurrayStatus hurray_buffer_list_push(HurrayBufferList *list, HurrayBuffer *buffer);
HURRAY_API HurrayStatus hurray_buffer_list_len(const HurrayBufferList *list, uint64_t *out);
/* Borrowed: the list goes on owning it, until the list is destroyed. */
HURRAY_API HurrayStatus hurray_buffer_list_get(const HurrayBufferList *list, uint64_t index, HurrayBuffer **out);
/* Destroys every owned buffer once, in order, frees the list, then writes null through `list`. `*list` may be null.
 * If destroying a buffer fails, the others go all the same, and the first failure is returned.
 * A release callback must not destroy the list that it is called from. */
HURRAY_API HurrayStatus hurray_buffer_list_destroy(HurrayBufferList **list);

/* ---- Descriptors: reading --------------------------------------------------------------------------------------- */

/* Decodes `len` bytes of any layout and with any section; copies what it keeps. Accepts whatever is well-formed: see
 * hurray_descriptor_validate for what makes sense as well. Bytes after the descriptor's own length are ignored.
 *
 * HURRAY_ERR_INVALID_MAGIC, _VERSION_MISMATCH, _INVALID_LAYOUT, _INVALID_TYPE, _INVALID_SYNC_MODE
 * HURRAY_ERR_INTERNAL  tiling nested too deep; composite heads and members, quantization of block-paged tensors
 */
HURRAY_API HurrayStatus hurray_descriptor_decode(const uint8_t *bytes, uintptr_t len, HurrayDescriptor **out);
HURRAY_API HurrayStatus hurray_descriptor_destroy(HurrayDescriptor *descriptor);

HURRAY_API HurrayStatus hurray_descriptor_rank(const HurrayDescriptor *descriptor, uint32_t *out);
/* Dimension sizes, in elements, dimension 0 first. R6; a null `out_dims` is too small for rank 0 as well. */
HURRAY_API HurrayStatus hurray_descriptor_shape(const HurrayDescriptor *descriptor, uint64_t *out_dims,
                                                uintptr_t *inout_rank);
HURRAY_API HurrayStatus hurray_descriptor_element_type_tag(const HurrayDescriptor *descriptor, uint8_t *out);
HURRAY_API HurrayStatus hurray_descriptor_layout_tag(const HurrayDescriptor *descriptor, uint8_t *out);
/* Where the element with all-zero index begins, in bytes, inside buffer 0. */
HURRAY_API HurrayStatus hurray_descriptor_byte_offset(const HurrayDescriptor *descriptor, uint64_t *out);
HURRAY_API HurrayStatus hurray_descriptor_buffer_count(const HurrayDescriptor *descriptor, uint32_t *out);

/* Strides in elements, one a dimension (R6): the stored ones of a strided layout, the implied ones of row-major and
 * column-major. HURRAY_ERR_UNSUPPORTED for other layouts; HURRAY_ERR_INVALID_LAYOUT if an implied stride needs a dynamic
 * dimension or does not fit 63 bits. */
HURRAY_API HurrayStatus hurray_descriptor_strides(const HurrayDescriptor *descriptor, int64_t *out_strides,
                                                  uintptr_t *inout_rank);

/* One entry of a descriptor's buffer table. */
typedef struct HurrayBufferEntry {
    uint64_t byte_size;
    uint32_t alignment;
    uint8_t device_tag;
    uint8_t sync_mode;
    uint8_t memory_class;
    uint8_t reserved; /* 0 */
} HurrayBufferEntry;

/* HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the table. */
HURRAY_API HurrayStatus hurray_descriptor_buffer_entry(const HurrayDescriptor *descriptor, uint32_t index,
                                                       HurrayBufferEntry *out);

/* Whether the descriptor also makes sense: fields against each other, buffers large enough for the shape, devices and
 * memory classes that go together. Stricter than decoding. The message names the first rule that is broken and its
 * field. HURRAY_ERR_INVALID_LAYOUT, _INVALID_TYPE, _INVALID_SYNC_MODE, _INTERNAL as the format says for each rule;
 * HURRAY_ERR_UNSUPPORTED for what this version can't check yet. */
HURRAY_API HurrayStatus hurray_descriptor_validate(const HurrayDescriptor *descriptor);

/* ---- Descriptors: writing --------------------------------------------------------------------------------------- */

/* What a dense tensor in one buffer needs to be described. */
typedef struct HurrayDenseDescriptor {
    uint32_t struct_size;   /* sizeof(HurrayDenseDescriptor) */
    uint8_t element_type;   /* HURRAY_TYPE_* */
    uint8_t layout;         /* HURRAY_LAYOUT_ROW_MAJOR, _COLUMN_MAJOR or _STRIDED; 0: row-major */
    uint8_t device_tag;     /* of the buffer */
    uint8_t sync_mode;      /* of the buffer */
    uint8_t memory_class;   /* of the buffer */
    uint8_t reserved[3];    /* 0 */
    uint32_t rank;          /* 0 (a scalar) to HURRAY_MAX_RANK */
    const uint64_t *shape;  /* rank sizes, in elements; may be null for rank 0 */
    const int64_t *strides; /* rank strides, in elements, any sign; for _STRIDED only, else null */
    uint64_t byte_offset;   /* of the element with all-zero index, in buffer 0 */
    uint64_t byte_size;     /* of buffer 0; 0: exactly what byte_offset and the elements need */
    uint32_t alignment;     /* of buffer 0, a power of two, at least 64; 0: 64 */
    uint32_t reserved2;     /* 0 */
} HurrayDenseDescriptor;

/* Encodes the canonical bytes of `dense` into `out_bytes` (R6). The result passes hurray_descriptor_validate.
 * HURRAY_ERR_INVALID_ARGUMENT  struct_size, a field that must be 0 or null, strides without _STRIDED
 * HURRAY_ERR_INVALID_LAYOUT    rank, sizes that overflow, a byte_size that is too small, alignment
 * HURRAY_ERR_INVALID_TYPE, _INVALID_SYNC_MODE */
HURRAY_API HurrayStatus hurray_descriptor_encode_dense(const HurrayDenseDescriptor *dense, uint8_t *out_bytes,
                                                       uintptr_t *inout_len);

/* Encodes a decoded descriptor again, in canonical form (R6). */
HURRAY_API HurrayStatus hurray_descriptor_encode(const HurrayDescriptor *descriptor, uint8_t *out_bytes,
                                                 uintptr_t *inout_len);

/* The bytes that buffer 0 of `dense` needs at least: byte_offset and the elements up to the highest address. The fields
 * byte_size and alignment are not looked at. Fails as hurray_descriptor_encode_dense does. */
HURRAY_API HurrayStatus hurray_descriptor_dense_byte_size(const HurrayDenseDescriptor *dense, uint64_t *out);

/* Every field of the descriptor as a JSON object in UTF-8 (R6; the length counts the terminating null): what tools show and
 * logs keep. Dynamic dimensions are null, floating-point values that JSON has no number for "nan", "inf" and "-inf". */
HURRAY_API HurrayStatus hurray_descriptor_to_json(const HurrayDescriptor *descriptor, char *out_text,
                                                  uintptr_t *inout_len);

/* ---- Composite sets --------------------------------------------------------------------------------------------- */

/* A composite tensor is a head without data and its members, tensors like any other. A set takes them in the order of
 * streams and files, depth first: the head, then each member; a member that is a head itself is followed by its own
 * members, as many as it counts, before the next one of the outer head. In messages members have the number in which they
 * were added, from 0. At most eight heads are inside one another.
 *
 * Nothing of the descriptors is kept: they may be destroyed after each call. */

/* HURRAY_ERR_INVALID_LAYOUT: `head` is no composite head, or a partition or overlay with a dynamic dimension. */
HURRAY_API HurrayStatus hurray_composite_set_new(const HurrayDescriptor *head, HurrayCompositeSet **out);
/* Adds the next member if it fits what is there; if not, the set is as before. HURRAY_ERR_INVALID_LAYOUT for a box outside
 * the head, HURRAY_ERR_INTERNAL for every other rule of composites; the message names it. A nested head is checked as a whole
 * with its last member. */
HURRAY_API HurrayStatus hurray_composite_set_add(HurrayCompositeSet *set, const HurrayDescriptor *member);
/* How many were added, nested ones included. */
HURRAY_API HurrayStatus hurray_composite_set_member_count(const HurrayCompositeSet *set, uint64_t *out);
/* Whether the set is complete: as many members as the head counts; those of a partition fill it and do not overlap; an
 * overlay has a base. HURRAY_ERR_INTERNAL if not, and the set stays as it is. Boxes are sorted, so that slabs and grids
 * of n members take about n log n steps; only boxes that all meet in every single dimension take n * n. */
HURRAY_API HurrayStatus hurray_composite_set_finish(const HurrayCompositeSet *set);
/* Writes null through `set`. `*set` may be null. */
HURRAY_API HurrayStatus hurray_composite_set_destroy(HurrayCompositeSet **set);

/* ---- Streams and files: reading --------------------------------------------------------------------------------- */

/* Tensors outside memory have two forms. A stream is descriptor, buffers, descriptor, buffers, and so on, through anything
 * that can be read. A file (".hrry") has names, an index for any order, and key-values. docs/files.md tells what is where.
 *
 * A reader goes from tensor to tensor: hurray_reader_next decodes a descriptor; the tensor's buffers are read after that,
 * into memory of the caller's or of their own, or not at all. Nobody is believed: memory is allocated for what has come,
 * never for what is announced. Messages name the tensor and the byte of the input. File descriptors stay the caller's: the
 * library makes a duplicate. Calls block until there is something to read, also where the descriptor is non-blocking.
 *
 * Reading fails, whichever function it is in, with
 * HURRAY_ERR_INVALID_MAGIC, _VERSION_MISMATCH, _INVALID_LAYOUT, _INVALID_TYPE, _INVALID_SYNC_MODE, _INTERNAL
 *                                as hurray_descriptor_decode does; _INVALID_LAYOUT also for an input that ends too early
 *                                or a file whose parts contradict each other
 * HURRAY_ERR_LIMIT               something is larger than the options allow
 * HURRAY_ERR_INVALID_ARGUMENT    the file descriptor
 * HURRAY_ERR_INTERNAL            what else the system says */

typedef struct HurrayReaderOptions {
    uint32_t struct_size; /* sizeof(HurrayReaderOptions) */
    uint8_t
        producer_synced_only; /* 1: a tensor with another sync mode is HURRAY_ERR_INVALID_SYNC_MODE; for other hosts' */
    uint8_t reserved[3];      /* 0 */
    uint64_t max_descriptor_size; /* 0: 16 MiB */
    uint64_t max_index_size;      /* of a file's index, and of its key-values; 0: 64 MiB each */
    uint64_t max_tensor_size;     /* of all buffers of a tensor together; 0: any */
} HurrayReaderOptions;

/* Reads from where `fd` stands, and never further than the tensor that was asked for. `options` may be null. */
HURRAY_API HurrayStatus hurray_reader_open_stream(int fd, const HurrayReaderOptions *options, HurrayReader **out);
/* Reads index and key-values of the file. The position of `fd` does not matter and is left alone; the file must not be
 * changed while it is read. HURRAY_ERR_UNSUPPORTED unless `fd` is a regular file (a memfd is). `options` may be null. */
HURRAY_API HurrayStatus hurray_reader_open_file(int fd, const HurrayReaderOptions *options, HurrayReader **out);
/* Writes null through `reader`. `*reader` may be null. */
HURRAY_API HurrayStatus hurray_reader_destroy(HurrayReader **reader);

/* Goes on to the next tensor; null behind the last one. In a file that is the order of the descriptors, so the members of a
 * composite follow their head. A stream whose place was lost by a failure fails again with every call; in a file the
 * tensor that failed is passed. */
HURRAY_API HurrayStatus hurray_reader_next(HurrayReader *reader, HurrayDescriptor **out);

/* Reads `len` bytes at `offset` of a buffer of the current tensor into `out`, which may be null with len 0.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS   no such buffer, or past its end
 * HURRAY_ERR_INVALID_ARGUMENT      no current tensor; in a stream also: these bytes have passed, it is read front to back */
HURRAY_API HurrayStatus hurray_reader_read(HurrayReader *reader, uint32_t buffer, uint64_t offset, void *out,
                                           uint64_t len);
/* Reads all buffers of the current tensor into memory of their own, which goes with the list. It is host memory, so the
 * buffers are CPU, standard, producer-synced, wherever the descriptor says they once were; their alignment is the
 * descriptor's, but at least 64 and at most 4096. */
HURRAY_API HurrayStatus hurray_reader_read_buffers(HurrayReader *reader, HurrayBufferList **out);

/* The rest is for files: HURRAY_ERR_UNSUPPORTED for streams. Names, keys and values are UTF-8 with a length, without a
 * terminating null, borrowed from the reader (R5). */

typedef struct HurrayFileInfo {
    uint64_t byte_size;
    uint64_t tensor_count;
    uint64_t value_count;           /* key-values */
    uint32_t flags;                 /* file_flags of the header */
    uint32_t data_buffer_alignment; /* of the buffers in the file */
    uint8_t version_major;
    uint8_t version_minor;
    uint8_t reserved[6]; /* 0 */
} HurrayFileInfo;

typedef struct HurrayFileEntry {
    const char *name;
    uint64_t name_len;
    uint64_t descriptor_offset;
    uint64_t descriptor_length;
    uint64_t data_offset; /* of the first buffer */
    uint64_t data_length; /* from there to the end of the last buffer */
} HurrayFileEntry;

HURRAY_API HurrayStatus hurray_reader_file_info(const HurrayReader *reader, HurrayFileInfo *out);
/* What the index says of tensor `index`, in the order of the index; it is checked when the tensor is gone to.
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the last one. */
HURRAY_API HurrayStatus hurray_reader_entry(const HurrayReader *reader, uint64_t index, HurrayFileEntry *out);
/* The number of the tensor with this name. HURRAY_ERR_NOT_FOUND if there is none. */
HURRAY_API HurrayStatus hurray_reader_find(const HurrayReader *reader, const char *name, uint64_t name_len,
                                           uint64_t *out);
/* Makes tensor `index` the current one; hurray_reader_next goes on behind it. HURRAY_ERR_INDEX_OUT_OF_BOUNDS */
HURRAY_API HurrayStatus hurray_reader_go_to(HurrayReader *reader, uint64_t index, HurrayDescriptor **out);
/* The number of the current tensor. HURRAY_ERR_NOT_FOUND if there is none. */
HURRAY_API HurrayStatus hurray_reader_current(const HurrayReader *reader, uint64_t *out);
/* Where a buffer of the current tensor begins in the file, for those who map it. HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the
 * last one, HURRAY_ERR_NOT_FOUND without a current tensor. */
HURRAY_API HurrayStatus hurray_reader_buffer_offset(const HurrayReader *reader, uint32_t buffer, uint64_t *out);

/* Kinds of values. */
#define HURRAY_VALUE_STRING 0x01
#define HURRAY_VALUE_INT64 0x02
#define HURRAY_VALUE_UINT64 0x03
#define HURRAY_VALUE_FLOAT64 0x04
#define HURRAY_VALUE_BOOL 0x05
#define HURRAY_VALUE_BYTES 0x06
#define HURRAY_VALUE_ARRAY 0x07

/* One value. The fields that its kind does not have are 0. */
typedef struct HurrayValue {
    uint8_t kind;         /* HURRAY_VALUE_* */
    uint8_t element_kind; /* array: of all its elements, any kind but array */
    uint8_t boolean;      /* bool: 0 or 1 */
    uint8_t reserved[5];  /* 0 */
    int64_t int64;
    uint64_t uint64;
    double float64;
    const uint8_t *data; /* string (UTF-8), bytes: the contents; array: its elements, encoded */
    uint64_t length;     /* of `data`, in bytes */
    uint64_t count;      /* array: elements */
} HurrayValue;

/* HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the last one. */
HURRAY_API HurrayStatus hurray_reader_value(const HurrayReader *reader, uint64_t index, const char **out_key,
                                            uint64_t *out_key_len, HurrayValue *out_value);
/* HURRAY_ERR_NOT_FOUND if there is no such key. */
HURRAY_API HurrayStatus hurray_reader_find_value(const HurrayReader *reader, const char *key, uint64_t key_len,
                                                 HurrayValue *out);
/* Takes the first element off `array`, a value of kind array that a reader gave out. HURRAY_ERR_NOT_FOUND if none is left,
 * HURRAY_ERR_INVALID_ARGUMENT if it is no such array. */
HURRAY_API HurrayStatus hurray_value_take_element(HurrayValue *array, HurrayValue *out);

/* ---- Streams and files: writing --------------------------------------------------------------------------------- */

/* A writer writes front to back, in one pass; pipes and sockets will do. Everything is checked before the first byte of a
 * tensor is written, so a refusal changes nothing. When writing itself fails, the output ends anywhere, and every later call
 * fails again. A pipe that nobody reads any more raises SIGPIPE, as with any write; where that is ignored, it is
 * HURRAY_ERR_CLOSED. Nothing is synced to disk: fsync is the caller's.
 *
 * Writing fails, whichever function it is in, with
 * HURRAY_ERR_NO_SPACE, _LIMIT, _CLOSED, _INVALID_ARGUMENT, _INTERNAL   as the system says */

typedef struct HurrayFileOptions {
    uint32_t struct_size;           /* sizeof(HurrayFileOptions) */
    uint32_t data_buffer_alignment; /* of buffers in the file: a power of two from 4096 to 2097152; 0: 4096 */
    uint8_t sorted_index;           /* 1: the index is by name; 0: in the order of writing */
    uint8_t reserved[7];            /* 0 */
} HurrayFileOptions;

HURRAY_API HurrayStatus hurray_writer_open_stream(int fd, HurrayWriter **out);
/* Writes the header. A regular file has to be empty, since its end is looked for by readers. `options` may be null. */
HURRAY_API HurrayStatus hurray_writer_open_file(int fd, const HurrayFileOptions *options, HurrayWriter **out);
/* Ends the output: a file gets its index, without which it is none. Nothing can be written after that.
 * HURRAY_ERR_INVALID_ARGUMENT if a composite head still lacks members. */
HURRAY_API HurrayStatus hurray_writer_finish(HurrayWriter *writer);
/* Does not finish. Writes null through `writer`. `*writer` may be null. */
HURRAY_API HurrayStatus hurray_writer_destroy(HurrayWriter **writer);

/* Writes a tensor: the descriptor in canonical form, and each buffer. The members of a composite are written behind its head.
 *
 * name     file: 1 to 65535 bytes of UTF-8, unlike any other; stream: null with name_len 0
 * buffers  as many addresses in host memory as the descriptor has buffers, each with as many bytes as it says; may be null
 *          if there are none, and so may be the address of an empty buffer
 *
 * HURRAY_ERR_INVALID_ARGUMENT   name
 * HURRAY_ERR_ALREADY_EXISTS     the file has a tensor of that name
 * HURRAY_ERR_INVALID_SYNC_MODE  a buffer that is not producer-synced: no event is kept with it
 * HURRAY_ERR_INTERNAL           a ninth composite head inside one another (SubpavingNestingTooDeep) */
HURRAY_API HurrayStatus hurray_writer_write(HurrayWriter *writer, const char *name, uint64_t name_len,
                                            const HurrayDescriptor *descriptor, const void *const *buffers);
/* The same with the buffers of a list. HURRAY_ERR_INVALID_ARGUMENT if they are not as many, or not as large, as the
 * descriptor says; HURRAY_ERR_UNSUPPORTED if one is in memory that the host does not reach. */
HURRAY_API HurrayStatus hurray_writer_write_list(HurrayWriter *writer, const char *name, uint64_t name_len,
                                                 const HurrayDescriptor *descriptor, const HurrayBufferList *buffers);

/* Files: keeps a value, which hurray_writer_finish writes, in the order of the calls. An array is one that a reader gave
 * out. HURRAY_ERR_INVALID_ARGUMENT for key or value, HURRAY_ERR_ALREADY_EXISTS for the key, HURRAY_ERR_UNSUPPORTED for
 * streams. */
HURRAY_API HurrayStatus hurray_writer_add_value(HurrayWriter *writer, const char *key, uint64_t key_len,
                                                const HurrayValue *value);
/* The same with an array made of `count` elements, at least one, all of one kind. */
HURRAY_API HurrayStatus hurray_writer_add_array(HurrayWriter *writer, const char *key, uint64_t key_len,
                                                const HurrayValue *elements, uint64_t count);

/* ---- Element types ---------------------------------------------------------------------------------------------- */

/* Width of one element in bits. HURRAY_ERR_INVALID_TYPE for a tag that names no type (private ones included). */
HURRAY_API HurrayStatus hurray_element_type_bits(uint8_t type_tag, uint32_t *out);
/* The type's name, e.g. "float32"; static storage. HURRAY_ERR_INVALID_TYPE as above. */
HURRAY_API HurrayStatus hurray_element_type_name(uint8_t type_tag, const char **out);
/* The tag of a name. HURRAY_ERR_INVALID_TYPE if no type is called that. */
HURRAY_API HurrayStatus hurray_element_type_from_name(const char *name, uint8_t *out);

/* ---- Tensor contexts -------------------------------------------------------------------------------------------- */

/* Runs once, in hurray_tensor_context_destroy: the consumer is done. */
typedef void (*HurrayOwnerReleaseFn)(void *owner);

/* Copies `len` descriptor bytes without looking into them. `descriptor` may be null with len 0; `owner` and `release`
 * may be null. Any `abi_version` is kept as it is. */
HURRAY_API HurrayStatus hurray_tensor_context_new(uint32_t abi_version, const uint8_t *descriptor, uint64_t len,
                                                  void *owner, HurrayOwnerReleaseFn release, HurrayTensorContext **out);
/* Works for contexts of every ABI version; check it before any other accessor. */
HURRAY_API HurrayStatus hurray_tensor_context_abi_version(const HurrayTensorContext *context, uint32_t *out);
/* Borrowed (R5). An empty descriptor is null and 0. */
HURRAY_API HurrayStatus hurray_tensor_context_descriptor(const HurrayTensorContext *context, const uint8_t **out,
                                                         uint64_t *out_len);
/* The `owner` that the context was made with, for whoever made it: `release` says so, by being the function that the context
 * was made with. May be null, if that was. HURRAY_ERR_INVALID_ARGUMENT for a context of somebody else's. */
HURRAY_API HurrayStatus hurray_tensor_context_owner(const HurrayTensorContext *context, HurrayOwnerReleaseFn release,
                                                    void **out);
/* Writes null through `context`, then runs release(owner) once, then frees. `*context` may be null. */
HURRAY_API HurrayStatus hurray_tensor_context_destroy(HurrayTensorContext **context);

#ifdef __cplusplus
}
#endif

#endif /* HURRAY_H */
