// The C program, as C++20.
#include "cookbook.c"
