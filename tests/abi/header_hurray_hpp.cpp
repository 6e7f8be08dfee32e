// hurray/hurray.hpp stands on its own, twice.
#include <hurray/hurray.hpp>

static_assert(!std::is_copy_constructible_v<hurray::Buffer>);
