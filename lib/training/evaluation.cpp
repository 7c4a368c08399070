#include "training/evaluation.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kTop = 5;
constexpr std::size_t kChunkLogits = std::size_t{1} << 21;  // 8 MB of scores at a time

struct ChunkSums {
  double loss = 0;
  std::array<double, 3> precision{};  // sums of P@1, P@3, P@5
  std::uint64_t rows_with_labels = 0;
  std::uint64_t correct = 0;
};

// One thread's device, scratch and output memory.
struct Lane {
  explicit Lane(const Model& model)
      : device(make_cpu_device<float>(1)), context(model.make_context(*device)) {}
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelContext> context;
  Buffer logits;
  std::vector<std::uint32_t> top;
  Batch batch;
};

void count_hits(const Batch& batch, const std::vector<std::uint32_t>& top, std::size_t k_stored,
                ChunkSums& sums) {
  constexpr std::array<std::size_t, 3> kAt = {1, 3, 5};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto labels = batch.data().labels(batch.rows()[i]);
    if (labels.empty()) continue;
    ++sums.rows_with_labels;
    std::size_t hits = 0;
    for (std::size_t k = 0, at = 0; k < k_stored; ++k) {
      hits += std::ranges::binary_search(labels, top[i * k_stored + k]) ? 1 : 0;
      while (at < kAt.size() && kAt[at] == k + 1) {
        sums.precision[at++] += static_cast<double>(hits) / static_cast<double>(k + 1);
      }
    }
    sums.correct += std::ranges::binary_search(labels, top[i * k_stored]) ? 1 : 0;
  }
}

}  // namespace

std::optional<double> area_under_curve(std::span<const float> scores,
                                       std::span<const std::uint8_t> truth) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return scores[i]; });
  double rank_sum = 0;
  std::uint64_t positives = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    end = std::max(end, begin + 1);  // NaN equals nothing: a group of its own
    const double mid_rank = 0.5 * static_cast<double>(begin + 1 + end);
    for (std::size_t i = begin; i < end; ++i) {
      if (!truth[order[i]]) continue;
      rank_sum += mid_rank;
      ++positives;
    }
  }
  const std::uint64_t negatives = order.size() - positives;
  if (positives == 0 || negatives == 0) return std::nullopt;
  const auto p = static_cast<double>(positives);
  return (rank_sum - p * (p + 1) / 2) / (p * static_cast<double>(negatives));
}

struct Evaluator::Impl {
  Impl(const Model& m, DatasetPtr data, std::uint64_t wanted, int threads)
      : model(m),
        test(std::move(data)),
        arena(threads > 0 ? threads : tbb::task_arena::automatic),
        lanes([this] { return Lane(model); }) {
    const std::uint64_t n = test->rows();
    const std::uint64_t used = wanted == 0 ? n : std::min(wanted, n);
    for (std::uint64_t i = 0; i < used; ++i) rows.push_back(static_cast<Index>(i * n / used));
    const std::size_t per_chunk = std::clamp<std::size_t>(kChunkLogits / model.outputs(), 1, 512);
    chunk_rows = per_chunk;
    if (model.shape().task == Task::binary) {
      scores.resize(rows.size());
      truth.resize(rows.size());
    }
  }

  ChunkSums measure_chunk(std::size_t chunk, const float* w) {
    Lane& lane = lanes.local();
    const std::size_t begin = chunk * chunk_rows, end = std::min(rows.size(), begin + chunk_rows);
    lane.batch.reset(*test).assign(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                   rows.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t outputs = model.outputs();
    lane.logits.reset(*lane.device, (end - begin) * outputs);
    ChunkSums sums;
    sums.loss = model.scores(*lane.context, lane.batch, w, lane.logits.data());
    if (model.shape().task == Task::binary) {
      for (std::size_t i = begin; i < end; ++i) {
        scores[i] = lane.logits.data()[i - begin];
        truth[i] = test->labels(rows[i]).empty() ? 0 : 1;
        sums.correct += (scores[i] > 0) == (truth[i] == 1) ? 1 : 0;
      }
      return sums;
    }
    const std::size_t k = std::min(kTop, outputs);
    lane.top.resize((end - begin) * k);
    lane.device->top_k(end - begin, outputs, lane.logits.data(), k, lane.top.data());
    count_hits(lane.batch, lane.top, k, sums);
    return sums;
  }

  Metrics metrics(const ChunkSums& total) const {
    const auto n = static_cast<double>(rows.size());
    Metrics result;
    result.loss = total.loss / n;
    if (model.shape().task == Task::binary) {
      result.accuracy = static_cast<double>(total.correct) / n;
      result.auc = area_under_curve(scores, truth);
      return result;
    }
    const auto labelled = static_cast<double>(total.rows_with_labels);
    const auto precision = [&](std::size_t at, std::size_t k) -> std::optional<double> {
      if (labelled == 0 || model.outputs() < k) return std::nullopt;
      return total.precision[at] / labelled;
    };
    result.p1 = precision(0, 1);
    result.p3 = precision(1, 3);
    result.p5 = precision(2, 5);
    if (model.shape().task == Task::multiclass) {
      result.accuracy = static_cast<double>(total.correct) / n;
    }
    return result;
  }

  const Model& model;
  DatasetPtr test;
  std::vector<Index> rows;
  std::size_t chunk_rows = 0;
  tbb::task_arena arena;
  tbb::enumerable_thread_specific<Lane> lanes;
  std::vector<float> scores;  // binary only
  std::vector<std::uint8_t> truth;
};

Evaluator::Evaluator(const Model& model, DatasetPtr test, std::uint64_t rows, int threads)
    : impl_(std::make_unique<Impl>(model, std::move(test), rows, threads)) {}
Evaluator::~Evaluator() = default;

std::uint64_t Evaluator::rows() const { return impl_->rows.size(); }

Metrics Evaluator::measure(std::span<const float> parameters) {
  HETSGD_CHECK_EQ(parameters.size(), impl_->model.parameters());
  const std::size_t chunks = (impl_->rows.size() + impl_->chunk_rows - 1) / impl_->chunk_rows;
  std::vector<ChunkSums> sums(chunks);
  impl_->arena.execute([&] {
    tbb::parallel_for(std::size_t{0}, chunks,
                      [&](std::size_t c) { sums[c] = impl_->measure_chunk(c, parameters.data()); });
  });
  ChunkSums total;
  for (const ChunkSums& part : sums) {
    total.loss += part.loss;
    for (std::size_t i = 0; i < 3; ++i) total.precision[i] += part.precision[i];
    total.rows_with_labels += part.rows_with_labels;
    total.correct += part.correct;
  }
  return impl_->metrics(total);
}

}  // namespace hetsgd
