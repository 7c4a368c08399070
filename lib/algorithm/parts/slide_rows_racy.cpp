// Rows of a model that other threads read and write meanwhile, without a lock: reading, catching up
// and stepping them in place. All races of slide happen below these functions: tests/tsan.supp
// names this file. With one worker, on any number of cores, there is no race.

#include <algorithm>

#include "algorithm/parts/slide_state.hpp"
#include "core/racy_region.hpp"

namespace hetsgd {

namespace {

// Rows between the current row and the prefetched one, about as many as a fetch takes. Rows ascend,
// but with gaps, which a core's own prefetching does not follow.
constexpr std::size_t kAhead = 2;

// Calls fn(row) for the given rows of `adam` on all cores.
template <class Fn>
void for_all_rows(const SampledPass& pass, const RowAdam& adam, const Fn& fn) {
  pass.split(adam.block().rows, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) fn(row);
  });
}

// Steps all rows of `adam` without a gradient, except the touched ones, which ascend.
void step_others(const SampledPass& pass, RowAdam& adam, std::span<const std::uint32_t> touched,
                 const AdamBatch& step, float* w) {
  pass.split(adam.block().rows, [&](std::size_t, std::size_t begin, std::size_t end) {
    auto next = std::ranges::lower_bound(touched, begin);
    for (std::size_t row = begin; row < end; ++row) {
      if (next != touched.end() && *next == row) {
        ++next;
      } else {
        adam.step_without_gradient(step, row, w);
      }
    }
  });
}

}  // namespace

template <class Fn>
void SlideRows::for_features(std::span<const float> w, const Fn& fn) const {
  const std::span<const Index> touched = pass_.touched();
  pass_.split(touched.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kAhead < touched.size()) state_.layer0.prefetch(touched[i + kAhead], w.data());
      fn(touched[i]);
    }
  });
}

void SlideRows::catch_up_features(const Batch& batch, std::span<float> w) {
  const AdamDebts debts = state_.clock.debts();
  selection_ = state_.count_selection();
  pass_.touch(batch);
  for_features(w, [&](Index row) { state_.layer0.catch_up(debts, row, w.data()); });
}

void SlideRows::select_in_place(const Batch& batch, const LabelIndex* index, std::span<float> w) {
  const RacyRegion racy;
  catch_up_features(batch, w);
  pass_.select(batch, w.data(), index, selection_);
}

LabelIndex SlideRows::index_in_place(const SlideState::Rehash& rehash, std::span<float> w) {
  const RacyRegion racy;
  catch_up_all(w);
  return state_.make_index(rehash, &w[pass_.shape().weight], pass_.cores());
}

void SlideRows::read_features(const Batch& batch, std::span<float> w) {
  const SampledShape& shape = pass_.shape();
  catch_up_features(batch, w);
  own_layer0_.resize(shape.bias0 + shape.hidden);
  for (const Index row : pass_.touched()) {
    std::copy_n(&w[row * shape.hidden], shape.hidden, &own_layer0_[row * shape.hidden]);
  }
  std::copy_n(&w[shape.bias0], shape.hidden, &own_layer0_[shape.bias0]);
}

void SlideRows::select(const Batch& batch, const LabelIndex* index) {
  pass_.select(batch, own_layer0_.data(), index, selection_);
}

// A row's w, m and v are read from memory twice and written back once. For its score the row
// catches up in a copy; before its gradient is made it catches up in place.
double SlideRows::learn_in_place(const Batch& batch, double learning_rate, std::span<float> w) {
  const RacyRegion racy;
  RowAdam& rows = state_.rows;
  const std::span<const std::uint32_t> labels = pass_.labels();
  const AdamDebts debts = state_.clock.debts();
  const AdamBatch step = state_.clock.begin(learning_rate);
  const auto ask_for = [&](std::size_t u) {
    if (u < labels.size()) rows.prefetch(labels[u], w.data());
  };
  const auto read = [&](std::size_t u, float* own) -> SampledSoftmax::Row {
    ask_for(u + kAhead);
    if (rows.caught_up(debts, labels[u], w.data(), own)) return {own, own[rows.block().cols]};
    return {rows.row_of(labels[u], w.data()), rows.bias_of(labels[u], w.data())};
  };
  const auto catch_up = [&](std::size_t u) {
    ask_for(u + kAhead);
    rows.catch_up(debts, labels[u], w.data());
    return rows.row_of(labels[u], w.data());
  };
  const double loss =
      pass_.learn(batch, read, catch_up, [&](std::size_t u, const float* g, float gb) {
        rows.step(step, labels[u], g, gb, w.data());
      });
  finish(debts, step, w);
  return loss;
}

void SlideRows::read_labels(std::span<float> w) {
  const std::span<const std::uint32_t> labels = pass_.labels();
  const std::size_t H = pass_.shape().hidden;
  const AdamDebts debts = state_.clock.debts();
  own_rows_.resize(labels.size() * (H + 1));
  for (std::size_t u = 0; u < labels.size(); ++u) {
    state_.rows.catch_up(debts, labels[u], w.data());
    float* const own = &own_rows_[u * (H + 1)];
    std::copy_n(state_.rows.row_of(labels[u], w.data()), H, own);
    own[H] = state_.rows.bias_of(labels[u], w.data());
  }
}

double SlideRows::learn(const Batch& batch) {
  const std::size_t H = pass_.shape().hidden;
  row_gradient_.resize(own_rows_.size());
  const auto own = [&](std::size_t u) { return &own_rows_[u * (H + 1)]; };
  return pass_.learn(
      batch,
      [&](std::size_t u, float*) -> SampledSoftmax::Row {
        return {own(u), own(u)[H]};
      },
      own,
      [&](std::size_t u, const float* g, float gb) {
        std::copy_n(g, H, &row_gradient_[u * (H + 1)]);
        row_gradient_[u * (H + 1) + H] = gb;
      });
}

// These rows also catch up on batches that other workers have ended meanwhile.
void SlideRows::write(double learning_rate, std::span<float> w) {
  const std::span<const std::uint32_t> labels = pass_.labels();
  const std::size_t H = pass_.shape().hidden;
  const AdamDebts debts = state_.clock.debts();
  const AdamBatch step = state_.clock.begin(learning_rate);
  for (std::size_t u = 0; u < labels.size(); ++u) {
    const float* const g = &row_gradient_[u * (H + 1)];
    state_.rows.catch_up(debts, labels[u], w.data());
    state_.rows.step(step, labels[u], g, g[H], w.data());
  }
  finish(debts, step, w);
}

// Others may have ended batches since layer 0's rows were caught up for the selection.
void SlideRows::finish(const AdamDebts& debts, const AdamBatch& step, std::span<float> w) {
  for_features(w, [&](Index row) {
    float* const g = pass_.layer0_gradient(row);
    state_.layer0.catch_up(debts, row, w.data());
    state_.layer0.step(step, row, g, 0, w.data());
    std::fill_n(g, pass_.shape().hidden, 0.0F);
  });
  state_.bias0.step(step, 0, pass_.bias0_gradient(), 0, w.data());
  if (state_.clock.is_adam() && state_.clock.lazy() == Lazy::dense) {
    step_others(pass_, state_.rows, pass_.labels(), step, w.data());
    step_others(pass_, state_.layer0, pass_.touched(), step, w.data());
  }
  state_.clock.end(step);
}

void SlideRows::catch_up_all(std::span<float> w) {
  const RacyRegion racy;
  const AdamDebts debts = state_.clock.debts();
  for (RowAdam* const adam : {&state_.rows, &state_.layer0}) {
    for_all_rows(pass_, *adam, [&](std::size_t row) { adam->catch_up(debts, row, w.data()); });
  }
}

// A look at each row's last batch; three elements read and written for each element of a row that
// has to catch up.
Work SlideRows::catch_up_work() const {
  const AdamDebts debts = state_.clock.debts();
  std::size_t owing = 0, all = 0;
  for (const RowAdam* const adam : {&state_.rows, &state_.layer0}) {
    all += adam->block().rows;
    for (std::size_t row = 0; row < adam->block().rows; ++row) owing += adam->owes(debts, row);
  }
  const double numbers = static_cast<double>(owing) * static_cast<double>(pass_.shape().hidden);
  return {10 * numbers, 24 * numbers + 4 * static_cast<double>(all), 1};
}

}  // namespace hetsgd
