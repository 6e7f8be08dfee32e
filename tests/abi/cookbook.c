/*
 * Every C snippet of the cookbook for C bindings, verbatim, and then run.
 *
 * Compiled as C99 and as C++20. What differs from the cookbook's text: aligned_alloc needs _ISOC11_SOURCE in C99; the
 * three parts of the sync snippet stand in scopes of their own, since each declares `s`; in C++ malloc needs a cast.
 */
#include <assert.h>
#include "hurray.h"

void startup_check(void);
HurrayBuffer *create_cpu_buffer(size_t n_bytes);
HurrayDescriptor *decode_descriptor(const uint8_t *bytes, size_t len);
void inspect(HurrayDescriptor *desc);

/* ---- ABI version check ------------------------------------------------------------------------------------------ */

void startup_check(void)
{
    uint32_t v = hurray_c_abi_version();
    assert(v == 2 && "unexpected Hurray C ABI version");
}

/* ---- Creating a buffer with a release callback ------------------------------------------------------------------ */

#include <stdio.h>
#include <stdlib.h>
#include "hurray.h"

static void my_release(void *data, void *ctx)
{
    (void)ctx;
    free(data);
    printf("buffer freed\n");
}

HurrayBuffer *create_cpu_buffer(size_t n_bytes)
{
    void *data = aligned_alloc(64, n_bytes);
    if (!data) {
        return NULL;
    }

    HurrayBuffer *handle = NULL;
    HurrayStatus s = hurray_buffer_from_ptr(data, (uint64_t)n_bytes,
                                            /*alignment=*/64,
                                            /*device_tag=*/0x00,   /* CPU */
                                            /*sync_mode=*/0x00,    /* ProducerSynced */
                                            /*memory_class=*/0x00, /* Standard */
                                            my_release, /*release_context=*/NULL, &handle);
    if (s != HURRAY_OK) {
        free(data);
        return NULL;
    }
    return handle;
}

/* ---- Destroying a buffer ---------------------------------------------------------------------------------------- */

static void destroy_a_buffer(HurrayBuffer *handle)
{
    HurrayStatus s = hurray_buffer_destroy(handle);
    assert(s == HURRAY_OK);
    /* handle is invalid after this point - do not dereference */
}

/* ---- Decoding a tensor descriptor ------------------------------------------------------------------------------- */

#include "hurray.h"

HurrayDescriptor *decode_descriptor(const uint8_t *bytes, size_t len)
{
    HurrayDescriptor *desc = NULL;
    HurrayStatus s = hurray_descriptor_decode(bytes, len, &desc);
    if (s != HURRAY_OK) {
        return NULL; /* inspect s for the specific error */
    }
    return desc;
}

/* What inspect() saw: the cookbook's function keeps it to itself. */
static size_t inspected_rank;
static uint64_t inspected_dims[64];

void inspect(HurrayDescriptor *desc)
{
    uint32_t rank;
    hurray_descriptor_rank(desc, &rank);

    uint64_t dims[64];
    size_t capacity = rank;
    hurray_descriptor_shape(desc, dims, &capacity);
    /* capacity now holds the true rank; dims[0..rank] are the dimension sizes */

    inspected_rank = capacity;
    for (size_t i = 0; i < capacity; i++) {
        inspected_dims[i] = dims[i];
    }

    hurray_descriptor_destroy(desc);
}

/* ---- Shape capacity/query pattern ------------------------------------------------------------------------------- */

static uint64_t *query_shape(HurrayDescriptor *desc, size_t *out_rank)
{
    size_t cap = 0;
    /* Query-only call: out_dims=NULL forces BUFFER_TOO_SMALL, writes true rank */
    hurray_descriptor_shape(desc, NULL, &cap);

#ifdef __cplusplus
    uint64_t *dims = (uint64_t *)malloc(cap * sizeof(uint64_t));
#else
    uint64_t *dims = malloc(cap * sizeof(uint64_t));
#endif
    hurray_descriptor_shape(desc, dims, &cap);

    *out_rank = cap;
    return dims;
}

/* ---- Sync mode handoff cross-check ------------------------------------------------------------------------------ */

static void my_event_release(void *sync_handle, void *context)
{
    (void)sync_handle;
    (void)context;
    abort(); /* the library never calls this */
}

static HurrayStatus handoff_event(HurrayBuffer *buffer, void *cuda_event)
{
    /* Event mode: producer recorded a CUDA event */
    HurraySyncEventPayload payload = {
        .sync_handle = cuda_event,
        .sync_handle_device_tag = 0x01, /* CUDA */
        .event_release_fn = my_event_release,
        .event_release_context = NULL,
    };
    HurrayStatus s = hurray_buffer_handoff_event(buffer, &payload);
    if (s == HURRAY_ERR_SYNC_MODE_MISMATCH) { /* handle disagreement */
    }
    return s;
}

static HurrayStatus handoff_stream(HurrayBuffer *buffer, void *my_cuda_stream)
{
    /* ConsumerStream mode: consumer declares its target stream */
    HurraySyncConsumerStreamPayload sp = {
        .consumer_stream = my_cuda_stream, .consumer_stream_device_tag = 0x01, /* CUDA */
    };
    HurrayStatus s = hurray_buffer_handoff_consumer_stream(buffer, &sp);
    return s;
}

static HurrayStatus handoff_synced(HurrayBuffer *buffer)
{
    /* ProducerSynced mode: producer issued a host-side wait; no payload needed */
    HurrayStatus s = hurray_buffer_handoff_producer_synced(buffer);
    return s;
}

/* ---- Reading a capsule from outside Python ---------------------------------------------------------------------- */

static int releases;

static void owner_release(void *owner)
{
    assert(owner == &releases);
    releases++;
}

static int read_capsule(HurrayTensorContext *ctx, HurrayBufferList *list)
{
    uint32_t abi_version = 0;
    if (hurray_tensor_context_abi_version(ctx, &abi_version) != HURRAY_OK) {
        return -1;
    }
    if (abi_version != HURRAY_C_ABI_VERSION) {
        /* Producer and consumer disagree - refuse rather than dereference. */
        return -1;
    }

    const uint8_t *bytes = NULL;
    uint64_t len = 0;
    if (hurray_tensor_context_descriptor(ctx, &bytes, &len) != HURRAY_OK) {
        return -1;
    }

    HurrayDescriptor *descriptor = NULL;
    if (hurray_descriptor_decode(bytes, (uintptr_t)len, &descriptor) != HURRAY_OK) {
        return -1;
    }

    uint8_t type_tag = 0;
    uint32_t rank = 0;
    hurray_descriptor_element_type_tag(descriptor, &type_tag);
    hurray_descriptor_rank(descriptor, &rank);
    assert(type_tag == 0x03 && rank == 2);

    uint64_t count = 0;
    hurray_buffer_list_len(list, &count);
    for (uint64_t i = 0; i < count; i++) {
        HurrayBuffer *borrowed = NULL; /* owned by the list - do not destroy */
        hurray_buffer_list_get(list, i, &borrowed);

        void *ptr = NULL;
        uint64_t size = 0;
        hurray_buffer_data_ptr(borrowed, &ptr);
        hurray_buffer_byte_size(borrowed, &size);
        assert(ptr != NULL && size == 4096);
    }
    assert(count == 2);

    hurray_descriptor_destroy(descriptor);
    hurray_tensor_context_destroy(&ctx); /* runs owner_release exactly once */
    hurray_buffer_list_destroy(&list);   /* destroys every handle it owns */
    assert(ctx == NULL && list == NULL);
    return 0;
}

/* ---- Running them ----------------------------------------------------------------------------------------------- */

/* float32 [3,4], row-major: the first example of the descriptor format. */
static const uint8_t example[61] = {
    0x48, 0x52, 0x52, 0x59, 1, 0, 0x3D, 0, 0, 0, 0, 0, 0, 0, 3,    1, 2, 0, 0, 0, 3, 0, 0,    0, 0, 0, 0, 0, 4, 0, 0,
    0,    0,    0,    0,    0, 0, 0,    0, 0, 0, 0, 0, 0, 1, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0,
};

static HurrayBuffer *buffer_with_sync_mode(uint8_t sync_mode)
{
    HurrayBuffer *buffer = NULL;
    HurrayStatus s = hurray_buffer_from_ptr(&releases, 64, 64, 0x01, sync_mode, 0x00, NULL, NULL, &buffer);
    assert(s == HURRAY_OK);
    return buffer;
}

static void run_handoffs(void)
{
    int event = 0;
    HurrayBuffer *synced = buffer_with_sync_mode(0x00);
    HurrayBuffer *evented = buffer_with_sync_mode(0x01);
    HurrayBuffer *streamed = buffer_with_sync_mode(0x02);
    assert(handoff_synced(synced) == HURRAY_OK);
    assert(handoff_event(synced, &event) == HURRAY_ERR_SYNC_MODE_MISMATCH);
    assert(handoff_event(evented, &event) == HURRAY_OK);
    assert(handoff_stream(evented, &event) == HURRAY_ERR_SYNC_MODE_MISMATCH);
    assert(handoff_stream(streamed, &event) == HURRAY_OK);
    assert(handoff_synced(streamed) == HURRAY_ERR_SYNC_MODE_MISMATCH);
    destroy_a_buffer(synced);
    destroy_a_buffer(evented);
    destroy_a_buffer(streamed);
}

static void run_capsule(void)
{
    HurrayTensorContext *context = NULL;
    HurrayBufferList *list = NULL;
    HurrayStatus s =
        hurray_tensor_context_new(HURRAY_C_ABI_VERSION, example, sizeof example, &releases, owner_release, &context);
    assert(s == HURRAY_OK);
    s = hurray_buffer_list_new(2, &list);
    assert(s == HURRAY_OK);
    for (int i = 0; i < 2; i++) {
        s = hurray_buffer_list_push(list, create_cpu_buffer(4096));
        assert(s == HURRAY_OK);
    }
    assert(read_capsule(context, list) == 0);
    assert(releases == 1);
}

int main(void)
{
    startup_check();
    destroy_a_buffer(create_cpu_buffer(4096));

    assert(decode_descriptor(example, 60) == NULL);
    inspect(decode_descriptor(example, sizeof example));
    assert(inspected_rank == 2 && inspected_dims[0] == 3 && inspected_dims[1] == 4);

    HurrayDescriptor *descriptor = decode_descriptor(example, sizeof example);
    size_t rank = 0;
    uint64_t *dims = query_shape(descriptor, &rank);
    assert(rank == 2 && dims[0] == 3 && dims[1] == 4);
    free(dims);
    hurray_descriptor_destroy(descriptor);

    run_handoffs();
    run_capsule();
    return 0;
}
