/* Publishes a grey picture as "camera/front" until Enter is pressed. */
#include <string.h>

#include "check.h"

int main(void)
{
    const uint64_t shape[] = {480, 640, 3};
    const HurrayDenseDescriptor picture = {
        .struct_size = sizeof picture, .element_type = HURRAY_TYPE_UINT8, .rank = 3, .shape = shape};
    uint8_t descriptor[256];
    uintptr_t descriptor_len = sizeof descriptor;
    uint64_t byte_size;
    check(hurray_descriptor_encode_dense(&picture, descriptor, &descriptor_len));
    check(hurray_descriptor_dense_byte_size(&picture, &byte_size));

    HurrayClient *client;
    HurrayAllocation *allocation;
    void *pixels;
    check(hurray_client_connect(NULL, &client));
    check(hurray_client_allocate(client, &byte_size, 1, NULL, &allocation));
    check(hurray_allocation_data(allocation, 0, &pixels));
    memset(pixels, 128, (size_t)byte_size);
    check(hurray_client_publish(client, "camera/front", descriptor, descriptor_len, &allocation, NULL, NULL));

    puts("camera/front is there; Enter ends it");
    getchar();
    check(hurray_client_destroy(&client));
    return 0;
}
