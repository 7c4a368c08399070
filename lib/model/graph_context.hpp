// What one computation of a graph model works in: plans by batch size, an arena for the largest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "data/images.hpp"
#include "memory/execute.hpp"
#include "memory/policy.hpp"
#include "memory/step_times.hpp"
#include "model/model.hpp"
#include "model/objective.hpp"

namespace hetsgd {

// How a context plans. capacity: bytes; none: as much as the policy needs.
struct PlanRules {
  const Policy& policy;
  std::optional<std::uint64_t> capacity;
};

// The training step of one batch size, and its recorded plan. Errors: usage, a capacity in which
// the policy does not plan it.
struct PlannedBatch {
  PlannedBatch(const Graph& graph, const PlanRules& rules, std::int64_t batch);
  PlannedBatch(const PlannedBatch&) = delete;  // the plan points to the step
  PlannedBatch& operator=(const PlannedBatch&) = delete;

  TrainingStep training;
  MemoryPlan plan;
};

// Of such a step on a device of these rates, with the transfers that it waits for. Convolutions
// take what their operations say, whatever their algorithm, as in the model's gradient_work().
// Errors: as above.
Seconds planned_time(const Graph& graph, const PlanRules& rules, std::int64_t batch,
                     const DeviceRates& rates);

template <class Real>
class GraphContext final : public BasicModelContext<Real> {
 public:
  GraphContext(BasicDevice<Real>& device, const Graph& graph, const PlanRules& rules)
      : BasicModelContext<Real>(device), graph_(graph), rules_(rules) {}

  PlanExecutor<Real>& executor(std::size_t batch) {
    std::unique_ptr<Executable>& one = executables_[batch];
    if (!one) one = std::make_unique<Executable>(this->device(), graph_, rules_, batch);
    return one->executor;
  }
  Real* arena(const PlanExecutor<Real>& executor) {
    arena_.reset(this->device(), executor.arena_size());
    return arena_.data();
  }
  // X <- the images of a part of a batch, which on a GPU come by way of host memory.
  void write_images(const Batch& batch, std::size_t first, std::size_t count, Real* X) {
    if (this->device().host_accessible(X)) return copy_images(batch, first, count, X);
    images_.resize(count * static_cast<std::size_t>(graph_.node(0).shape.numbers()));
    copy_images(batch, first, count, images_.data());
    this->device().upload(X, images_.data(), images_.size() * sizeof(Real));
  }
  std::size_t batch_bytes() const override {
    return BasicModelContext<Real>::batch_bytes() + arena_.size() * sizeof(Real);
  }

 private:
  struct Executable {
    Executable(BasicDevice<Real>& device, const Graph& graph, const PlanRules& rules,
               std::size_t batch)
        : planned(graph, rules, static_cast<std::int64_t>(batch)),
          executor(device, planned.training, planned.plan) {}
    PlannedBatch planned;
    PlanExecutor<Real> executor;
  };

  const Graph& graph_;
  PlanRules rules_;
  std::map<std::size_t, std::unique_ptr<Executable>> executables_;
  BasicBuffer<Real> arena_;
  std::vector<Real> images_;
};

// A computation that writes the images of a part of a batch, and reads its scores.
template <class Real>
class ImageEnds : public GraphEnds<Real> {
 public:
  ImageEnds(GraphContext<Real>& context, const Batch& batch, std::size_t first, std::size_t count)
      : context_(context), batch_(batch), first_(first), count_(count) {}
  void write_input(Real* X) override { context_.write_images(batch_, first_, count_, X); }

 protected:
  GraphContext<Real>& context() const { return context_; }
  std::size_t count() const { return count_; }

 private:
  GraphContext<Real>& context_;
  const Batch& batch_;
  std::size_t first_, count_;
};

// The loss of a whole batch and its gradient by the scores.
template <class Real>
class LearnEnds final : public ImageEnds<Real> {
 public:
  LearnEnds(GraphContext<Real>& context, const Batch& batch, std::size_t outputs)
      : ImageEnds<Real>(context, batch, 0, batch.size()),
        objective_(usual_objective<Real>(batch.data().task)),
        outputs_(outputs) {}

  void read_scores(const Real* Z, Real* Y) override {
    const std::size_t n = this->count();
    BasicDevice<Real>& device = this->context().device();
    device.copy(n * outputs_, Z, Y);
    loss_ = objective_.learn(device, this->context().labels(), outputs_, nullptr,
                             Real(1) / static_cast<Real>(n), Y);
  }
  // The sum over the batch.
  DeferredSum loss() const { return loss_; }

 private:
  const BasicObjective<Real>& objective_;
  std::size_t outputs_;
  DeferredSum loss_ = 0.0;
};

// Keeps the scores of a part of a batch; `to` may be null.
template <class Real>
class ScoreEnds final : public ImageEnds<Real> {
 public:
  ScoreEnds(GraphContext<Real>& context, const Batch& batch, std::size_t first, std::size_t count,
            std::size_t outputs, Real* to)
      : ImageEnds<Real>(context, batch, first, count), outputs_(outputs), to_(to) {}
  void read_scores(const Real* Z, Real*) override {
    if (to_) this->context().device().copy(this->count() * outputs_, Z, to_);
  }

 private:
  std::size_t outputs_;
  Real* to_;
};

}  // namespace hetsgd
