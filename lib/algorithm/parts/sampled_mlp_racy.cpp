// Rows of a model that other threads read and write meanwhile, without a lock: reading, catching up
// and stepping them where they lie. What races, races below these functions: tests/tsan.supp names
// this file. With one worker, on any number of cores, nothing does.

#include <algorithm>

#include "algorithm/parts/sampled_mlp.hpp"
#include "core/racy_region.hpp"

namespace hetsgd {

namespace {

// Rows between the one that is used and the one that memory is asked for: as many as it takes to
// come. They ascend, but with gaps, which a core's own prefetching does not follow.
constexpr std::size_t kAhead = 2;

}  // namespace

void SampledMlp::ask_for_feature(std::size_t i, std::span<const float> w) const {
  if (i >= touched_.size()) return;
  const std::size_t row = touched_[i];
  state_.layer0.prefetch(row, &w[row * shape_.hidden]);
}

void SampledMlp::select_in_place(const Batch& batch, std::span<float> w) {
  const RacyRegion racy;
  const AdamDebts debts = state_.clock.debts();
  selection_ = state_.count_selection();
  features_.collect(batch, touched_);
  split(touched_.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      ask_for_feature(i + kAhead, w);
      state_.layer0.catch_up(debts, touched_[i], &w[touched_[i] * shape_.hidden]);
    }
  });
  select_from(batch, w.data());
}

// A row's w, m and v come from memory twice and go back to it once: to be scored it catches up
// beside its place, and where it lies before its gradient is made.
double SampledMlp::learn_in_place(const Batch& batch, double learning_rate, std::span<float> w) {
  const RacyRegion racy;
  const std::span<const std::uint32_t> labels = softmax_.labels();
  const AdamDebts debts = state_.clock.debts();
  const AdamBatch step = state_.clock.begin(learning_rate);
  const auto row = [&](std::size_t u) { return &w[shape_.weight + labels[u] * shape_.hidden]; };
  const auto bias = [&](std::size_t u) { return &w[shape_.bias + labels[u]]; };
  const SampledSoftmax::Rows rows{&w[shape_.weight], &w[shape_.bias]};
  const auto ask_for = [&](std::size_t u) {
    if (u < labels.size()) state_.rows.prefetch(labels[u], row(u));
  };
  const auto read = [&](std::size_t u, float* own) -> SampledSoftmax::Row {
    ask_for(u + kAhead);
    float own_bias = 0;
    return {state_.rows.caught_up(debts, labels[u], row(u), own),
            *state_.bias.caught_up(debts, labels[u], bias(u), &own_bias)};
  };
  const auto catch_up = [&](std::size_t u) {
    ask_for(u + kAhead);
    state_.rows.catch_up(debts, labels[u], row(u));
    state_.bias.catch_up(debts, labels[u], bias(u));
  };
  const auto move = [&](std::size_t u, const float* g, float gb) {
    state_.rows.step(step, labels[u], g, row(u));
    state_.bias.step(step, labels[u], &gb, bias(u));
  };
  softmax_.scores(activation_.data(), rows, read);
  const double loss = softmax_.softmax();
  softmax_.backward(activation_.data(), rows, move, catch_up);
  backward_layer0(batch);
  step_layer0(debts, step, w);
  step_the_rest(step, w);
  state_.clock.end(step);
  return loss / static_cast<double>(batch.size());
}

// Others may have ended batches since the rows were caught up for select().
void SampledMlp::step_layer0(const AdamDebts& debts, const AdamBatch& step, std::span<float> w) {
  const std::size_t H = shape_.hidden;
  split(touched_.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      ask_for_feature(i + kAhead, w);
      const std::size_t row = touched_[i];
      float* const g = &layer0_gradient_[row * H];
      state_.layer0.catch_up(debts, row, &w[row * H]);
      state_.layer0.step(step, row, g, &w[row * H]);
      std::fill_n(g, H, 0.0F);
    }
  });
  state_.bias0.step(step, 0, bias0_gradient_.data(), &w[shape_.bias0]);
}

// dense: rows without a gradient move, too.
void SampledMlp::step_the_rest(const AdamBatch& step, std::span<float> w) {
  if (!state_.clock.is_adam() || state_.clock.lazy() != Lazy::dense) return;
  // fn(row) of those between begin and end that are not among the touched ones, which ascend.
  const auto for_the_rest = [](auto touched, std::size_t begin, std::size_t end, auto fn) {
    auto next = std::ranges::lower_bound(touched, begin);
    for (std::size_t row = begin; row < end; ++row) {
      if (next != touched.end() && *next == row) {
        ++next;
      } else {
        fn(row);
      }
    }
  };
  split(shape_.labels, [&](std::size_t, std::size_t begin, std::size_t end) {
    for_the_rest(softmax_.labels(), begin, end, [&](std::size_t l) {
      state_.rows.step_without_gradient(step, l, &w[shape_.weight + l * shape_.hidden]);
      state_.bias.step_without_gradient(step, l, &w[shape_.bias + l]);
    });
  });
  split(shape_.features, [&](std::size_t, std::size_t begin, std::size_t end) {
    for_the_rest(std::span<const Index>(touched_), begin, end, [&](std::size_t f) {
      state_.layer0.step_without_gradient(step, f, &w[f * shape_.hidden]);
    });
  });
}

LabelTables SampledMlp::index_in_place(const SampledState::Rehash& rehash, std::span<float> w) {
  const RacyRegion racy;
  catch_up_all(w);
  return index_of(rehash, &w[shape_.weight]);
}

void SampledMlp::catch_up_all(std::span<float> w) {
  const AdamDebts debts = state_.clock.debts();
  split(shape_.labels, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t l = begin; l < end; ++l) {
      state_.rows.catch_up(debts, l, &w[shape_.weight + l * shape_.hidden]);
      state_.bias.catch_up(debts, l, &w[shape_.bias + l]);
    }
  });
  split(shape_.features, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t f = begin; f < end; ++f) {
      state_.layer0.catch_up(debts, f, &w[f * shape_.hidden]);
    }
  });
}

}  // namespace hetsgd
