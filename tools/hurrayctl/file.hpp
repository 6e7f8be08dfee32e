#pragma once

#include <string>

namespace hurrayctl {

/// `hurrayctl inspect FILE.hrry`: what a file holds. No daemon is asked.
struct FileLook {
    std::string path;
    std::string tensor;  ///< not empty: all about this one
    bool json = false;
};

/// Whether an argument of `inspect` is a file's path, not a capsule's name: it ends in ".hrry". What is on disk does not
/// matter, so that the same command always means the same.
bool is_file_argument(const std::string& argument);

/// Prints a table of the tensors and the key-values, or one tensor whole; in JSON everything. Descriptors are read, data is not. A
/// tensor that can't be read is shown as such, told on stderr, and makes the exit code kRefused.
int inspect_file(const FileLook& look);

}  // namespace hurrayctl
