#include "memory/ledger.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "memory/dymem.hpp"

namespace hetsgd {
namespace {

constexpr std::uint64_t kWorkspaceUnit = std::uint64_t{1} << 20;

std::unique_ptr<Pool> make_pool(const PlanRequest& request, bool arenas) {
  if (!arenas) return make_best_fit(request.capacity);
  const std::uint64_t incremental = incremental_bytes(*request.training);
  return make_arenas(request.capacity - std::min(request.capacity, incremental));
}

}  // namespace

Ledger::Ledger(const PlanRequest& request, bool arenas)
    : request_(request),
      training_(*request.training),
      pool_(make_pool(request, arenas)),
      random_(request.jitter_seed, Purpose::straggler),
      blocks_(training_.tensors.size()) {
  plan_.smallest_gap_bytes = pool_->gap();
  if (request.record) plan_.steps.resize(training_.steps.size());
}

bool Ledger::allocate(int tensor, int step, double time) {
  const StepTensor& wanted = training_.tensor(tensor);
  const Mobility mobility = mobility_of(training_, wanted, training_.step(step).pass);
  if (request_.record && mobility != Mobility::reclaimed) {
    plan_.largest_unusable = std::max(plan_.largest_unusable, pool_->unusable(wanted.bytes));
  }
  const auto offset = pool_->allocate(wanted.bytes, mobility);
  if (!offset) return false;
  Block& block = blocks_[at(tensor)];
  HETSGD_CHECK(!block.resident);
  block = {true, *offset, mobility, block.arrival_s};
  live_ += wanted.bytes;
  note_space(step);
  note({InstructionKind::allocate, step, tensor, *offset, wanted.bytes, time, time, mobility});
  return true;
}

void Ledger::release(int tensor, double time) {
  Block& block = blocks_[at(tensor)];
  HETSGD_CHECK(block.resident);
  const std::uint64_t bytes = training_.tensor(tensor).bytes;
  pool_->release(block.offset, bytes);
  block.resident = false;
  live_ -= bytes;
  note({InstructionKind::release, step_, tensor, block.offset, bytes, time, time, block.mobility});
}

void Ledger::cancel(int tensor, double time) {
  plan_.cancelled_bytes += training_.tensor(tensor).bytes;
  release(tensor, time);
}

const ConvolutionAlgorithm& Ledger::chosen(const std::vector<ConvolutionAlgorithm>& list,
                                           int node) const {
  if (request_.convolution == ConvolutionMode::memory) return list.back();
  const int passed = request_.lowered.empty() ? 0 : request_.lowered[at(node)];
  return list[at(passed)];
}

bool Ledger::take_workspace(int step, double time) {
  const int node = training_.step(step).node;
  algorithm_ = {};
  workspace_bytes_ = 0;
  if (training_.graph->node(node).type != NodeType::conv) return true;
  const auto list = convolution_algorithms(*training_.graph, node, training_.options.batch);
  const auto take = [&](const ConvolutionAlgorithm& algorithm, std::uint64_t bytes) {
    if (bytes > 0) {
      const auto offset = pool_->allocate(bytes, Mobility::workspace);
      if (!offset) return false;
      workspace_offset_ = *offset;
    }
    algorithm_ = algorithm;
    workspace_bytes_ = bytes;
    return true;
  };
  if (request_.convolution != ConvolutionMode::dynamic) {
    const ConvolutionAlgorithm& algorithm = chosen(list, node);
    if (!take(algorithm, algorithm.workspace_bytes)) return false;
  } else {
    for (const ConvolutionAlgorithm& algorithm : list) {
      const std::uint64_t bytes =
          algorithm.workspace_bytes == 0 ? 0 : rounded(algorithm.workspace_bytes, kWorkspaceUnit);
      if (take(algorithm, bytes)) break;
    }
  }
  ++plan_.algorithms[static_cast<std::size_t>(algorithm_.kind)];
  plan_.workspace_peak_bytes = std::max(plan_.workspace_peak_bytes, workspace_bytes_);
  live_ += workspace_bytes_;
  if (workspace_bytes_ > 0) {
    note({InstructionKind::allocate, step, kWorkspaceTensor, workspace_offset_, workspace_bytes_,
          time, time});
  }
  note_space(step);
  return true;
}

void Ledger::release_workspace(double time) {
  if (workspace_bytes_ == 0) return;
  pool_->release(workspace_offset_, workspace_bytes_);
  live_ -= workspace_bytes_;
  note({InstructionKind::release, step_, kWorkspaceTensor, workspace_offset_, workspace_bytes_,
        time, time});
  workspace_bytes_ = 0;
}

double Ledger::jittered(double seconds) {
  return request_.jitter > 0 ? seconds * random_.lognormal(0, request_.jitter) : seconds;
}

double Ledger::compute(int step, double start) {
  step_ = step;
  const StepTime& time = request_.times->steps[at(step)];
  const double seconds = jittered(time.convolution_s / algorithm_.speed + time.other_s);
  plan_.compute_s += seconds;
  if (training_.node_of(training_.step(step)).type == NodeType::conv) {
    plan_.convolution_s += seconds;
  }
  computing_.push_back({start, start + seconds});
  if (request_.record) {
    StepRecord& record = plan_.steps[at(step)];
    record.start_s = start;
    record.seconds = seconds;
  }
  note_space(step);
  note({InstructionKind::compute, step, -1, 0, 0, start, start + seconds});
  return start + seconds;
}

double Ledger::compute_again(int node, int step, double start) {
  step_ = step;
  const int forward = training_.forward_step_of[at(node)];
  const double seconds = jittered(request_.times->steps[at(forward)].other_s);
  const int map = training_.feature[at(node)];
  plan_.compute_s += seconds;
  plan_.recomputed_operations +=
      node_work(*training_.graph, node, Pass::forward, training_.options.batch, false).operations;
  computing_.push_back({start, start + seconds});
  note({InstructionKind::recompute, step, map, blocks_[at(map)].offset, training_.tensor(map).bytes,
        start, start + seconds});
  return start + seconds;
}

double Ledger::transfer(InstructionKind kind, int tensor, int step, double not_before) {
  const std::uint64_t bytes = training_.tensor(tensor).bytes;
  const double start = std::max(not_before, transfers_end_);
  const double seconds = jittered(request_.times->transfer_s(bytes));
  transfers_end_ = start + seconds;
  plan_.transfer_s += seconds;
  (kind == InstructionKind::offload ? plan_.offloaded_bytes : plan_.fetched_bytes) += bytes;
  transferring_.push_back({start, transfers_end_});
  blocks_[at(tensor)].arrival_s = transfers_end_;
  note({kind, step, tensor, blocks_[at(tensor)].offset, bytes, start, transfers_end_});
  return transfers_end_;
}

void Ledger::note_space(int step) {
  const std::uint64_t used = pool_->used();
  if (used > plan_.peak_bytes) {
    plan_.peak_bytes = used;
    plan_.fragmentation_at_peak = 1 - static_cast<double>(live_) / static_cast<double>(used);
  }
  if (step > training_.forward_steps()) {
    plan_.backward_peak_bytes = std::max(plan_.backward_peak_bytes, used);
  }
  if (live_ > plan_.peak_live_bytes) {
    plan_.peak_live_bytes = live_;
    plan_.peak_live_step = step;
  }
  plan_.smallest_gap_bytes = std::min(plan_.smallest_gap_bytes, pool_->gap());
  if (!request_.record) return;
  StepRecord& record = plan_.steps[at(step)];
  record.live_bytes = std::max(record.live_bytes, live_);
  record.used_bytes = std::max(record.used_bytes, used);
}

void Ledger::note(const Instruction& instruction) {
  if (!request_.record) return;
  plan_.instructions.push_back(instruction);
  plan_.instructions.back().used_bytes = pool_->used();
  plan_.instructions.back().gap_bytes = pool_->gap();
}

bool Ledger::fail(int tensor, int step) {
  const auto workspace = [&] {
    const int node = training_.step(step).node;
    return chosen(convolution_algorithms(*training_.graph, node, training_.options.batch), node)
        .workspace_bytes;
  };
  const std::uint64_t bytes =
      tensor == kWorkspaceTensor ? workspace() : training_.tensor(tensor).bytes;
  plan_.shortage = Shortage{step, bytes, pool_->unusable(bytes)};
  return false;
}

// Both lists are in the order of time, and the intervals of one list do not overlap.
double Ledger::overlap() const {
  double sum = 0;
  auto transfer = transferring_.begin();
  for (const auto& [start, end] : computing_) {
    while (transfer != transferring_.end() && transfer->second <= start) ++transfer;
    for (auto other = transfer; other != transferring_.end() && other->first < end; ++other) {
      sum += std::min(end, other->second) - std::max(start, other->first);
    }
  }
  return sum;
}

MemoryPlan Ledger::finish(double iteration_s) {
  plan_.iteration_s = iteration_s;
  plan_.overlap_s = overlap();
  if (plan_.fits()) HETSGD_CHECK_EQ(live_, 0u);
  return std::move(plan_);
}

}  // namespace hetsgd
