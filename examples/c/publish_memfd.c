/* Publishes a grey picture as "camera/front" out of a memfd of the program's own, immutable, until Enter is pressed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

    /* All pages reserved, filled, unmapped, and sealed: from then on nobody can change a byte. */
    const int32_t fd = memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)byte_size) != 0) {
        perror("memfd");
        return 1;
    }
    void *pixels = mmap(NULL, (size_t)byte_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pixels == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memset(pixels, 128, (size_t)byte_size);
    munmap(pixels, (size_t)byte_size);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        perror("F_ADD_SEALS");
        return 1;
    }

    HurrayClient *client;
    check(hurray_client_connect(NULL, &client));
    check(hurray_client_publish_fds(client, "camera/front", descriptor, descriptor_len, &fd, 1, NULL, NULL, NULL));
    close(fd);

    puts("camera/front is there; Enter ends it");
    getchar();
    check(hurray_client_destroy(&client));
    return 0;
}
