/* Waits for "camera/front" and adds up its bytes, which stay where the producer put them. */
#include "check.h"

int main(void)
{
    const HurrayAttachOptions what = {.struct_size = sizeof what, .name = "camera/front", .timeout_ms = 5000};
    HurrayClient *client;
    HurrayBufferList *buffers;
    HurrayTensorContext *context;
    check(hurray_client_connect(NULL, &client));
    check(hurray_client_attach(client, &what, &buffers, &context, NULL));

    HurrayBuffer *buffer;
    void *data;
    uint64_t byte_size;
    check(hurray_buffer_list_get(buffers, 0, &buffer));
    check(hurray_buffer_data_ptr(buffer, &data));
    check(hurray_buffer_byte_size(buffer, &byte_size));

    uint64_t sum = 0;
    for (uint64_t i = 0; i < byte_size; ++i) {
        sum += ((const uint8_t *)data)[i];
    }
    printf("camera/front: %llu bytes, sum %llu\n", (unsigned long long)byte_size, (unsigned long long)sum);

    check(hurray_tensor_context_destroy(&context)); /* the producer is told that we are done */
    check(hurray_buffer_list_destroy(&buffers));
    check(hurray_client_destroy(&client));
    return 0;
}
