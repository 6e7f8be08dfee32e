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
#define HURRAY_ERR_NOT_FOUND (-32)          /* no such capsule, version, stream, lease, or section */
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

/* Whether the descriptor also makes sense: every rule of the format that decoding does not enforce. Fields against each
 * other, layout and quantization against shape and buffer table, buffers large enough, devices and memory classes that go
 * together. What depends on a dynamic dimension is not looked at, nor what lies in the buffers. The message names the first
 * rule that is broken and its field. HURRAY_ERR_INVALID_LAYOUT, _INVALID_TYPE, _VERSION_MISMATCH, _INTERNAL as the format
 * says for each rule. */
HURRAY_API HurrayStatus hurray_descriptor_validate(const HurrayDescriptor *descriptor);
/* The same by the rules of sharing, which the broker and both its clients apply: private layouts pass, an alignment of 64 is
 * enough on every device (hurray_descriptor_validate wants 4096 on GPUs), and no dimension may be dynamic. */
HURRAY_API HurrayStatus hurray_descriptor_validate_sharing(const HurrayDescriptor *descriptor);

/* ---- Descriptors: every field ----------------------------------------------------------------------------------- */

/* Fields of a layout that the descriptor does not have give HURRAY_ERR_UNSUPPORTED, as hurray_descriptor_strides does;
 * sections that it does not have give HURRAY_ERR_NOT_FOUND. The structs here are used for building as well. */

/* `major` and `minor` as stored. */
HURRAY_API HurrayStatus hurray_descriptor_version(const HurrayDescriptor *descriptor, uint8_t *out_major,
                                                  uint8_t *out_minor);

/* Optional sections of a descriptor. */
#define HURRAY_SECTION_QUANTIZATION 0x01u
#define HURRAY_SECTION_SHARD 0x02u
#define HURRAY_SECTION_EXTENSION_TYPE 0x04u
#define HURRAY_SECTION_STATISTICS 0x08u
#define HURRAY_SECTION_COMPOSITE_MEMBER 0x10u

/* Which sections there are: HURRAY_SECTION_* bits. */
HURRAY_API HurrayStatus hurray_descriptor_sections(const HurrayDescriptor *descriptor, uint32_t *out);

#define HURRAY_MAX_TILED_LEVELS 8u

/* Tiled: how many levels of tiling there are, 1 to HURRAY_MAX_TILED_LEVELS. Level 0 is the outermost. */
HURRAY_API HurrayStatus hurray_descriptor_tiled_level_count(const HurrayDescriptor *descriptor, uint32_t *out);
/* How level `level` arranges its tiles (HURRAY_LAYOUT_ROW_MAJOR, _COLUMN_MAJOR, _STRIDED), and the elements in a tile (those,
 * or _TILED: the next level). HURRAY_ERR_INDEX_OUT_OF_BOUNDS past the last level, as for the next three. */
HURRAY_API HurrayStatus hurray_descriptor_tiled_order(const HurrayDescriptor *descriptor, uint32_t level,
                                                      uint8_t *out_outer, uint8_t *out_inner);
/* Sizes of a tile, in elements, one a dimension (R6). */
HURRAY_API HurrayStatus hurray_descriptor_tiled_shape(const HurrayDescriptor *descriptor, uint32_t level,
                                                      uint64_t *out_dims, uintptr_t *inout_rank);
/* Strides of a strided outer order, in tiles, and of a strided inner order, in elements (R6). HURRAY_ERR_UNSUPPORTED for the
 * other orders. */
HURRAY_API HurrayStatus hurray_descriptor_tiled_outer_strides(const HurrayDescriptor *descriptor, uint32_t level,
                                                              int64_t *out_strides, uintptr_t *inout_rank);
HURRAY_API HurrayStatus hurray_descriptor_tiled_inner_strides(const HurrayDescriptor *descriptor, uint32_t level,
                                                              int64_t *out_strides, uintptr_t *inout_rank);

/* Morton: how many bits of each index are interleaved, one a dimension (R6). */
HURRAY_API HurrayStatus hurray_descriptor_morton_bits(const HurrayDescriptor *descriptor, uint32_t *out_bits,
                                                      uintptr_t *inout_rank);

/* Hilbert: bits of each index, and the rank that the layout states. */
HURRAY_API HurrayStatus hurray_descriptor_hilbert(const HurrayDescriptor *descriptor, uint32_t *out_order,
                                                  uint32_t *out_rank);

/* COO, CSR, CSC, CSF: how many elements are stored. */
HURRAY_API HurrayStatus hurray_descriptor_nnz(const HurrayDescriptor *descriptor, uint64_t *out);
/* COO: 1 if the entries are sorted, else 0. */
HURRAY_API HurrayStatus hurray_descriptor_coo_is_sorted(const HurrayDescriptor *descriptor, uint8_t *out);
/* CSF: which dimension each level of the tree holds, the top first (R6). */
HURRAY_API HurrayStatus hurray_descriptor_csf_mode_order(const HurrayDescriptor *descriptor, uint32_t *out_modes,
                                                         uintptr_t *inout_rank);

#define HURRAY_KV_ROLE_KEY 0
#define HURRAY_KV_ROLE_VALUE 1
#define HURRAY_KV_ROLE_FUSED 2 /* or of another kind */
#define HURRAY_NO_LAYER UINT32_MAX

typedef struct HurrayBlockPaged {
    uint64_t num_pages;   /* in the pool */
    uint32_t page_size;   /* tokens a page */
    uint32_t paged_axis;  /* 0 */
    uint32_t num_seqs;    /* may be 0 */
    uint32_t layer_index; /* HURRAY_NO_LAYER: not tied to a layer */
    uint8_t kv_role;      /* HURRAY_KV_ROLE_* */
    uint8_t index_type;   /* of page numbers and sequence pointers: 0 uint32, 1 uint64 */
    uint8_t reserved[6];  /* 0 */
} HurrayBlockPaged;

HURRAY_API HurrayStatus hurray_descriptor_block_paged(const HurrayDescriptor *descriptor, HurrayBlockPaged *out);

#define HURRAY_COMPOSITION_PARTITION 1
#define HURRAY_COMPOSITION_OVERLAY 2
#define HURRAY_COMPOSITION_GROUP 3

#define HURRAY_COMBINE_NONE 0 /* partition and group */
#define HURRAY_COMBINE_REPLACE 1
#define HURRAY_COMBINE_ADD 2

typedef struct HurrayCompositeHead {
    uint32_t member_count;
    uint8_t composition_rule; /* HURRAY_COMPOSITION_* */
    uint8_t combine_op;       /* HURRAY_COMBINE_* */
    uint8_t reserved[2];      /* 0 */
} HurrayCompositeHead;

HURRAY_API HurrayStatus hurray_descriptor_composite_head(const HurrayDescriptor *descriptor, HurrayCompositeHead *out);

/* A private layout: its id, and its data, borrowed (R5); null and 0 if it has none. */
HURRAY_API HurrayStatus hurray_descriptor_private_layout(const HurrayDescriptor *descriptor, uint64_t *out_id,
                                                         const uint8_t **out_data, uintptr_t *out_len);

#define HURRAY_QUANTIZATION_PER_TENSOR 1
#define HURRAY_QUANTIZATION_PER_CHANNEL 2
#define HURRAY_QUANTIZATION_PER_BLOCK 3
#define HURRAY_QUANTIZATION_NF4 4
#define HURRAY_QUANTIZATION_MXFP 5
#define HURRAY_NO_BUFFER UINT32_MAX

/* A quantization taken apart. Fields that the scheme does not have are 0, and buffers that it does not have
 * HURRAY_NO_BUFFER; for building they are not looked at. */
typedef struct HurrayQuantization {
    uint8_t scheme;                   /* HURRAY_QUANTIZATION_* */
    uint8_t scheme_version;           /* 1 */
    uint8_t symmetric;                /* per-channel, per-block: 1 without zero points, else 0 */
    uint8_t scale_type_tag;           /* per-channel: HURRAY_TYPE_FLOAT32; per-block: _FLOAT16, _BFLOAT16 or _FLOAT32 */
    uint32_t axis;                    /* all but per-tensor */
    uint32_t block_size;              /* per-block, NF4, MXFP: elements a block */
    uint32_t scale_buffer_index;      /* all but per-tensor: in the buffer table */
    uint32_t zero_point_buffer_index; /* per-channel, per-block, unless symmetric; may be that of the scales */
    float scale;                      /* per-tensor */
    int32_t zero_point;               /* per-tensor */
} HurrayQuantization;

/* The quantization section taken apart. HURRAY_ERR_INTERNAL if its bytes make no sense: decoding looks into them only for
 * block-paged tensors. */
HURRAY_API HurrayStatus hurray_descriptor_quantization(const HurrayDescriptor *descriptor, HurrayQuantization *out);
/* Its bytes as they are, borrowed (R5); null and 0 for an empty section. */
HURRAY_API HurrayStatus hurray_descriptor_quantization_bytes(const HurrayDescriptor *descriptor,
                                                             const uint8_t **out_data, uintptr_t *out_len);

/* The shape that this tensor is a box of, and where in it the box begins (R6 with one length for both arrays; either may be
 * null, which is too small). */
HURRAY_API HurrayStatus hurray_descriptor_shard(const HurrayDescriptor *descriptor, uint64_t *out_parent_shape,
                                                uint64_t *out_offset, uintptr_t *inout_rank);

/* Which fields of HurrayStatistics mean something. */
#define HURRAY_STATISTICS_NNZ 0x01u
#define HURRAY_STATISTICS_SPARSITY_RATIO 0x02u
#define HURRAY_STATISTICS_RANGE 0x04u   /* value_min, value_max, value_abs_max */
#define HURRAY_STATISTICS_MOMENTS 0x08u /* value_mean, value_stddev */
#define HURRAY_STATISTICS_NM 0x10u      /* nm_n, nm_m */
#define HURRAY_STATISTICS_SPECIAL 0x20u /* has_nan, has_inf */

/* Hints about the real, dequantized values. Fields whose bit is clear mean nothing, but are kept as they are. */
typedef struct HurrayStatistics {
    uint64_t nnz;
    double sparsity_ratio; /* zeros / elements */
    double value_min;
    double value_max;
    double value_abs_max;
    double value_mean;
    double value_stddev;    /* of the population */
    uint32_t computed_mask; /* HURRAY_STATISTICS_* */
    uint8_t nm_n;           /* at most nm_n of each nm_m elements are not zero */
    uint8_t nm_m;
    uint8_t has_nan; /* 0 or 1 */
    uint8_t has_inf; /* 0 or 1 */
} HurrayStatistics;

HURRAY_API HurrayStatus hurray_descriptor_statistics(const HurrayDescriptor *descriptor, HurrayStatistics *out);

/* What a private element type (F0 to FE) is. */
typedef struct HurrayExtensionType {
    uint32_t bit_width;
    uint32_t exponent_bias; /* 0 for integers, as are the other fields of floats */
    uint8_t packing_factor; /* elements a byte: 8, 4, 2 for 1, 2, 4 bits; 1 from 8 bits on */
    uint8_t is_float;       /* this and the other flags: 0 or 1 */
    uint8_t is_signed;      /* of integers */
    uint8_t sign_bits;
    uint8_t exponent_bits;
    uint8_t mantissa_bits;
    uint8_t has_nan;
    uint8_t has_inf;
} HurrayExtensionType;

HURRAY_API HurrayStatus hurray_descriptor_extension_type(const HurrayDescriptor *descriptor, HurrayExtensionType *out);

#define HURRAY_MEMBER_CORRECTION 0
#define HURRAY_MEMBER_BASE 1

/* What this member of an overlay is: HURRAY_MEMBER_*. */
HURRAY_API HurrayStatus hurray_descriptor_composite_member(const HurrayDescriptor *descriptor, uint8_t *out_role);

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

/* Encodes the canonical bytes of `dense` into `out_bytes` (R6). The result passes hurray_descriptor_validate_sharing.
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

/* ---- Descriptors: building -------------------------------------------------------------------------------------- */

/* A descriptor that is being put together: shape and element type first, then whatever else it has, in any order. A setter
 * replaces what an earlier call set; it copies its arrays, and judges nothing but its pointers and reserved fields. What
 * can't be a descriptor is refused by encode and build, with the statuses and messages of hurray_descriptor_decode; what
 * makes no sense is for hurray_descriptor_validate on what build gives. */
typedef struct HurrayDescriptorBuilder HurrayDescriptorBuilder;

/* A row-major tensor without buffers. `shape` has `rank` sizes and may be null for rank 0.
 * HURRAY_ERR_INVALID_LAYOUT  rank above HURRAY_MAX_RANK */
HURRAY_API HurrayStatus hurray_descriptor_builder_new(uint8_t element_type, const uint64_t *shape, uint32_t rank,
                                                      HurrayDescriptorBuilder **out);
/* Begins with everything that `descriptor` holds. */
HURRAY_API HurrayStatus hurray_descriptor_builder_from_descriptor(const HurrayDescriptor *descriptor,
                                                                  HurrayDescriptorBuilder **out);
/* Frees the builder and writes null through `builder`. `*builder` may be null. */
HURRAY_API HurrayStatus hurray_descriptor_builder_destroy(HurrayDescriptorBuilder **builder);

/* Of the element with all-zero index, in buffer 0; 0 unless set. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_byte_offset(HurrayDescriptorBuilder *builder,
                                                                  uint64_t byte_offset);

/* The layouts. Arrays named `strides`, `bits`, `mode_order` have one entry a dimension, and may be null for rank 0. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_row_major(HurrayDescriptorBuilder *builder);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_column_major(HurrayDescriptorBuilder *builder);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_strided(HurrayDescriptorBuilder *builder, const int64_t *strides);

/* One level of tiling, its arrays with one entry a dimension. */
typedef struct HurrayTiledLevel {
    const uint64_t *tile_shape;   /* in elements */
    const int64_t *outer_strides; /* in tiles; for a strided outer layout only, else null */
    const int64_t *inner_strides; /* in elements; for a strided inner layout only, else null */
    uint8_t outer_layout;         /* HURRAY_LAYOUT_ROW_MAJOR, _COLUMN_MAJOR or _STRIDED */
    uint8_t inner_layout;         /* those; _TILED on every level but the last */
    uint8_t reserved[6];          /* 0 */
} HurrayTiledLevel;

/* `levels`, the outermost first; 1 to HURRAY_MAX_TILED_LEVELS of them.
 * HURRAY_ERR_INVALID_ARGUMENT  level_count, strides that are given but not wanted, reserved */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_tiled(HurrayDescriptorBuilder *builder,
                                                            const HurrayTiledLevel *levels, uint32_t level_count);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_morton(HurrayDescriptorBuilder *builder, const uint32_t *bits);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_hilbert(HurrayDescriptorBuilder *builder, uint32_t order,
                                                              uint32_t rank);
/* `is_sorted`: 0 or 1, else HURRAY_ERR_INVALID_ARGUMENT. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_coo(HurrayDescriptorBuilder *builder, uint64_t nnz,
                                                          uint8_t is_sorted);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_csr(HurrayDescriptorBuilder *builder, uint64_t nnz);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_csc(HurrayDescriptorBuilder *builder, uint64_t nnz);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_csf(HurrayDescriptorBuilder *builder, uint64_t nnz,
                                                          const uint32_t *mode_order);
/* HURRAY_ERR_INVALID_ARGUMENT  reserved; index_type above 1 */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_block_paged(HurrayDescriptorBuilder *builder,
                                                                  const HurrayBlockPaged *block_paged);
/* HURRAY_ERR_INVALID_ARGUMENT  reserved */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_composite_head(HurrayDescriptorBuilder *builder,
                                                                     const HurrayCompositeHead *head);
/* `layout_tag` F0 to FE, else HURRAY_ERR_INVALID_ARGUMENT; `data` may be null with `len` 0. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_private_layout(HurrayDescriptorBuilder *builder,
                                                                     uint8_t layout_tag, uint64_t id,
                                                                     const uint8_t *data, uintptr_t len);

/* Appends a buffer to the table: those of the layout in its order, then those of the quantization.
 * HURRAY_ERR_INVALID_ARGUMENT  reserved */
HURRAY_API HurrayStatus hurray_descriptor_builder_add_buffer(HurrayDescriptorBuilder *builder,
                                                             const HurrayBufferEntry *entry);
/* Empties the table again. */
HURRAY_API HurrayStatus hurray_descriptor_builder_clear_buffers(HurrayDescriptorBuilder *builder);

/* The sections. A null pointer removes the section that an earlier call set.
 *
 * HURRAY_ERR_INTERNAL          a quantization with fields that its scheme does not allow
 * HURRAY_ERR_INVALID_ARGUMENT  a flag that is neither 0 nor 1 */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_quantization(HurrayDescriptorBuilder *builder,
                                                                   const HurrayQuantization *quantization);
/* The section as bytes, whatever they mean. An empty section differs from none: give any pointer with `len` 0. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_quantization_bytes(HurrayDescriptorBuilder *builder,
                                                                         const uint8_t *bytes, uintptr_t len);
/* Both arrays have one entry a dimension, and both are null or neither, but for rank 0, where `parent_shape` that is not
 * null stands for a section without entries. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_shard(HurrayDescriptorBuilder *builder,
                                                            const uint64_t *parent_shape, const uint64_t *offset);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_statistics(HurrayDescriptorBuilder *builder,
                                                                 const HurrayStatistics *statistics);
HURRAY_API HurrayStatus hurray_descriptor_builder_set_extension_type(HurrayDescriptorBuilder *builder,
                                                                     const HurrayExtensionType *type);
/* `role`: HURRAY_MEMBER_*. */
HURRAY_API HurrayStatus hurray_descriptor_builder_set_composite_member(HurrayDescriptorBuilder *builder,
                                                                       const uint8_t *role);

/* The canonical bytes (R6). The builder stays as it is and can be changed and used again. Fails as hurray_descriptor_decode
 * does, for the field concerned; HURRAY_ERR_INVALID_LAYOUT for more than HURRAY_MAX_BUFFERS buffers. */
HURRAY_API HurrayStatus hurray_descriptor_builder_encode(const HurrayDescriptorBuilder *builder, uint8_t *out_bytes,
                                                         uintptr_t *inout_len);
/* A descriptor of those bytes, to be destroyed by hurray_descriptor_destroy. */
HURRAY_API HurrayStatus hurray_descriptor_builder_build(const HurrayDescriptorBuilder *builder, HurrayDescriptor **out);
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

/* ---- Elements: codes and values --------------------------------------------------------------------------------- */

/* The bits of one element as a number of up to 128 bits. */
typedef struct HurrayElementCode {
    uint64_t low;
    uint64_t high; /* 0 for elements of up to 64 bits */
} HurrayElementCode;

/* One element as numbers to look at. */
typedef struct HurrayElementValue {
    double real;
    double imaginary; /* of complex types; 0 for all others */
} HurrayElementValue;

/* The bytes that `count` elements take one after the other: whole bytes, and whole groups of three for 6-bit types.
 * HURRAY_ERR_INVALID_TYPE for a tag that names no type, here and below; HURRAY_ERR_INVALID_LAYOUT if 64 bits don't hold the
 * size. */
HURRAY_API HurrayStatus hurray_element_storage_size(uint8_t type_tag, uint64_t count, uint64_t *out);

/* Takes an element out of memory, and puts one there without touching those that share its bytes.
 *
 * bytes  where the element begins, or the byte or group of three bytes that it shares with others; at any address
 * len    how many bytes there are, at least those of the element or group
 * bit    the element's lowest bit in them, as in HurrayElementAddress; 0 for types of whole bytes
 * code   bits above the type's width are ignored
 *
 * HURRAY_ERR_INVALID_ARGUMENT  len is too small, or no element begins at bit
 */
HURRAY_API HurrayStatus hurray_element_load(uint8_t type_tag, const uint8_t *bytes, uint64_t len, uint32_t bit,
                                            HurrayElementCode *out);
HURRAY_API HurrayStatus hurray_element_store(uint8_t type_tag, uint8_t *bytes, uint64_t len, uint32_t bit,
                                             const HurrayElementCode *code);

/* The value of a code, rounded to the nearest double, ties to even: exact for all types but 64-bit integers and float128.
 * NaN for the codes 00 and FF of float8_e8m0, which are no values. */
HURRAY_API HurrayStatus hurray_element_to_value(uint8_t type_tag, const HurrayElementCode *code,
                                                HurrayElementValue *out);

/* The code nearest to a value; of two that are equally near, the even one. What is out of range becomes infinity, or the
 * nearest number where the type has no infinity: integers, float8_e4m3, the 4- and 6-bit floats, and float8_e8m0, which
 * has no zero. Bool is 1 for everything but 0.
 * HURRAY_ERR_INVALID_ARGUMENT  NaN in a type that has none; an imaginary part in a type that is not complex */
HURRAY_API HurrayStatus hurray_element_from_value(uint8_t type_tag, const HurrayElementValue *value,
                                                  HurrayElementCode *out);

/* ---- Elements: sizes and addresses ------------------------------------------------------------------------------ */

/* Width of one element of the tensor, in bits; private types are as wide as their descriptor says. */
HURRAY_API HurrayStatus hurray_descriptor_element_bits(const HurrayDescriptor *descriptor, uint32_t *out);

/* The bytes that buffer `index` has to have at least for the descriptor's shape, layout and quantization; the sizes in the
 * buffer table play no part. What only the contents of other buffers say (the length of a block table, the inner levels of
 * CSF) is taken at its least.
 *
 * HURRAY_ERR_INDEX_OUT_OF_BOUNDS  past the table
 * HURRAY_ERR_INVALID_LAYOUT       a dynamic dimension on which the size depends; a size that 64 bits don't hold; a buffer
 *                                 that neither layout nor quantization have; a private layout
 * HURRAY_ERR_INTERNAL             a quantization that doesn't parse, or doesn't fit the tensor */
HURRAY_API HurrayStatus hurray_descriptor_buffer_size(const HurrayDescriptor *descriptor, uint32_t index,
                                                      uint64_t *out);

/* Where an element is. Types below 8 bits share bytes: the element is bit_count bits from bit_offset on of the byte_count
 * bytes at byte_offset, read as one little-endian number. */
typedef struct HurrayElementAddress {
    uint64_t byte_offset;  /* in the buffer */
    uint32_t buffer_index; /* in the buffer table */
    uint32_t byte_count;   /* 3 for 6-bit types, 1 for those of 1, 2, 4 and 8 bits, else the element's size */
    uint32_t bit_offset;   /* 0 for types of whole bytes; up to 18 for 6-bit ones */
    uint32_t bit_count;
    uint8_t stored;      /* 0: the layout doesn't store this element, it is zero and has no address (all fields 0) */
    uint8_t reserved[7]; /* 0 */
} HurrayElementAddress;

/* The address of the element at `index`, in a dense layout: row-major, column-major, strided, tiled, Morton, Hilbert.
 *
 * index      one component a dimension, dimension 0 first; may be null for a scalar
 * index_len  how many components there are: the rank
 *
 * The address is exact for every shape and stride. Its first byte is inside the buffer as the buffer table describes it.
 *
 * HURRAY_ERR_INTERNAL        what the format has no status for: the index is outside the shape or has another length, a
 *                            dimension is dynamic, the address is outside the buffer or past 64 bits; the layout has no
 *                            address without its buffers (sparse, block-paged) or none at all (composite head)
 * HURRAY_ERR_INVALID_LAYOUT  a private layout; Morton bits or Hilbert order that don't fit the shape
 */
HURRAY_API HurrayStatus hurray_descriptor_element_address(const HurrayDescriptor *descriptor, const uint64_t *index,
                                                          uintptr_t index_len, HurrayElementAddress *out);

/* The same for every layout that has elements: it looks the element up in the index buffers of COO, CSR, CSC, CSF and
 * block-paged tensors.
 *
 * buffers  all buffers of the descriptor, in order, in memory that the host can read; those whose sizes the index buffers
 *          promise and don't have are noticed. Their producer may change them meanwhile: the answer is one that some
 *          contents could have given, and never an address outside the buffer
 *
 * A block-paged tensor says where [token, head, component] is only if it has one sequence: see
 * hurray_descriptor_find_paged_element.
 *
 * HURRAY_ERR_INTERNAL          as above
 * HURRAY_ERR_INVALID_LAYOUT    as above; number of buffers; index buffers that are too short, or whose contents contradict
 *                              the layout where the lookup comes past
 * HURRAY_ERR_INVALID_ARGUMENT  a block-paged tensor without exactly one sequence
 * HURRAY_ERR_UNSUPPORTED       a buffer that the host can't read
 */
HURRAY_API HurrayStatus hurray_descriptor_find_element(const HurrayDescriptor *descriptor,
                                                       const HurrayBufferList *buffers, const uint64_t *index,
                                                       uintptr_t index_len, HurrayElementAddress *out);

/* An element of a block-paged tensor. */
typedef struct HurrayPagedIndex {
    uint64_t sequence;
    uint64_t token; /* of the sequence */
    uint64_t head;
    uint64_t component;
} HurrayPagedIndex;

/* As hurray_descriptor_find_element. HURRAY_ERR_INTERNAL also for a token past the pages of its sequence. */
HURRAY_API HurrayStatus hurray_descriptor_find_paged_element(const HurrayDescriptor *descriptor,
                                                             const HurrayBufferList *buffers,
                                                             const HurrayPagedIndex *index, HurrayElementAddress *out);

#define HURRAY_NO_MEMBER UINT32_MAX

/* Which member of a composite has the element at `index`, and where: the last of the members before number `before` whose
 * box holds it. Of a partition one member does. Of an overlay the base does, and corrections may: call again with `before`
 * as the member found, to get them from the latest to the base.
 *
 * members     `member_count` descriptors, those of the composite, in order; may be null if there are none
 * before      member_count to begin with
 * out_member  HURRAY_NO_MEMBER if no member holds the element
 * out_index   index_len components: the element's index in the member; untouched if there is none
 *
 * HURRAY_ERR_INTERNAL        the index, as above; a group, whose members have nothing to do with the head's shape; members
 *                            that are not as many as the head names, or not boxes of its shape
 * HURRAY_ERR_INVALID_LAYOUT  `head` is no composite head
 */
HURRAY_API HurrayStatus hurray_descriptor_find_member(const HurrayDescriptor *head,
                                                      const HurrayDescriptor *const *members, uint32_t member_count,
                                                      const uint64_t *index, uintptr_t index_len, uint32_t before,
                                                      uint32_t *out_member, uint64_t *out_index);

/* ---- Elements: contents ----------------------------------------------------------------------------------------- */

/* The number that the element at `index` is: found as by hurray_descriptor_find_element, and dequantized if the tensor is
 * quantized. 0 if it isn't stored. A call an element is for display and tests, not for whole tensors.
 *
 * out_stored  whether it is stored, 1 or 0; may be null
 *
 * HURRAY_ERR_INTERNAL     as above; a quantization that doesn't parse, or doesn't fit the tensor; a scale that it forbids
 * HURRAY_ERR_INVALID_LAYOUT, HURRAY_ERR_INVALID_ARGUMENT  as above; parameter buffers that are too short
 * HURRAY_ERR_UNSUPPORTED  a buffer that the host can't read; a private type whose values its descriptor doesn't settle
 */
HURRAY_API HurrayStatus hurray_descriptor_read_element(const HurrayDescriptor *descriptor,
                                                       const HurrayBufferList *buffers, const uint64_t *index,
                                                       uintptr_t index_len, HurrayElementValue *out,
                                                       uint8_t *out_stored);
HURRAY_API HurrayStatus hurray_descriptor_read_paged_element(const HurrayDescriptor *descriptor,
                                                             const HurrayBufferList *buffers,
                                                             const HurrayPagedIndex *index, HurrayElementValue *out);

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
