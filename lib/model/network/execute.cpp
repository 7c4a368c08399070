#include "model/network/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {
namespace {

// Elements that `bytes` of a plan hold; a plan's elements have 4 bytes.
std::size_t numbers_in(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kNumberBytes - 1) / kNumberBytes);
}

// A NaN that no computation makes.
template <class Real>
Real poison_pattern() {
  Real pattern;
  std::memset(static_cast<void*>(&pattern), 0xFF, sizeof(Real));
  return pattern;
}

}  // namespace

template <class Real>
PlanExecutor<Real>::PlanExecutor(BasicDevice<Real>& device, const TrainingStep& training,
                                 const MemoryPlan& plan, bool poisoned,
                                 std::shared_ptr<LstmMath<Real>> lstm)
    : device_(device),
      training_(training),
      plan_(plan),
      poisoned_(poisoned),
      math_(device, *training.graph, training.options.batch, std::move(lstm)),
      places_(training.tensors.size(), nullptr),
      blocks_(kernels<BasicHostBlocks<Real>>(device)),
      copying_(training.tensors.size(), 0) {
  HETSGD_CHECK(plan.fits());
  HETSGD_CHECK(!plan.instructions.empty());
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& one = plan.instructions[i];
    arena_size_ = std::max(arena_size_, numbers_in(one.offset + one.bytes));
    const bool last_forward =
        one.kind == InstructionKind::compute && one.step == training.forward_steps();
    if (last_forward) turn_ = i + 1;
  }
}

template <class Real>
void PlanExecutor<Real>::forward(const GraphPass<Real>& pass, const GraphEnds<Real>& ends,
                                 Real* arena) {
  arena_ = arena;
  std::fill(places_.begin(), places_.end(), nullptr);
  for (std::size_t i = 0; i < copying_.size(); ++i) await_copies(static_cast<int>(i));
  input_gradient_ = nullptr;
  if (poisoned_) poison(arena_, arena_size_);
  for (std::size_t i = 0; i < turn_; ++i) carry_out(plan_.instructions[i], pass, &ends);
}

template <class Real>
void PlanExecutor<Real>::backward(const GraphPass<Real>& pass, Real* arena) {
  HETSGD_CHECK(arena == arena_);
  for (std::size_t i = turn_; i < plan_.instructions.size(); ++i) {
    carry_out(plan_.instructions[i], pass, nullptr);
  }
}

template <class Real>
void PlanExecutor<Real>::carry_out(const Instruction& one, const GraphPass<Real>& pass,
                                   const GraphEnds<Real>* ends) {
  if (one.tensor == kWorkspaceTensor) return;  // kernels have scratch of their own
  switch (one.kind) {
    case InstructionKind::allocate:
      allocate(one);
      if (one.tensor == training_.feature[0] && ends != nullptr) {
        ends->write_input(place(one.tensor));
      }
      return;
    case InstructionKind::release:
      return release(one);
    case InstructionKind::compute:
      return compute(one.step, pass, ends);
    case InstructionKind::recompute:
      return compute(training_.forward_step_of[at(training_.tensor(one.tensor).node)], pass,
                     nullptr);
    case InstructionKind::offload:
      return copy_out(one.tensor);
    case InstructionKind::fetch:
      return copy_in(one.tensor);
  }
}

template <class Real>
void PlanExecutor<Real>::allocate(const Instruction& one) {
  HETSGD_CHECK(one.offset % kNumberBytes == 0);
  Real* const begin = arena_ + one.offset / kNumberBytes;
  if (poisoned_) {
    for (std::size_t other = 0; other < places_.size(); ++other) {
      if (places_[other] == nullptr) continue;
      const bool apart = places_[other] + numbers(static_cast<int>(other)) <= begin ||
                         begin + numbers(one.tensor) <= places_[other];
      HETSGD_CHECK(apart);
    }
  }
  places_[at(one.tensor)] = begin;
}

template <class Real>
void PlanExecutor<Real>::copy_out(int tensor) {
  if (!host_.contains(tensor)) {
    host_.emplace(tensor, BasicHostBlock<Real>(device_, numbers(tensor)));
  }
  copying_[at(tensor)] = blocks_.copy_out(numbers(tensor), place(tensor), host_.at(tensor).data());
}

template <class Real>
void PlanExecutor<Real>::copy_in(int tensor) {
  HETSGD_CHECK(host_.contains(tensor));
  copying_[at(tensor)] = blocks_.copy_in(numbers(tensor), host_.at(tensor).data(), place(tensor));
}

template <class Real>
void PlanExecutor<Real>::await_copies(int tensor) {
  if (std::uint64_t& copy = copying_[at(tensor)]; copy > 0) {
    blocks_.wait(copy);
    copy = 0;
  }
}

template <class Real>
void PlanExecutor<Real>::release(const Instruction& one) {
  await_copies(one.tensor);
  if (poisoned_) poison(place(one.tensor), numbers(one.tensor));
  places_[at(one.tensor)] = nullptr;
}

template <class Real>
void PlanExecutor<Real>::compute(int number, const GraphPass<Real>& pass,
                                 const GraphEnds<Real>* ends) {
  if (pass.check && *pass.check) (*pass.check)();
  const Step& step = training_.step(number);
  for (const int tensor : step.uses) await_copies(tensor);
  if (poisoned_) {
    for (const int tensor : step.uses) check_whole(tensor, number);
  }
  const bool softmax = training_.node_of(step).type == NodeType::softmax;
  if (step.pass == Pass::forward) {
    const NodeTensors<Real> tensors = forward_tensors(step);
    if (softmax) return ends->read_scores(tensors.inputs.front(), tensors.output);
    return math_.forward(step.node, pass, tensors);
  }
  const NodeTensors<Real> tensors = backward_tensors(number);
  if (!softmax) {
    math_.backward(step.node, pass, tensors);
  } else if (Real* const dX = tensors.input_gradients.front(); dX && dX != tensors.output) {
    // The gradient is in Y already. If several consumers add up, the sum has a place of its own.
    device_.axpby(numbers(training_.feature[at(step.node)]), Real(1), tensors.output,
                  tensors.input_betas.front(), dX);
  }
  if (training_.gradient[0] >= 0) input_gradient_ = places_[at(training_.gradient[0])];
}

template <class Real>
NodeTensors<Real> PlanExecutor<Real>::forward_tensors(const Step& step) const {
  NodeTensors<Real> tensors;
  for (const int from : training_.graph->node(step.node).from) {
    tensors.inputs.push_back(place(training_.feature[at(from)]));
  }
  tensors.output = place(training_.feature[at(step.node)]);
  const int mask = training_.mask[at(step.node)];
  if (mask >= 0) tensors.mask = place(mask);
  return tensors;
}

template <class Real>
NodeTensors<Real> PlanExecutor<Real>::backward_tensors(int number) const {
  const Step& step = training_.step(number);
  const auto reads = [&](int tensor) { return step.has_read(tensor) ? place(tensor) : nullptr; };
  NodeTensors<Real> tensors;
  std::vector<int> written;  // by this step already
  for (const int from : training_.graph->node(step.node).from) {
    tensors.inputs.push_back(reads(training_.feature[at(from)]));
    const int gradient = training_.gradient[at(from)];
    tensors.input_gradients.push_back(gradient < 0 ? nullptr : place(gradient));
    const bool first = gradient >= 0 &&
                       training_.tensor(gradient).backward_uses.front() == number &&
                       std::find(written.begin(), written.end(), gradient) == written.end();
    const bool in_place = gradient >= 0 && gradient == training_.gradient[at(step.node)];
    tensors.input_betas.push_back(first || in_place ? Real(0) : Real(1));
    written.push_back(gradient);
  }
  tensors.output = reads(training_.feature[at(step.node)]);
  const int mask = training_.mask[at(step.node)];
  if (mask >= 0) tensors.mask = place(mask);
  const int gradient = training_.gradient[at(step.node)];
  if (gradient >= 0) tensors.output_gradient = place(gradient);
  return tensors;
}

template <class Real>
Real* PlanExecutor<Real>::place(int tensor) const {
  HETSGD_CHECK(places_[at(tensor)] != nullptr);
  return places_[at(tensor)];
}

template <class Real>
std::size_t PlanExecutor<Real>::numbers(int tensor) const {
  return numbers_in(training_.tensor(tensor).bytes);
}

template <class Real>
void PlanExecutor<Real>::poison(Real* begin, std::size_t count) const {
  device_.fill(count, poison_pattern<Real>(), begin);
}

// A tensor that an earlier step has made must hold values.
template <class Real>
void PlanExecutor<Real>::check_whole(int tensor, int step) const {
  const Real* const begin = place(tensor);
  if (training_.tensor(tensor).kind == TensorKind::mask) return;  // not of whole numbers
  if (training_.tensor(tensor).first_use() == step && tensor != training_.feature[0]) return;
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  std::vector<Real> values(numbers(tensor));
  device_.download(values.data(), begin, values.size() * sizeof(Real));
  for (const Real& value : values) {
    HETSGD_CHECK(std::bit_cast<Bits>(value) != std::bit_cast<Bits>(poison_pattern<Real>()));
  }
}

template class PlanExecutor<float>;
template class PlanExecutor<double>;

}  // namespace hetsgd
