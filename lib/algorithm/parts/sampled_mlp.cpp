#include "algorithm/parts/sampled_mlp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kLanes = 16;

// Sixteen sums, so that the compiler may use vector registers.
float inner_product(std::size_t n, const float* x, const float* y) {
  float lane[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] += x[i + j] * y[i + j];
  }
  float sum = 0;
  for (; i < n; ++i) sum += x[i] * y[i];
  for (const float each : lane) sum += each;
  return sum;
}

void add_scaled(std::size_t n, float a, const float* x, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

const Layout& one_hidden_layer(const Model& model) {
  const Layout& layout = model.layout();
  const bool fits = layout.blocks.size() == 4 && layout.blocks[0].name == "layer0.weight" &&
                    layout.blocks[2].name == "layer1.weight" && layout.blocks[2].rows > 1 &&
                    model.data().task != Task::binary;
  if (!fits) {
    throw with_hint(usage_error("--model: found one without exactly one hidden layer below a "
                                "softmax, expected an mlp of labels, as slide samples them"),
                    "use --model mlp --hidden 128, and data with several labels");
  }
  return layout;
}

}  // namespace

// pair p of label number u, begin[u] <= p < begin[u + 1]: its sample, and its place in z.
struct SampledMlp::Pairs {
  std::vector<std::uint32_t> label;   // by number, ascending
  std::vector<std::uint32_t> begin;   // [labels + 1]
  std::vector<std::uint32_t> sample;  // by pair
  std::vector<std::uint32_t> place;   // by pair
  std::vector<std::uint32_t> first;   // [samples + 1], in z
  std::vector<float> z;               // by sample and its active labels; then d
  std::vector<std::uint64_t> bits;    // of all labels, zero between batches
  std::vector<std::uint32_t> number;  // by label, of those in the batch
};

SampledMlp::SampledMlp(const Model& model, Device& device, const SampledOptions& options,
                       const OptimizerOptions& optimizer, std::uint64_t seed)
    : model_(model),
      device_(device),
      options_(options),
      seed_(seed),
      cores_(kernels<HostCores>(device)),
      sparse_(kernels<SparseKernels>(device)),
      context_(model.make_context(device)),
      features_(one_hidden_layer(model).blocks[0].rows),
      hidden_(model.layout().blocks[0].cols),
      labels_(model.layout().blocks[2].rows),
      bias0_(model.layout().blocks[1].offset),
      weight_(model.layout().blocks[2].offset),
      bias_(model.layout().blocks[3].offset),
      clock_(optimizer, options.lazy),
      layer0_(clock_, features_, hidden_),
      bias0_adam_(clock_, 1, hidden_),
      rows_adam_(clock_, labels_, hidden_),
      bias_adam_(clock_, labels_, 1),
      pairs_(std::make_unique<Pairs>()),
      layer0_gradient_(features_ * hidden_) {
  options_.hash = options.hash_of(hidden_);
  pairs_->bits.resize((labels_ + 63) / 64);
  pairs_->number.resize(labels_);
  for (std::size_t core = 0; core < cores_.count(); ++core) {
    active_scratch_.emplace_back(options.active, labels_, seed);
  }
}

SampledMlp::~SampledMlp() = default;

// fn(part, begin, end) of 0 .. n on all cores.
template <class Fn>
void SampledMlp::split(std::size_t n, const Fn& fn) const {
  const std::size_t parts = cores_.count();
  cores_.run(parts, [&](std::size_t part) { fn(part, n * part / parts, n * (part + 1) / parts); });
}

// The same of the batch's labels, by equal numbers of pairs.
template <class Fn>
void SampledMlp::split_labels(const Fn& fn) const {
  const std::vector<std::uint32_t>& begin = pairs_->begin;
  const auto label_at = [&](std::size_t part) {
    const auto pair = static_cast<std::uint32_t>(begin.back() * part / cores_.count());
    return static_cast<std::size_t>(std::ranges::lower_bound(begin, pair) - begin.begin());
  };
  cores_.run(cores_.count(), [&](std::size_t part) {
    const bool is_last = part + 1 == cores_.count();
    fn(part, label_at(part), is_last ? begin.size() - 1 : label_at(part + 1));
  });
}

void SampledMlp::rehash(float* w) {
  catch_up_all(w);
  rebuilt_ = !hash_ || clock_.complete() / options_.rebuild > generation_;
  if (rebuilt_) {
    generation_ = clock_.complete() / options_.rebuild;
    hash_.emplace(options_.hash, hidden_, seed_, generation_);
  }
  tables_ = std::make_unique<LabelTables>(*hash_, labels_, w + weight_, options_.bucket, seed_,
                                          rehashes_, cores_);
  next_rehash_ += options_.rehash * std::exp(options_.rehash_decay * rehashes_);
  ++rehashes_;
}

SparseRows<float> SampledMlp::features(const Batch& batch) const {
  const Dataset& data = batch.data();
  return device_.stage({batch.size(), data.feature_count, batch.rows().data(),
                        data.sparse.begin.data(), data.sparse.index.data(),
                        data.sparse.value.data()});
}

void SampledMlp::select(const Batch& batch, float* w) {
  const std::size_t n = batch.size(), tables = options_.hash.tables;
  model_.touched_rows(*context_, batch, touched_);
  split(touched_[0].size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      layer0_.catch_up(touched_[0][i], w + touched_[0][i] * hidden_);
    }
  });
  activation_.resize(n * hidden_);
  sparse_.forward(features(batch), hidden_, w, w + bias0_, true, activation_.data());
  buckets_.resize(n * tables);
  if (active_.size() < n) active_.resize(n);
  std::vector<Retrieval> found(cores_.count());
  split(n, [&](std::size_t part, std::size_t begin, std::size_t end) {
    ActiveLabels& labels = active_scratch_[part];
    labels.begin_batch(clock_.batch() + 1);
    if (tables_) {
      found[part].blind = hash_->queries(end - begin, &activation_[begin * hidden_],
                                         &buckets_[begin * tables], tables, 1);
    }
    for (std::size_t i = begin; i < end; ++i) {
      active_[i].clear();
      found[part] += labels.append(tables_.get(), static_cast<std::uint32_t>(i),
                                   batch.data().targets.indices(batch.rows()[i]),
                                   {&buckets_[i * tables], tables}, active_[i]);
    }
  });
  probed_ = 0;
  for (const Retrieval& each : found) {
    retrieval_ += each;
    probed_ += each.probed;
  }
  active_.resize(n);
  number_labels();
}

// The union of all S_i as a bitmap numbers its labels in ascending order; then a counting sort.
void SampledMlp::number_labels() {
  Pairs& p = *pairs_;
  p.first.assign(1, 0);
  for (const auto& labels : active_) {
    p.first.push_back(p.first.back() + static_cast<std::uint32_t>(labels.size()));
    for (const std::uint32_t l : labels) p.bits[l / 64] |= std::uint64_t{1} << l % 64;
  }
  p.label.clear();
  for (std::size_t word = 0; word < p.bits.size(); ++word) {
    for (std::uint64_t left = std::exchange(p.bits[word], 0); left != 0; left &= left - 1) {
      const auto l = static_cast<std::uint32_t>(word * 64) +
                     static_cast<std::uint32_t>(std::countr_zero(left));
      p.number[l] = static_cast<std::uint32_t>(p.label.size());
      p.label.push_back(l);
    }
  }
  p.begin.assign(p.label.size() + 1, 0);
  for (const auto& labels : active_) {
    for (const std::uint32_t l : labels) ++p.begin[p.number[l] + 1];
  }
  std::partial_sum(p.begin.begin(), p.begin.end(), p.begin.begin());
  p.sample.resize(p.begin.back());
  p.place.resize(p.begin.back());
  std::vector<std::uint32_t> next(p.begin.begin(), p.begin.end() - 1);
  for (std::size_t i = 0; i < active_.size(); ++i) {
    for (std::size_t k = 0; k < active_[i].size(); ++k) {
      const std::uint32_t at = next[p.number[active_[i][k]]]++;
      p.sample[at] = static_cast<std::uint32_t>(i);
      p.place[at] = p.first[i] + static_cast<std::uint32_t>(k);
    }
  }
  p.z.resize(p.begin.back());
}

void SampledMlp::scores(float* w) {
  Pairs& p = *pairs_;
  split_labels([&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) {
      const std::size_t l = p.label[u];
      float* const row = w + weight_ + l * hidden_;
      rows_adam_.catch_up(l, row);
      bias_adam_.catch_up(l, w + bias_ + l);
      for (std::uint32_t k = p.begin[u]; k < p.begin[u + 1]; ++k) {
        const float* const a = &activation_[p.sample[k] * hidden_];
        p.z[p.place[k]] = inner_product(hidden_, row, a) + w[bias_ + l];
      }
    }
  });
}

// z <- d; returns the sum of the losses. A sample's true labels are the first active ones.
double SampledMlp::softmax(const Batch& batch) {
  Pairs& p = *pairs_;
  std::vector<double> losses(active_.size());
  const auto size = static_cast<float>(batch.size());
  split(active_.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      float* const z = p.z.data() + p.first[i];
      const std::size_t count = active_[i].size();
      const std::size_t labels = batch.data().targets.indices(batch.rows()[i]).size();
      if (labels == 0) {
        std::fill_n(z, count, 0.0F);
        continue;
      }
      const float share = 1 / static_cast<float>(labels);
      const float largest = *std::max_element(z, z + count);
      double total = 0, truth = 0;
      for (std::size_t k = 0; k < labels; ++k) truth += z[k] - largest;
      for (std::size_t k = 0; k < count; ++k) total += z[k] = std::exp(z[k] - largest);
      losses[i] = std::log(total) - truth / static_cast<double>(labels);
      const auto scale = static_cast<float>(1 / total);
      for (std::size_t k = 0; k < count; ++k) {
        z[k] = (z[k] * scale - (k < labels ? share : 0.0F)) / size;
      }
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

// Of every label before its row moves: what it gives back to the samples.
void SampledMlp::update_labels(float* w) {
  const Pairs& p = *pairs_;
  const std::size_t n = active_.size() * hidden_;
  delta_.assign(cores_.count() * n, 0);
  split_labels([&](std::size_t part, std::size_t begin, std::size_t end) {
    std::vector<float> gradient(hidden_);
    for (std::size_t u = begin; u < end; ++u) {
      const std::size_t l = p.label[u];
      float* const row = w + weight_ + l * hidden_;
      float bias_gradient = 0;
      std::ranges::fill(gradient, 0.0F);
      for (std::uint32_t k = p.begin[u]; k < p.begin[u + 1]; ++k) {
        const float d = p.z[p.place[k]];
        const std::size_t i = p.sample[k] * hidden_;
        bias_gradient += d;
        add_scaled(hidden_, d, &activation_[i], gradient.data());
        add_scaled(hidden_, d, row, &delta_[part * n + i]);
      }
      rows_adam_.step(l, gradient.data(), row);
      bias_adam_.step(l, &bias_gradient, w + bias_ + l);
    }
  });
  split(n, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t core = 1; core < cores_.count(); ++core) {
      add_scaled(end - begin, 1, &delta_[core * n + begin], &delta_[begin]);
    }
    for (std::size_t i = begin; i < end; ++i) delta_[i] = activation_[i] > 0 ? delta_[i] : 0;
  });
}

void SampledMlp::update_layer0(const Batch& batch, float* w) {
  sparse_.update(features(batch), hidden_, 1, delta_.data(), layer0_gradient_.data());
  split(touched_[0].size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t row = touched_[0][i];
      float* const g = &layer0_gradient_[row * hidden_];
      layer0_.step(row, g, w + row * hidden_);
      std::fill_n(g, hidden_, 0.0F);
    }
  });
  std::vector<float> bias_gradient(hidden_);
  device_.column_sums(batch.size(), hidden_, 1, delta_.data(), bias_gradient.data());
  bias0_adam_.step(0, bias_gradient.data(), w + bias0_);
}

// dense: rows without a gradient move, too.
void SampledMlp::step_the_rest(float* w) {
  if (!clock_.is_adam() || clock_.lazy() != Lazy::dense) return;
  split(labels_, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t l = begin; l < end; ++l) {
      rows_adam_.step_without_gradient(l, w + weight_ + l * hidden_);
      bias_adam_.step_without_gradient(l, w + bias_ + l);
    }
  });
  split(features_, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t f = begin; f < end; ++f) layer0_.step_without_gradient(f, w + f * hidden_);
  });
}

double SampledMlp::learn(const Batch& batch, double learning_rate, float* w) {
  clock_.begin(learning_rate);
  scores(w);
  const double loss = softmax(batch);
  update_labels(w);
  update_layer0(batch, w);
  step_the_rest(w);
  clock_.end();
  return loss / static_cast<double>(batch.size());
}

void SampledMlp::catch_up_all(float* w) {
  split(labels_, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t l = begin; l < end; ++l) {
      rows_adam_.catch_up(l, w + weight_ + l * hidden_);
      bias_adam_.catch_up(l, w + bias_ + l);
    }
  });
  split(features_, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t f = begin; f < end; ++f) layer0_.catch_up(f, w + f * hidden_);
  });
}

Work SampledMlp::select_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(hidden_);
  const double codes = static_cast<double>(options_.hash.all_codes()), m = options_.hash.bin;
  return {2 * z * H + B * codes * m, 8 * z + 4 * z * H + 8 * B * H, 3};
}

Work SampledMlp::learn_work(const BatchShape& batch) const {
  const double B = batch.samples, z = batch.nonzeros, H = static_cast<double>(hidden_);
  const auto R0 = static_cast<double>(touched_[0].size());
  const auto Q = static_cast<double>(pairs_->begin.back());
  const auto U = static_cast<double>(pairs_->label.size());
  const double probes = 4 * (B * options_.hash.tables + static_cast<double>(probed_));
  return {2 * z * H + B * H + 12 * R0 * H + 6 * Q * H + 5 * Q + 12 * U * H,
          8 * z + 8 * z * H + 24 * R0 * H + 4 * (7 * U * H + 3 * Q + 4 * B * H) + probes, 6};
}

Work SampledMlp::rehash_work() const {
  const auto N = static_cast<double>(labels_), H = static_cast<double>(hidden_);
  const double codes = static_cast<double>(options_.hash.all_codes());
  return {N * codes * options_.hash.bin, 4 * N * H + 12 * N * options_.hash.tables, 2};
}

}  // namespace hetsgd
