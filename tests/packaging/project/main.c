#include <hurray.h>
#include <hurray_client.h>
#include <stdio.h>

int main(void)
{
    const uint64_t shape[] = {2, 3};
    const HurrayDenseDescriptor dense = {
        .struct_size = sizeof dense, .element_type = HURRAY_TYPE_FLOAT32, .rank = 2, .shape = shape};
    uint8_t bytes[256];
    uintptr_t len = sizeof bytes;
    if (hurray_descriptor_encode_dense(&dense, bytes, &len) != HURRAY_OK) {
        fprintf(stderr, "%s\n", hurray_last_error_message());
        return 1;
    }
    const HurrayConnectOptions options = {.struct_size = sizeof options, .address = "/nonexistent/hurrayd.sock"};
    HurrayClient *client = NULL;
    const HurrayStatus status = hurray_client_connect(&options, &client);
    printf("abi %u, descriptor %u bytes, connect %s\n", (unsigned)hurray_c_abi_version(), (unsigned)len,
           hurray_status_string(status));
    return 0;
}
