/* What the demo's C and C++ consumers have in common: proofs that they see the producer's bytes and no copy of them. */
#ifndef HURRAY_DEMO_SHARING_H
#define HURRAY_DEMO_SHARING_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CRC-32 as of zip, PNG and Python's zlib.crc32. */
static inline uint32_t demo_checksum(const void *data, size_t byte_size)
{
    const uint8_t *bytes = (const uint8_t *)data;
    uint32_t table[256];
    uint32_t crc = UINT32_C(0xffffffff);
    for (uint32_t i = 0; i < 256; ++i) {
        table[i] = i;
        for (int bit = 0; bit < 8; ++bit) {
            table[i] = (table[i] >> 1) ^ ((table[i] & 1u) != 0 ? UINT32_C(0xedb88320) : 0u);
        }
    }
    for (size_t i = 0; i < byte_size; ++i) {
        crc = table[(crc ^ bytes[i]) & 0xffu] ^ (crc >> 8);
    }
    return ~crc;
}

/* Which file, and where in it, is mapped at an address. Two processes that see the same inode at the same
 * offset look at the same physical pages. */
struct demo_place {
    uint64_t inode;
    uint64_t offset;
    char permissions[5]; /* "r--s": read-only, shared */
};

/* 0 if the address is part of a mapped file. */
static inline int demo_find_place(const void *address, struct demo_place *out)
{
    const uintptr_t wanted = (uintptr_t)address;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int result = -1;
    if (maps == NULL) {
        return -1;
    }
    while (result != 0 && fgets(line, (int)sizeof line, maps) != NULL) {
        uint64_t begin;
        uint64_t end;
        uint64_t offset;
        struct demo_place place;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64, &begin, &end, place.permissions,
                   &offset, &place.inode) == 5 &&
            begin <= wanted && wanted < end && place.inode != 0) {
            place.offset = offset + (wanted - begin);
            *out = place;
            result = 0;
        }
    }
    fclose(maps);
    return result;
}

/* What the producer says that there is to be seen: --expect HEX --inode N --offset N. */
struct demo_expectation {
    const char *name;
    uint32_t checksum;
    struct demo_place place;
};

static inline int demo_parse(int argc, char **argv, struct demo_expectation *out)
{
    int seen = 0;
    memset(out, 0, sizeof *out);
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *rest = NULL;
        if (strncmp(argv[i], "--", 2) != 0) {
            out->name = argv[i];
            continue;
        }
        if (value == NULL) {
            break;
        }
        ++i;
        if (strcmp(argv[i - 1], "--expect") == 0) {
            out->checksum = (uint32_t)strtoul(value, &rest, 16);
            seen |= 1;
        } else if (strcmp(argv[i - 1], "--inode") == 0) {
            out->place.inode = strtoull(value, &rest, 10);
            seen |= 2;
        } else if (strcmp(argv[i - 1], "--offset") == 0) {
            out->place.offset = strtoull(value, &rest, 10);
            seen |= 4;
        }
        if (rest == NULL || rest == value || *rest != '\0') {
            seen = 0;
            break;
        }
    }
    if (out->name == NULL || seen != 7) {
        fprintf(stderr, "usage: %s NAME --expect CHECKSUM-HEX --inode N --offset N\n", argv[0]);
        return -1;
    }
    return 0;
}

/* Compares the bytes at `data` with what is expected, and says on stdout what was seen. 0 if all is as it should be. */
static inline int demo_verify(const struct demo_expectation *expected, const char *language, const void *data,
                              size_t byte_size)
{
    const uint32_t checksum = demo_checksum(data, byte_size);
    struct demo_place place;
    if (checksum != expected->checksum) {
        fprintf(stderr, "%s consumer: %s: checksum %08" PRIx32 ", but the producer's is %08" PRIx32 "\n", language,
                expected->name, checksum, expected->checksum);
        return -1;
    }
    if (demo_find_place(data, &place) != 0) {
        fprintf(stderr, "%s consumer: %s: its bytes lie in no shared file, so somebody copied them\n", language,
                expected->name);
        return -1;
    }
    if (place.inode != expected->place.inode || place.offset != expected->place.offset) {
        fprintf(stderr,
                "%s consumer: %s: inode %" PRIu64 " offset %" PRIu64 ", but the producer wrote to inode %" PRIu64
                " offset %" PRIu64 "\n",
                language, expected->name, place.inode, place.offset, expected->place.inode, expected->place.offset);
        return -1;
    }
    printf("  checksum %08" PRIx32 " OK; same memory as the producer: inode %" PRIu64 ", offset %" PRIu64
           ", mapped %s\n",
           checksum, place.inode, place.offset, place.permissions);
    return 0;
}

#endif
