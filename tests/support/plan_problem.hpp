// Checks a recorded plan without trusting the planner.
#pragma once

#include "memory/plan.hpp"

namespace hetsgd {
namespace detail {

class PlanChecker {
 public:
  PlanChecker(const PlanRequest& request, const MemoryPlan& plan)
      : training_(*request.training),
        plan_(plan),
        states_(training_.tensors.size()),
        recomputed_(training_.tensors.size(), 0) {
    for (const Instruction& one : plan.instructions) {
      if (one.kind == InstructionKind::recompute) ++to_come(one.tensor);
    }
  }

  std::string run() {
    for (const Instruction& instruction : plan_.instructions) {
      const std::string problem = check(instruction);
      if (!problem.empty()) {
        return fmt::format("step {}, tensor {}: {}", instruction.step, instruction.tensor, problem);
      }
    }
    if (computed_ != training_.total_steps()) return fmt::format("{} steps computed", computed_);
    if (!live_.empty()) return fmt::format("{} tensors left", live_.size());
    if (plan_.iteration_s + 1e-9 < std::max(plan_.compute_s, plan_.transfer_s)) {
      return "the iteration ends before a server";
    }
    return "";
  }

 private:
  struct State {
    bool resident = false, whole = false;  // whole: it holds its values, or will at arrival_s
    bool on_host = false;
    double arrival_s = 0, host_s = 0;
    std::uint64_t offset = 0;
  };

  State& state(int tensor) { return states_[static_cast<std::size_t>(tensor)]; }
  int& to_come(int tensor) { return recomputed_[static_cast<std::size_t>(tensor)]; }

  std::string check(const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::allocate:
        return allocate(instruction);
      case InstructionKind::release:
        return release(instruction);
      case InstructionKind::compute:
        return compute(instruction);
      case InstructionKind::recompute:
        return recompute(instruction);
      case InstructionKind::offload:
        return offload(instruction);
      case InstructionKind::fetch:
        return fetch(instruction);
    }
    return "unknown instruction";
  }

  std::string allocate(const Instruction& one) {
    const auto next = live_.lower_bound(one.offset);
    if (next != live_.end() && next->first < one.offset + std::max<std::uint64_t>(one.bytes, 1)) {
      return "overlaps the block above";
    }
    if (next != live_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second > one.offset) return "overlaps the block below";
    }
    live_[one.offset] = one.bytes;
    if (one.tensor < 0) return "";
    State& now = state(one.tensor);
    if (now.resident) return "is allocated twice";
    now.resident = true;
    now.offset = one.offset;
    // The input's map comes with its values.
    now.whole = one.tensor == training_.feature[0] && one.step == 1;
    now.arrival_s = one.start_s;
    return "";
  }

  std::string release(const Instruction& one) {
    const auto found = live_.find(one.offset);
    if (found == live_.end() || found->second != one.bytes) return "releases what is not there";
    live_.erase(found);
    if (one.tensor < 0) return "";
    State& now = state(one.tensor);
    if (!now.resident || now.offset != one.offset) return "releases another's memory";
    const bool needed = training_.tensor(one.tensor).last_use() > computed_;
    // A tensor that is computed again may be released, if it is back at its next use: compute()
    // checks that.
    const bool comes_back = to_come(one.tensor) > 0;
    if (needed && !comes_back && !(now.on_host && now.host_s <= one.start_s + 1e-12)) {
      return "is released before its last use, or before it is on the host";
    }
    now.resident = now.whole = false;
    return "";
  }

  std::string compute(const Instruction& one) {
    if (one.step != ++computed_) return "is computed out of order";
    const Step& step = training_.step(one.step);
    for (const int id : step.uses) {
      State& now = state(id);
      if (!now.resident) return fmt::format("uses tensor {}, which is not there", id);
      const bool made_here = training_.tensor(id).first_use() == one.step;
      if (!made_here && (!now.whole || now.arrival_s > one.start_s + 1e-12)) {
        return fmt::format("uses tensor {}, which is not complete", id);
      }
      if (made_here) now.arrival_s = one.end_s;
      now.whole = true;
    }
    return "";
  }

  std::string recompute(const Instruction& one) {
    --to_come(one.tensor);
    const int node = training_.tensor(one.tensor).node;
    const Step& step = training_.step(training_.forward_step_of[static_cast<std::size_t>(node)]);
    State& now = state(one.tensor);
    if (!now.resident || now.whole) return "is computed again over its values";
    for (const int id : step.uses) {
      const State& other = state(id);
      if (id == one.tensor) continue;
      if (!other.resident || !other.whole || other.arrival_s > one.start_s + 1e-12) {
        return fmt::format("is computed again from tensor {}, which is not complete", id);
      }
    }
    now.whole = true;
    now.arrival_s = one.end_s;
    return "";
  }

  std::string offload(const Instruction& one) {
    State& now = state(one.tensor);
    if (!now.resident || !now.whole) return "is written to the host without its values";
    if (now.on_host) return "is written to the host twice";
    now.on_host = true;
    now.host_s = one.end_s;
    return "";
  }

  std::string fetch(const Instruction& one) {
    State& now = state(one.tensor);
    if (!now.on_host || now.host_s > one.start_s + 1e-12) return "is fetched before it is there";
    if (!now.resident || now.whole) return "is fetched over its values";
    now.whole = true;
    now.arrival_s = one.end_s;
    return "";
  }

  const TrainingStep& training_;
  const MemoryPlan& plan_;
  std::vector<State> states_;
  std::vector<int> recomputed_;                  // by tensor: how often it will be
  std::map<std::uint64_t, std::uint64_t> live_;  // bytes by offset
  int computed_ = 0;
};

}  // namespace detail

// The first rule that a plan that fits breaks; empty: none. No two live tensors share an address.
// Every use finds its tensor there and complete. A release comes after the last use; if the tensor
// is needed again, it comes after its offload, unless it is computed again before that. Nothing is
// left at the end. A map is written to the host once, and fetched = offloaded maps' later uses +
// cancelled bytes.
inline std::string plan_problem(const PlanRequest& request, const MemoryPlan& plan) {
  return detail::PlanChecker(request, plan).run();
}

}  // namespace hetsgd
