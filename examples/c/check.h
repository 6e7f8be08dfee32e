#ifndef HURRAY_EXAMPLES_CHECK_H
#define HURRAY_EXAMPLES_CHECK_H

#include <hurray_client.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the library's message if a call fails. */
static inline void check(HurrayStatus status)
{
    if (status != HURRAY_OK) {
        fprintf(stderr, "%s: %s\n", hurray_status_string(status), hurray_last_error_message());
        exit(EXIT_FAILURE);
    }
}

#endif
