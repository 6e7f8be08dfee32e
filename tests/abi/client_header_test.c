/* hurray_client.h from C99: it stands alone, and its functions keep the rules that need no daemon. */
#include <hurray_client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(HurrayStatus actual, HurrayStatus expected, const char *call)
{
    if (actual != expected) {
        fprintf(stderr, "%s: %s (%s), expected %s\n", call, hurray_status_string(actual), hurray_last_error_message(),
                hurray_status_string(expected));
        ++failures;
    }
}

#define EXPECT(expected, call) expect((call), (expected), #call)

static void ignore_event(const HurrayEvent *event, void *context)
{
    (void)event;
    (void)context;
}

static int32_t ignore_capsule(const HurrayCapsuleInfo *capsule, void *context)
{
    (void)capsule;
    (void)context;
    return 0;
}

int main(void)
{
    const uint64_t size = 64;
    const uint8_t byte = 0;
    uint8_t writable = 0;
    const HurrayCapsuleId capsule = {0};
    HurrayClient *client = NULL;
    HurrayAllocation *allocation = NULL;
    HurrayBufferList *list = NULL;
    HurrayTensorContext *context = NULL;
    HurrayStatus state = HURRAY_OK;
    void *data = NULL;
    char text[8];
    uint64_t number = sizeof text;
    int32_t fd = -1;

    /* R2: a required pointer that is null is found before anything else. */
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_connect(NULL, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_close(NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_destroy(NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_poll_fd(NULL, &fd));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_dispatch(NULL, 0));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_status_json(NULL, text, &number));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_allocate(NULL, &size, 1, NULL, &allocation));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_allocation_data(NULL, 0, &data));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_allocation_buffers(NULL, &list));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_allocation_destroy(NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_publish(NULL, "a", &byte, 1, &allocation, NULL, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_publish_list(NULL, "a", &byte, 1, NULL, NULL, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_publish_fds(NULL, "a", &byte, 1, NULL, 0, NULL, NULL, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_allocation_is_writable(NULL, &writable));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_group_begin(NULL, &number));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_group_end(NULL, 1, 1));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_published(NULL, &capsule, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_withdraw(NULL, &capsule));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_attach(NULL, NULL, &list, &context, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_lease_state(NULL, &state));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_list(NULL, NULL, ignore_capsule, NULL));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_watch(NULL, NULL, ignore_event, NULL, &number));
    EXPECT(HURRAY_ERR_NULL_POINTER, hurray_client_unwatch(NULL, 1));

    /* Handles that may be null. */
    EXPECT(HURRAY_OK, hurray_client_destroy(&client));
    EXPECT(HURRAY_OK, hurray_allocation_destroy(&allocation));

    /* Nobody listens: the message names the path, and no output is written (R3). */
    {
        const char *path = "/nonexistent/hurrayd.sock";
        const HurrayConnectOptions options = {.struct_size = sizeof options, .address = path};
        EXPECT(HURRAY_ERR_DAEMON_UNAVAILABLE, hurray_client_connect(&options, &client));
        if (client != NULL || strstr(hurray_last_error_message(), path) == NULL) {
            fprintf(stderr, "connect: wrote its output, or does not name the path: %s\n", hurray_last_error_message());
            ++failures;
        }
    }

    /* C1: a longer struct of a newer header is fine as long as what is unknown is zero. */
    {
        struct {
            HurrayConnectOptions known;
            uint64_t unknown;
        } newer = {.known = {.struct_size = sizeof newer, .address = "/nonexistent/hurrayd.sock"}};
        EXPECT(HURRAY_ERR_DAEMON_UNAVAILABLE, hurray_client_connect(&newer.known, &client));
        newer.unknown = 1;
        EXPECT(HURRAY_ERR_UNSUPPORTED, hurray_client_connect(&newer.known, &client));
    }

    /* C2. */
    {
        const HurrayConnectOptions options = {
            .struct_size = sizeof options, .address = "/nonexistent/hurrayd.sock", .timeout_ms = -2};
        EXPECT(HURRAY_ERR_INVALID_ARGUMENT, hurray_client_connect(&options, &client));
    }

    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
