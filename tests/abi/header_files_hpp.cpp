// hurray/files.hpp stands on its own, twice.
#include <hurray/files.hpp>

static_assert(!std::is_copy_constructible_v<hurray::Buffer>);
