#pragma once

namespace hurrayctl {

inline constexpr int kDone = 0;
inline constexpr int kRefused = 1;  ///< the daemon said no, or what was asked for is not there
inline constexpr int kUsage = 2;
inline constexpr int kNoDaemon = 3;

// `run` returns its command's code; these are what shells use where there is none.
inline constexpr int kCommandNotExecutable = 126;
inline constexpr int kCommandNotFound = 127;

}  // namespace hurrayctl
