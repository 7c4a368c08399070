// SamplePool: the service that hands out samples of the shared pool of asynchronous workers, if the
// pool is not in their memory. That is so under mpi, and in sim with --host-cores on mpi's network.
#pragma once

#include <cstdint>
#include <span>

#include "cluster/service.hpp"
#include "core/archive.hpp"

namespace hetsgd {

// A request is a number of samples, its answer the position of the first.
class SamplePool final : public Service<std::uint64_t, std::uint64_t> {
 public:
  void handle(int, const std::uint64_t& count, std::span<const float>,
              Responder<std::uint64_t> reply) override {
    reply(cursor_);
    cursor_ += count;
  }
  void fields(Archive& fields) override { fields("cursor", cursor_); }

 private:
  std::uint64_t cursor_ = 0;
};

using SamplePoolClient = ServiceClient<std::uint64_t, std::uint64_t>;

}  // namespace hetsgd
