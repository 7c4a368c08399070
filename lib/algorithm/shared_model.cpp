#include "algorithm/shared_model.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

#include "core/error.hpp"
#include "data/huge_pages.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

float* untouched_pages(std::size_t n) {
  const std::size_t bytes = (n * sizeof(float) + kLargePage - 1) / kLargePage * kLargePage;
  void* const memory = std::aligned_alloc(kLargePage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  advise_huge_pages(memory, bytes);
  return static_cast<float*>(memory);
}

// An element that nobody else has moved takes the new value itself: w + (own - seen) would round.
void land(std::size_t count, const float* own, const float* seen, float* w) {
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = w[i] == seen[i] ? own[i] : w[i] + (own[i] - seen[i]);
  }
}

}  // namespace

void check_shareable(const Model& model) {
  if (model.hashed_labels() == nullptr) return;
  throw with_hint(usage_error("--objective: found hashed, expected full or sampled where workers "
                              "share one model"),
                  "--algorithm slide shares the model and its hash tables");
}

void SharedModel::Release::operator()(float* memory) const noexcept { std::free(memory); }

SharedModel::SharedModel(std::size_t n, int workers, std::unique_ptr<Monitor> monitor)
    : n_(n), workers_(workers), w_(untouched_pages(n)), monitor_(std::move(monitor)) {}

bool SharedModel::join(std::size_t part, std::size_t parts, std::span<const float> initial) {
  HETSGD_CHECK_EQ(initial.size(), n_);
  HETSGD_CHECK_LE(part, parts);
  const std::size_t begin = n_ * part / parts;
  const std::size_t end = std::min(n_, n_ * (part + 1) / parts);
  std::ranges::copy(initial.subspan(begin, end - begin), w_.get() + begin);
  const std::lock_guard lock(*monitor_);
  const bool is_last = ++joined_ == workers_;
  monitor_->notify_all();
  monitor_->wait([this] { return joined_ == workers_; }, "the other workers of a shared model");
  return is_last;
}

SharedSnapshot::SharedSnapshot(const Model& model, Device& device)
    : model_(model),
      own_(device, model.parameters()),
      seen_(device, model.parameters()),
      rows_(model.layout().sparse) {}

template <class Fn>
void SharedSnapshot::for_each_run(const Fn& fn) const {
  std::size_t s = 0;
  for (const ParameterBlock& block : model_.layout().blocks) {
    if (!block.row_sparse()) {
      fn(block.offset, block.size());
      continue;
    }
    for (const Index row : rows_[s]) fn(block.offset + row * block.cols, block.cols);
    ++s;
  }
}

void SharedSnapshot::read(ModelContext& context, const Batch& batch, std::span<const float> w) {
  model_.touched_rows(context, batch, rows_);
  for_each_run([&](std::size_t begin, std::size_t count) {
    std::copy_n(w.data() + begin, count, own_.data() + begin);
    std::copy_n(w.data() + begin, count, seen_.data() + begin);
  });
}

double SharedSnapshot::step(ModelContext& context, const Batch& batch, float learning_rate) {
  return model_.step(context, batch, learning_rate, own_.data());
}

void SharedSnapshot::write(std::span<float> w) const {
  for_each_run([&](std::size_t begin, std::size_t count) {
    land(count, own_.data() + begin, seen_.data() + begin, w.data() + begin);
  });
}

void land_move(std::span<const float> moved, std::span<const float> pulled, std::span<float> w) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t begin = 0; begin < w.size(); begin += kLine) {
    const std::size_t count = std::min(kLine, w.size() - begin);
    const float *const to = moved.data() + begin, *const from = pulled.data() + begin;
    if (!std::equal(to, to + count, from)) land(count, to, from, w.data() + begin);
  }
}

void SharedAverage::read() {
  seen_.clear();
  for (const std::span<float> w : models_) seen_.emplace_back(w.begin(), w.end());
}

void SharedAverage::compute() {
  std::vector<std::span<float>> seen(seen_.begin(), seen_.end());
  mean_.resize(seen.front().size());
  mean_in_order(seen, mean_);
}

void SharedAverage::write() const {
  for (std::size_t g = 0; g < models_.size(); ++g) {
    land(mean_.size(), mean_.data(), seen_[g].data(), models_[g].data());
  }
}

void mean_in_order(std::span<const std::span<float>> models, std::span<float> mean) {
  const auto count = static_cast<float>(models.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    float sum = 0;
    for (const std::span<float> w : models) sum += w[i];
    mean[i] = sum / count;
  }
}

}  // namespace hetsgd
