// The scratch of one computation of a graph model: the plans of the batch sizes and steps that were
// used last, and an arena for the largest plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/images.hpp"
#include "data/sequences.hpp"
#include "graph/variants.hpp"
#include "linalg/host_cores.hpp"
#include "memory/plan.hpp"
#include "memory/policy.hpp"
#include "model/model.hpp"
#include "model/network/execute.hpp"
#include "model/network/token_batch.hpp"

namespace hetsgd {

// How a context plans. capacity: bytes; none: as much as the policy needs.
struct PlanRules {
  const Policy& policy;
  std::optional<std::uint64_t> capacity;
};

// The part of a batch that is computed at once. `lengths`: lengths of its rows if they are
// sequences. `tokens`: the rows if they are of tokens.
struct BatchPart {
  BatchPart(const Batch& of, std::size_t begin, std::size_t samples, const TokenRules& rules = {},
            MaskDraw draw = MaskDraw::training)
      : batch(of), first(begin), count(samples) {
    if (of.data().sequences.numbers > 0) lengths = lengths_of(of, begin, samples);
    if (of.data().tokens.vocabulary > 0) {
      tokens = token_batch(of, begin, samples, rules, draw);
    }
  }

  const Batch& batch;
  std::size_t first, count;
  std::vector<std::size_t> lengths{};
  TokenBatch tokens{};
};

// Plans that a context keeps, with the host memory of the maps that they move. If batch sizes or
// lengths vary more, a plan is made again when its batch size comes back.
inline constexpr std::size_t kPlansKept = 16;

// Plans are made for multiples of this number of steps, so that batches of like lengths share one.
inline constexpr std::int64_t kStepsPlanned = 32;
std::int64_t planned_steps(double steps);
// And packed rows of tokens for multiples of this number of tokens.
inline constexpr std::size_t kTokensPlanned = 256;

// Rates of a device that computes in the host's memory. Only the ratio of their computing to their
// copying speed affects a plan.
DeviceRates host_rates();

// The training step of one batch size, and its recorded plan.
struct PlannedBatch {
  // Its prefetches are those of a device of these rates. Throws Error(usage) if the policy finds no
  // plan within the capacity.
  PlannedBatch(const Graph& graph, const PlanRules& rules, std::int64_t batch,
               const DeviceRates& rates);
  // The forward pass alone, in the memory that it needs, whatever the policy.
  PlannedBatch(const Graph& graph, std::int64_t batch);
  PlannedBatch(const PlannedBatch&) = delete;  // the plan points to the step
  PlannedBatch& operator=(const PlannedBatch&) = delete;

  TrainingStep training;
  MemoryPlan plan;
};

// The passes of a computation. A forward pass alone keeps no map for a backward pass, so it needs a
// fraction of the memory.
enum class Passes { both, forward };

// Time of such a step on a device of these rates, with the transfers that it waits for.
// Convolutions are charged for their operations, whatever their algorithm, as in the model's
// gradient_work(). Throws what PlannedBatch throws.
Seconds planned_time(const Graph& graph, const PlanRules& rules, std::int64_t batch,
                     const DeviceRates& rates);

template <class Real>
class GraphContext final : public BasicModelContext<Real> {
 public:
  // rates: rates of the device, for its plans.
  GraphContext(BasicDevice<Real>& device, const Graph& graph, const PlanRules& rules,
               DeviceRates rates)
      : BasicModelContext<Real>(device),
        graph_(graph),
        rules_(rules),
        rates_(std::move(rates)),
        lstm_(std::make_shared<LstmMath<Real>>(device)) {}

  // The result is valid until the next call.
  PlanExecutor<Real>& executor(const BatchPart& part, Passes passes = Passes::both) {
    const auto planned = planned_for(part);
    const auto found = std::ranges::find_if(executables_, [&](const Executable& each) {
      return std::pair(each.batch, each.steps()) == planned && each.passes == passes;
    });
    if (found != executables_.end()) {
      executables_.splice(executables_.begin(), executables_, found);
    } else {
      if (executables_.size() == kPlansKept) executables_.pop_back();
      const auto [samples, steps] = planned;
      const bool own = steps == graph_.node(0).shape.height;
      executables_.emplace_front(*this, own ? graph_ : with_steps(graph_, steps), samples, passes);
    }
    return executables_.front().executor;
  }
  std::size_t plans() const { return executables_.size(); }
  Real* arena(const PlanExecutor<Real>& executor) {
    arena_.reset(this->device(), executor.arena_size());
    return arena_.data();
  }
  // The ends of a computation of the part.
  GraphEnds<Real> ends(const BatchPart& part,
                       std::function<void(const Real* Z, Real* Y)> read_scores) {
    return {[this, &part](Real* X) { write_samples(part, X); }, std::move(read_scores)};
  }
  BasicBuffer<Real> best;  // of each target of a part that is ranked
  Batch ordered;  // the current batch, longest rows first: the device may read it until the next
  std::size_t batch_bytes() const override {
    return BasicModelContext<Real>::batch_bytes() + arena_.size() * sizeof(Real);
  }

 private:
  // X <- the samples. The cores of a CPU device write them in place; a GPU gets them by way of host
  // memory.
  void write_samples(const BatchPart& part, Real* X) {
    if (graph_.reads_tokens()) {
      samples_.assign(part.tokens.input.begin(), part.tokens.input.end());
      return this->device().upload(X, samples_.data(), samples_.size() * sizeof(Real));
    }
    const Shape& one = graph_.node(0).shape;
    const auto steps = static_cast<std::size_t>(steps_of(part));
    const auto each = static_cast<std::size_t>(one.channels * one.width) * steps;
    const auto copy = [&](std::size_t begin, std::size_t end, Real* to) {
      const std::size_t first = part.first + begin, count = end - begin;
      if (part.lengths.empty()) return copy_images(part.batch, first, count, to);
      copy_sequences(part.batch, first, count, steps, to);
    };
    if (this->device().host_accessible(X)) {
      auto& cores = kernels<BasicHostCores<Real>>(this->device());
      const std::size_t parts = std::min(cores.count(), part.count);
      return cores.run(parts, [&](std::size_t i) {
        const std::size_t begin = part.count * i / parts;
        copy(begin, part.count * (i + 1) / parts, X + begin * each);
      });
    }
    samples_.resize(part.count * each);
    copy(0, part.count, samples_.data());
    this->device().upload(X, samples_.data(), samples_.size() * sizeof(Real));
  }

  struct Executable {
    Executable(GraphContext& of, Graph network, std::size_t samples, Passes which)
        : batch(samples),
          passes(which),
          graph(std::move(network)),
          planned(passes == Passes::both
                      ? PlannedBatch(graph, of.rules_, static_cast<std::int64_t>(batch), of.rates_)
                      : PlannedBatch(graph, static_cast<std::int64_t>(batch))),
          executor(of.device(), planned.training, planned.plan, false, of.lstm_) {}
    std::int64_t steps() const { return graph.node(0).shape.height; }

    std::size_t batch;
    Passes passes;
    Graph graph;
    PlannedBatch planned;
    PlanExecutor<Real> executor;
  };

  // The steps that are planned for the longest row. Images keep the height of the graph's input.
  std::int64_t steps_of(const BatchPart& part) const {
    if (graph_.reads_tokens()) {
      const std::uint32_t longest = *std::ranges::max_element(part.tokens.length);
      return std::min(planned_steps(static_cast<double>(longest)), most_steps(graph_));
    }
    if (part.lengths.empty()) return graph_.node(0).shape.height;
    return planned_steps(static_cast<double>(*std::ranges::max_element(part.lengths)));
  }
  // The samples and steps that are planned. Packed tokens are planned as samples of one step.
  std::pair<std::size_t, std::int64_t> planned_for(const BatchPart& part) const {
    if (!part.tokens.packed) return {part.count, steps_of(part)};
    const std::size_t parts = (part.tokens.input.size() + kTokensPlanned - 1) / kTokensPlanned;
    return {parts * kTokensPlanned, 1};
  }

  const Graph& graph_;
  PlanRules rules_;
  DeviceRates rates_;
  std::shared_ptr<LstmMath<Real>> lstm_;  // its scratch has the size of the parameters
  std::list<Executable> executables_;     // most recently used first
  BasicBuffer<Real> arena_;
  std::vector<Real> samples_;
};

}  // namespace hetsgd
