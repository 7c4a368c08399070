// A network of tokens on one batch: loss, gradient, step and the map before the softmax.
#pragma once

#include <utility>

#include "graph/variants.hpp"
#include "memory/minimum.hpp"
#include "model/network/execute.hpp"
#include "support/memory_fixtures.hpp"

namespace hetsgd::test {

// One row of a TokenBatch.
struct TokenRow {
  std::vector<std::uint16_t> ids;
  std::vector<std::uint32_t> position, target;  // positions within the row, ascending
};

// Rows padded to `steps` tokens; 0: one behind the other.
inline TokenBatch padded(const std::vector<TokenRow>& rows, std::uint32_t steps) {
  TokenBatch batch{.packed = steps == 0};
  for (const TokenRow& row : rows) {
    const auto begin = static_cast<std::uint32_t>(batch.input.size());
    batch.begin.push_back(begin);
    batch.length.push_back(static_cast<std::uint32_t>(row.ids.size()));
    batch.input.insert(batch.input.end(), row.ids.begin(), row.ids.end());
    if (steps > 0) batch.input.resize(begin + steps);
    for (std::size_t i = 0; i < row.position.size(); ++i) {
      batch.position.push_back(begin + row.position[i]);
      batch.target.push_back(row.target[i]);
      batch.target_begin.push_back(batch.target.size());
    }
  }
  return batch;
}
inline TokenBatch packed(const std::vector<TokenRow>& rows) { return padded(rows, 0); }

template <class Real>
class TokenNetwork {
 public:
  TokenNetwork(Graph graph, TokenBatch batch, const Policy& policy = liveness_policy(),
               int cores = 1)
      : batch_(std::move(batch)),
        net_(with_steps(graph, static_cast<std::int64_t>(batch_.input.size() / samples())),
             {.batch = static_cast<std::int64_t>(samples()), .needs = BackwardNeeds::minimal}),
        plan_(net_.plan(policy, minimum_capacity(policy, net_.request()).value())),
        device_(make_cpu_device<Real>(cores)),
        executor_(*device_, net_.training, plan_),
        arena_(executor_.arena_size()) {}

  const Graph& graph() const { return *net_.graph; }

  // Returns the mean loss of the batch at w. to <- beta to + alpha gradient; `to` may be w.
  double learn(const std::vector<Real>& w, Real* to, Real alpha, Real beta) {
    const GraphPass<Real> pass{.parameters = w.data(),
                               .to = to,
                               .alpha = alpha,
                               .beta = beta,
                               .seed = 3,
                               .draw = 4,
                               .rows = batch_.spans()};
    double loss = 0;
    executor_.forward(pass, ends([&](const Real* Z, Real* Y) {
                        loss = learn_tokens(*device_, graph(), pass, batch_, Z, Y);
                      }),
                      arena_.data());
    executor_.backward(pass, arena_.data());
    return loss / static_cast<double>(batch_.targets());
  }
  std::vector<Real> gradient(const std::vector<Real>& w) {
    std::vector<Real> g(w.size(), std::numeric_limits<Real>::quiet_NaN());
    learn(w, g.data(), Real(1), Real(0));
    return g;
  }
  double loss(const std::vector<Real>& w) {
    std::vector<Real> g(w.size());
    return learn(w, g.data(), Real(1), Real(0));
  }
  // The map that the softmax reads, [tokens x width].
  std::vector<Real> map(const std::vector<Real>& w) {
    std::vector<Real> result;
    const auto width = static_cast<std::size_t>(graph().node(graph().size() - 1).shape.channels);
    executor_.forward(
        {.parameters = w.data(), .drops = false, .rows = batch_.spans()},
        ends([&](const Real* Z, Real*) { result.assign(Z, Z + batch_.input.size() * width); }),
        arena_.data());
    return result;
  }

 private:
  // That are planned: rows, or packed tokens.
  std::size_t samples() const { return batch_.packed ? batch_.input.size() : batch_.begin.size(); }
  GraphEnds<Real> ends(std::function<void(const Real*, Real*)> read) {
    return {[this](Real* X) { std::copy(batch_.input.begin(), batch_.input.end(), X); },
            std::move(read)};
  }

  TokenBatch batch_;
  Planned net_;
  MemoryPlan plan_;
  std::unique_ptr<BasicDevice<Real>> device_;
  PlanExecutor<Real> executor_;
  std::vector<Real> arena_;
};

}  // namespace hetsgd::test
