/* The demo's consumer in C: attaches NAME, proves that it sees the producer's own bytes, and lets go. */
#include <hurray_client.h>

#include "sharing.h"

static int failed(const char *what)
{
    fprintf(stderr, "C consumer: %s: %s\n", what, hurray_last_error_message());
    return EXIT_FAILURE;
}

static HurrayStatus print_tensor(const HurrayTensorContext *context, const char *name)
{
    const uint8_t *bytes = NULL;
    uint64_t byte_count = 0;
    HurrayDescriptor *descriptor = NULL;
    uint64_t shape[HURRAY_MAX_RANK];
    uintptr_t rank = HURRAY_MAX_RANK;
    uint8_t type = 0;
    const char *type_name = "?";
    HurrayStatus status = hurray_tensor_context_descriptor(context, &bytes, &byte_count);
    if (status == HURRAY_OK) {
        status = hurray_descriptor_decode(bytes, (uintptr_t)byte_count, &descriptor);
    }
    if (status != HURRAY_OK) {
        return status;
    }
    status = hurray_descriptor_shape(descriptor, shape, &rank);
    if (status == HURRAY_OK) {
        status = hurray_descriptor_element_type_tag(descriptor, &type);
    }
    if (status == HURRAY_OK) {
        status = hurray_element_type_name(type, &type_name);
    }
    hurray_descriptor_destroy(descriptor);
    if (status == HURRAY_OK) {
        printf("C consumer: %s is %s [", name, type_name);
        for (uintptr_t i = 0; i < rank; ++i) {
            printf("%s%" PRIu64, i == 0 ? "" : ", ", shape[i]);
        }
        puts("]");
    }
    return status;
}

static int verify(const struct demo_expectation *expected, const HurrayBufferList *buffers,
                  const HurrayTensorContext *context)
{
    HurrayBuffer *buffer = NULL;
    void *data = NULL;
    uint64_t byte_size = 0;
    if (print_tensor(context, expected->name) != HURRAY_OK) {
        return failed("read the descriptor");
    }
    if (hurray_buffer_list_get(buffers, 0, &buffer) != HURRAY_OK ||
        hurray_buffer_data_ptr(buffer, &data) != HURRAY_OK ||
        hurray_buffer_byte_size(buffer, &byte_size) != HURRAY_OK) {
        return failed("find the tensor's bytes");
    }
    return demo_verify(expected, "C", data, (size_t)byte_size) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct demo_expectation expected;
    HurrayAttachOptions what = {.struct_size = sizeof what, .timeout_ms = 5000};
    HurrayClient *client = NULL;
    HurrayBufferList *buffers = NULL;
    HurrayTensorContext *context = NULL;
    int result;
    if (demo_parse(argc, argv, &expected) != 0) {
        return 2;
    }
    what.name = expected.name;
    if (hurray_client_connect(NULL, &client) != HURRAY_OK) {
        return failed("connect to hurrayd");
    }
    if (hurray_client_attach(client, &what, &buffers, &context, NULL) == HURRAY_OK) {
        result = verify(&expected, buffers, context);
    } else {
        result = failed(expected.name);
    }
    hurray_tensor_context_destroy(&context); /* the producer is told that we are done */
    hurray_buffer_list_destroy(&buffers);
    hurray_client_destroy(&client);
    return result;
}
