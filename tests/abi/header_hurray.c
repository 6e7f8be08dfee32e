/* hurray.h stands on its own, twice, in C99. */
#include "hurray.h"

uint32_t hurray_test_header_version(void);
uint32_t hurray_test_header_version(void)
{
    return HURRAY_C_ABI_VERSION;
}
