#pragma once

#include <cstdint>
#include <string>

#include "tests/support/raw_peer.hpp"

namespace hurray::test {

/// A producer and a consumer who mind their own business, whatever others do to the daemon.
class Bystander {
  public:
    explicit Bystander(const std::string& path)
        : producer_(RawPeer::greeted(path)), consumer_(RawPeer::greeted(path)) {}

    /// A tensor goes from one to the other and ends. Throws unless exactly that happens and the bytes are right.
    void check();

  private:
    RawPeer producer_;
    RawPeer consumer_;
    std::uint64_t rounds_ = 0;
};

}  // namespace hurray::test
