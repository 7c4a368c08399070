#include "model/labels/sampled_softmax.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/processors.hpp"
#include "core/random.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kSampledLanes = 16;

// Sixteen sums, so that the compiler may use vector registers.
template <class Real>
inline Real sampled_score(std::size_t n, const Real* x, const Real* y) {
  Real lane[kSampledLanes] = {};
  std::size_t i = 0;
  for (; i + kSampledLanes <= n; i += kSampledLanes) {
    for (std::size_t j = 0; j < kSampledLanes; ++j) lane[j] += x[i + j] * y[i + j];
  }
  Real sum = 0;
  for (; i < n; ++i) sum += x[i] * y[i];
  for (const Real each : lane) sum += each;
  return sum;
}

// The scores of `count` samples for a label, z[place] = <weight, A_sample> + bias with A [. x n].
template <class Real>
HETSGD_FOR_EACH_PROCESSOR void score_samples(std::size_t count, const std::uint32_t* sample,
                                             const std::uint32_t* place, std::size_t n,
                                             const Real* A, const Real* weight, Real bias,
                                             Real* z) {
  for (std::size_t k = 0; k < count; ++k) {
    z[place[k]] = sampled_score(n, weight, A + sample[k] * n) + bias;
  }
}

// Columns of a row and of its gradient that registers hold while the row's samples pass.
template <class Real>
constexpr std::size_t kHeldColumns = 8 * kSampledLanes * sizeof(float) / sizeof(Real);

// Passes `count` samples that have d over `columns` columns. A and dA [. x inputs] point to the
// first of these columns: g <- sum of d A_i, dA_i += d w.
template <class Real, std::size_t columns>
HETSGD_FOR_EACH_PROCESSOR void pass_samples(std::size_t count, const std::uint32_t* sample,
                                            const std::uint32_t* place, const Real* z,
                                            std::size_t inputs, const Real* A, Real* dA,
                                            const Real* weight, Real* gradient) {
  Real g[columns] = {}, w[columns];
  std::copy_n(weight, columns, w);
  for (std::size_t k = 0; k < count; ++k) {
    const Real d = z[place[k]];
    const Real* const __restrict a = A + sample[k] * inputs;
    Real* const __restrict x = dA + sample[k] * inputs;
    for (std::size_t i = 0; i < columns; ++i) g[i] += d * a[i];
    for (std::size_t i = 0; i < columns; ++i) x[i] += d * w[i];
  }
  std::copy_n(g, columns, gradient);
}

template <class Real>
HETSGD_FOR_EACH_PROCESSOR void add_scaled(std::size_t n, Real a, const Real* x, Real* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

template <class Real>
BasicSampledSoftmax<Real>::BasicSampledSoftmax(std::size_t labels, std::size_t inputs,
                                               HostCores& cores)
    : inputs_(inputs),
      cores_(cores),
      bits_(cores.count() * ((labels + 63) / 64)),
      number_(labels) {}

template <class Real>
template <class Fn>
void BasicSampledSoftmax<Real>::split_samples(const Fn& fn) const {
  const std::size_t n = active_.size(), parts = cores_.count();
  cores_.run(parts, [&](std::size_t part) { fn(part, n * part / parts, n * (part + 1) / parts); });
}

// fn(part, begin, end) of the batch's labels on all cores, by equal numbers of pairs.
template <class Real>
template <class Fn>
void BasicSampledSoftmax<Real>::split_labels(const Fn& fn) const {
  const auto label_at = [&](std::size_t part) {
    const auto pair = static_cast<std::uint32_t>(begin_.back() * part / cores_.count());
    return static_cast<std::size_t>(std::ranges::lower_bound(begin_, pair) - begin_.begin());
  };
  cores_.run(cores_.count(), [&](std::size_t part) {
    const bool is_last = part + 1 == cores_.count();
    fn(part, label_at(part), is_last ? begin_.size() - 1 : label_at(part + 1));
  });
}

// The union of all S_i as a bitmap numbers its labels in ascending order. Each core has a bitmap of
// its samples.
template <class Real>
void BasicSampledSoftmax<Real>::number_labels() {
  const std::size_t parts = cores_.count(), words = bits_.size() / parts;
  first_.assign(1, 0);
  for (const auto& labels : active_) {
    first_.push_back(first_.back() + static_cast<std::uint32_t>(labels.size()));
  }
  split_samples([&](std::size_t part, std::size_t begin, std::size_t end) {
    std::uint64_t* const bits = &bits_[part * words];
    for (std::size_t i = begin; i < end; ++i) {
      for (const std::uint32_t l : active_[i]) bits[l / 64] |= std::uint64_t{1} << l % 64;
    }
  });
  label_.clear();
  for (std::size_t word = 0; word < words; ++word) {
    std::uint64_t left = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      left |= std::exchange(bits_[part * words + word], 0);
    }
    for (; left != 0; left &= left - 1) {
      const auto l = static_cast<std::uint32_t>(word * 64) +
                     static_cast<std::uint32_t>(std::countr_zero(left));
      number_[l] = static_cast<std::uint32_t>(label_.size());
      label_.push_back(l);
    }
  }
}

template <class Real>
void BasicSampledSoftmax<Real>::begin(std::span<const std::vector<std::uint32_t>> active,
                                      std::span<const std::uint32_t> truth) {
  HETSGD_CHECK_EQ(active.size(), truth.size());
  active_ = active;
  truth_ = truth;
  number_labels();
  sort_pairs();
  z_.resize(sample_.size());
}

// A counting sort by label. Each core counts and places the pairs of its samples. The pairs of a
// label lie core after core, and thus in the order of samples.
template <class Real>
void BasicSampledSoftmax<Real>::sort_pairs() {
  const std::size_t parts = cores_.count(), labels = label_.size();
  next_.resize(parts * labels);
  split_samples([&](std::size_t part, std::size_t begin, std::size_t end) {
    std::uint32_t* const count = &next_[part * labels];
    std::fill_n(count, labels, 0U);
    for (std::size_t i = begin; i < end; ++i) {
      for (const std::uint32_t l : active_[i]) ++count[number_[l]];
    }
  });
  begin_.resize(labels + 1);
  std::uint32_t pairs = 0;
  for (std::size_t u = 0; u < labels; ++u) {
    begin_[u] = pairs;
    for (std::size_t part = 0; part < parts; ++part) {
      pairs += std::exchange(next_[part * labels + u], pairs);
    }
  }
  begin_[labels] = pairs;
  sample_.resize(pairs);
  place_.resize(pairs);
  split_samples([&](std::size_t part, std::size_t begin, std::size_t end) {
    std::uint32_t* const next = &next_[part * labels];
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t k = 0; k < active_[i].size(); ++k) {
        const std::uint32_t at = next[number_[active_[i][k]]]++;
        sample_[at] = static_cast<std::uint32_t>(i);
        place_[at] = first_[i] + static_cast<std::uint32_t>(k);
      }
    }
  });
}

template <class Real>
void BasicSampledSoftmax<Real>::scores(const Real* A, const Read& read) {
  split_labels([&](std::size_t, std::size_t begin, std::size_t end) {
    std::vector<Real> own(inputs_ + 1);
    for (std::size_t u = begin; u < end; ++u) {
      const auto [weight, bias] = read(u, own.data());
      const std::size_t first = begin_[u];
      score_samples(begin_[u + 1] - first, &sample_[first], &place_[first], inputs_, A, weight,
                    bias, z_.data());
    }
  });
}

// A sample's true labels are the first active ones.
template <class Real>
double BasicSampledSoftmax<Real>::softmax() {
  std::vector<double> losses(active_.size());
  const auto size = static_cast<Real>(active_.size());
  split_samples([&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      Real* const z = z_.data() + first_[i];
      const std::size_t count = active_[i].size(), labels = truth_[i];
      if (labels == 0) {
        std::fill_n(z, count, Real(0));
        continue;
      }
      const Real share = 1 / static_cast<Real>(labels);
      const Real largest = *std::max_element(z, z + count);
      double total = 0, truth = 0;
      for (std::size_t k = 0; k < labels; ++k) truth += z[k] - largest;
      for (std::size_t k = 0; k < count; ++k) total += z[k] = std::exp(z[k] - largest);
      losses[i] = std::log(total) - truth / static_cast<double>(labels);
      const auto scale = static_cast<Real>(1 / total);
      for (std::size_t k = 0; k < count; ++k) {
        z[k] = (z[k] * scale - (k < labels ? share : Real(0))) / size;
      }
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

template <class Real>
void BasicSampledSoftmax<Real>::backward(const Real* A, const Weight& weight_of, const Sink& sink) {
  const std::size_t n = active_.size() * inputs_, parts = cores_.count();
  delta_.assign(parts * n, 0);
  split_labels([&](std::size_t part, std::size_t begin, std::size_t end) {
    std::vector<Real> gradient(inputs_);
    for (std::size_t u = begin; u < end; ++u) {
      const Real* const weight = weight_of(u);
      const std::size_t first = begin_[u], count = begin_[u + 1] - first;
      const auto pass = [&]<std::size_t columns>(std::size_t from) {
        pass_samples<Real, columns>(count, &sample_[first], &place_[first], z_.data(), inputs_,
                                    A + from, &delta_[part * n + from], weight + from,
                                    &gradient[from]);
      };
      std::size_t column = 0;
      for (; column + kHeldColumns<Real> <= inputs_; column += kHeldColumns<Real>) {
        pass.template operator()<kHeldColumns<Real>>(column);
      }
      for (; column + kSampledLanes <= inputs_; column += kSampledLanes) {
        pass.template operator()<kSampledLanes>(column);
      }
      for (; column < inputs_; ++column) pass.template operator()<1>(column);
      Real bias_gradient = 0;
      for (std::size_t k = first; k < first + count; ++k) bias_gradient += z_[place_[k]];
      sink(u, gradient.data(), bias_gradient);
    }
  });
  cores_.run(parts, [&](std::size_t part) {
    const std::size_t begin = n * part / parts, end = n * (part + 1) / parts;
    for (std::size_t core = 1; core < parts; ++core) {
      add_scaled(end - begin, Real(1), &delta_[core * n + begin], &delta_[begin]);
    }
  });
}

std::uint32_t label_seed(std::span<const Index> rows) {
  std::uint32_t seed = 0;
  for (const Index row : rows) seed = random_block(seed, Purpose::label_fill, row, 0, 0)[0];
  return seed;
}

template <class Real>
BasicDrawnSoftmax<Real>::BasicDrawnSoftmax(std::size_t labels, std::size_t inputs,
                                           std::size_t least, HostCores& cores)
    : labels_(labels), least_(std::min(least, labels)), softmax_(labels, inputs, cores) {}

template <class Real>
BasicSampledSoftmax<Real>& BasicDrawnSoftmax<Real>::of(const Batch& batch) {
  if (last_.are_of(batch)) return softmax_;
  last_.keep(batch);
  const Permutation order(labels_, label_seed(batch.rows()), Purpose::label_fill, 0);
  list_.clear();
  for (std::size_t k = 0; k < least_; ++k) list_.push_back(static_cast<std::uint32_t>(order(k)));
  active_.resize(batch.size());
  truth_.resize(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto truth = batch.data().targets.indices(batch.rows()[i]);
    active_[i].assign(truth.begin(), truth.end());
    truth_[i] = static_cast<std::uint32_t>(truth.size());
    for (std::size_t k = 0; k < least_ && active_[i].size() < least_; ++k) {
      if (!std::ranges::binary_search(truth, list_[k])) active_[i].push_back(list_[k]);
    }
  }
  softmax_.begin(active_, truth_);
  return softmax_;
}

template class BasicDrawnSoftmax<float>;
template class BasicDrawnSoftmax<double>;
template class BasicSampledSoftmax<float>;
template class BasicSampledSoftmax<double>;

}  // namespace hetsgd
