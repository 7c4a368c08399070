// Hierarchical RNA: the parameter server between groups (RNA, sections 5.2, 5.4).
//
// It starts with the common initial model of the groups. A group pushes its parameters and pulls
// the server's; no group waits for another. --group-server says how the server handles a push; s_g
// is group g's share of all workers:
//   increment  x <- x + s_g (x_g - p_g);  p_g <- x,  with p_g the last pull of group g. The server
//              adds up the groups' progress: each push counts as it was made, whatever the others'
//              pace.
//   last       x_g is kept, x <- sum_g s_g x_g. A group that pushes seldom keeps pulling all groups
//              back to its old model.
//
//   group g     rounds --> x_g -- push -.          .- pull --> broadcast in the group --> rounds
//   server                              '- rule, x '
//
// `increment` loses nothing and counts nothing twice. Summed over all pushes, in any order, x moves
// by sum_g s_g (the moves of group g's model in its rounds). Therefore p_g must be exactly the
// model that the group continued with. It is set when the answer is given, the group replaces its
// model by that answer on all its ranks, and it has at most one push in flight.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

// A worker's excerpt of a Grouping, whose size is the number of workers.
struct GroupPlace {
  int number = 0;          // index of its group
  std::vector<int> sizes;  // of all groups; empty: there are none yet

  static constexpr auto members() { return std::tuple(&GroupPlace::number, &GroupPlace::sizes); }

  // Collective. Counts the members of known groups among the workers that there are now. A worker
  // that has joined groups made by iteration time comes to the first one; a group may have lost all
  // its workers.
  void count_members(Comm& all_workers) {
    struct Known {
      int groups, number;
    };
    sizes = *all_workers.agree(
        Known{static_cast<int>(sizes.size()), number}, [](std::span<const Known> all) {
          std::vector<int> counts(
              static_cast<std::size_t>(std::ranges::max(all, {}, &Known::groups).groups));
          for (const Known& each : all) {
            if (!counts.empty()) ++counts[static_cast<std::size_t>(each.number)];
          }
          return counts;
        });
  }
};

enum class GroupRule { increment, last };

// The learning-rate schedule follows these counts of gradients. Without them a group would see only
// its own progress, and the groups' learning rates would drift apart.
struct PushGroup {  // carries the group's parameters
  std::int32_t group;
  std::int64_t gradients;  // accounted for by the group since its last push
};
struct PullGroups {        // carries the server's parameters
  std::int64_t gradients;  // of all groups, as far as they were pushed
};

// Serial, as every Service. All its vectors are host memory of the process that runs it: one for x
// and one for each group.
class GroupServer final : public Service<PushGroup, PullGroups> {
 public:
  // sizes: workers of each group; start: the common model; gradients: the number it was learnt
  // from.
  GroupServer(GroupRule rule, const std::vector<int>& sizes, std::span<const float> start,
              std::int64_t gradients)
      : device_(make_cpu_device<float>(1)),
        rule_(rule),
        x_(start.begin(), start.end()),
        known_(sizes.size(), x_),
        gradients_(gradients) {
    double workers = 0;
    for (const int size : sizes) workers += size;
    for (const int size : sizes) share_.push_back(static_cast<float>(size / workers));
  }

  void handle(int, const PushGroup& push, std::span<const float> x_g,
              Responder<PullGroups> reply) override {
    const auto g = static_cast<std::size_t>(push.group);
    rule_ == GroupRule::increment ? add(g, x_g) : average(g, x_g);
    gradients_ += push.gradients;
    reply({gradients_}, x_, Traffic::parameters);
  }

  // increment: x_g - p_g, its addition and a copy; last: a copy, and all groups' models added up.
  Work work(const PushGroup&, std::size_t numbers) const override {
    const auto groups = static_cast<double>(known_.size());
    const auto n = static_cast<double>(numbers);
    if (rule_ == GroupRule::increment) {
      return {.operations = 4 * n, .bytes = 4 * n * 8, .launches = 0};
    }
    return {.operations = 2 * groups * n, .bytes = 4 * n * (2 + 3 * groups)};
  }

  void fields(Archive& fields) override {
    fields("x", x_);
    fields("gradients", gradients_);
    for (std::size_t g = 0; g < known_.size(); ++g) fields(fmt::format("known{}", g), known_[g]);
  }

 private:
  // In place: p_g holds x_g - p_g on the way, then the new x.
  void add(std::size_t g, std::span<const float> x_g) {
    std::vector<float>& p_g = known_[g];
    device_->axpby(x_.size(), 1.0F, x_g.data(), -1.0F, p_g.data());
    device_->axpby(x_.size(), share_[g], p_g.data(), 1.0F, x_.data());
    p_g = x_;
  }

  // From scratch each time, so that rounding does not add up over a run.
  void average(std::size_t g, std::span<const float> x_g) {
    known_[g].assign(x_g.begin(), x_g.end());
    for (std::size_t i = 0; i < known_.size(); ++i) {
      device_->axpby(x_.size(), share_[i], known_[i].data(), i == 0 ? 0.0F : 1.0F, x_.data());
    }
  }

  std::unique_ptr<Device> device_;
  GroupRule rule_;
  std::vector<float> x_;
  std::vector<std::vector<float>> known_;  // by group: p_g, or the last x_g
  std::vector<float> share_;               // s_g
  std::int64_t gradients_;
};

}  // namespace hetsgd
