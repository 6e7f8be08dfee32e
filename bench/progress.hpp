#pragma once

#include <cstdint>
#include <string>

namespace bench {

/// Tells on stderr how far a benchmark is: in one line of a terminal, else by a line every ten seconds.
class Progress {
  public:
    Progress();
    ~Progress();  ///< leaves a terminal's line empty
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void show(const std::string& what);

  private:
    bool terminal_;
    std::uint64_t last_;
};

}  // namespace bench
