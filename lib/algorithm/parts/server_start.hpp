// What a server of the parameters starts with. It travels: the server may run in another process,
// and sees no worker there. members() is its form in bytes (core/byte_stream.hpp), in which a
// member that is not listed is lost.
//
// Endpoint::open_service makes the server from one worker's start, so all workers must have the
// same: w is a replica's initial model, never one that has moved.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

struct ServerStart {
  int workers = 1;
  OptimizerOptions optimizer;
  std::vector<Tensor> tensors;
  std::vector<float> w;

  // A copy of w in host memory; off the clock, as set-up.
  static ServerStart of(Worker& self, const Buffer& w) {
    const std::span<const float> numbers = self.on_host(w);
    return {.workers = self.size(),
            .optimizer = self.plan().optimizer,
            .tensors = self.tensors(),
            .w = {numbers.begin(), numbers.end()}};
  }
  // The plan's optimizer with a fresh state, for a server that applies the workers' gradients
  // itself. `device` is the server's, and must outlive it.
  std::unique_ptr<Optimizer> make_optimizer(Device& device) const {
    return hetsgd::make_optimizer(optimizer, device, w.size(), tensors);
  }
  static constexpr auto members() {
    return std::tuple(&ServerStart::workers, &ServerStart::optimizer, &ServerStart::tensors,
                      &ServerStart::w);
  }
};

}  // namespace hetsgd
