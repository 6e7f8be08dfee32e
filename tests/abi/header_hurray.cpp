// hurray.h stands on its own, twice, in C++20.
#include "hurray.h"

static_assert(HURRAY_OK == 0);
