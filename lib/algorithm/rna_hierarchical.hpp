// Hierarchical RNA: the parameter server between groups (paper 004, sections 5.2, 5.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

struct PushGroup {
  std::int32_t group;
};
struct PullMean {};

// Holds each group's last parameters (at first the common model from which the groups start) and
// answers a push with the mean over all groups, weighted with their sizes. Nobody waits for another
// group.
class GroupMean final : public Service<PushGroup, PullMean> {
 public:
  GroupMean(const std::vector<int>& sizes, std::span<const float> start)
      : device_(make_cpu_device<float>(1)),
        last_(sizes.size(), {start.begin(), start.end()}),
        mean_(start.size()) {
    double workers = 0;
    for (const int size : sizes) workers += size;
    for (const int size : sizes) share_.push_back(static_cast<float>(size / workers));
  }

  void handle(int, const PushGroup& push, std::span<const float> model,
              Responder<PullMean> reply) override {
    last_[static_cast<std::size_t>(push.group)].assign(model.begin(), model.end());
    for (std::size_t g = 0; g < last_.size(); ++g) {
      device_->axpby(mean_.size(), share_[g], last_[g].data(), g == 0 ? 0.0F : 1.0F, mean_.data());
    }
    reply({}, mean_, Traffic::parameters);
  }

  // Stores the pushed model, reads all groups' and adds them up.
  Work work(const PushGroup&, std::size_t numbers) const override {
    const auto groups = static_cast<double>(last_.size());
    const auto n = static_cast<double>(numbers);
    return {.operations = 2 * groups * n, .bytes = 4 * n * (2 + 3 * groups), .launches = 0};
  }

 private:
  std::unique_ptr<Device> device_;
  std::vector<std::vector<float>> last_;  // by group
  std::vector<float> share_;              // of the workers, by group
  std::vector<float> mean_;
};

}  // namespace hetsgd
