// What a server of the parameters starts with. It travels: the server may run in another process.
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

  static ServerStart of(Worker& self, const Buffer& w) {
    const std::span<const float> numbers = self.on_host(w);
    return {.workers = self.size(),
            .optimizer = self.plan().optimizer,
            .tensors = self.tensors(),
            .w = {numbers.begin(), numbers.end()}};
  }
  std::unique_ptr<Optimizer> make_optimizer(Device& device) const {
    return hetsgd::make_optimizer(optimizer, device, w.size(), tensors);
  }
  static constexpr auto members() {
    return std::tuple(&ServerStart::workers, &ServerStart::optimizer, &ServerStart::tensors,
                      &ServerStart::w);
  }
};

}  // namespace hetsgd
