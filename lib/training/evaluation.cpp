#include "training/evaluation.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.hpp"
#include "data/load.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kTop = 5;
// Rows of a chunk, enough for products at full speed, so that reading the weights once per chunk
// costs little; and how many scores of a linear model, which are all in memory for a chunk, at most.
struct ChunkLimits {
  std::size_t rows, scores;
};
constexpr ChunkLimits kHostLimits = {512, std::size_t{1} << 21};  // 8 MB
constexpr ChunkLimits kGpuLimits = {1024, std::size_t{1} << 26};  // 256 MB
constexpr const char* kHost = "cpu";

struct ChunkSums {
  double loss = 0;
  std::array<double, 3> precision{};  // sums of P@1, P@3, P@5
  std::uint64_t rows_with_labels = 0;
  std::uint64_t correct = 0;
};

// Rows that are measured at a time.
struct Chunk {
  std::size_t number = 0, begin = 0, end = 0;
};
struct Chunks {
  std::size_t rows = 0, each = 1;
  std::size_t count() const { return (rows + each - 1) / each; }
  Chunk at(std::size_t c) const { return {c, c * each, std::min(rows, (c + 1) * each)}; }
};

// What measures one chunk at a time: a host thread, or the GPU.
struct Lane {
  Lane(const Model& model, Device& its_device)
      : device(its_device), context(model.make_context(device)) {}
  Device& device;
  std::unique_ptr<ModelContext> context;
  Buffer logits;              // binary only
  std::vector<float> scores;  // binary only: the logits on the host
  std::vector<std::uint32_t> top;
  std::array<Batch, 2> batch;  // by chunk number: this one and, on the GPU, the next
};

struct HostLane {
  explicit HostLane(const Model& model) : device(make_cpu_device<float>(1)), lane(model, *device) {}
  std::unique_ptr<Device> device;
  Lane lane;
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
  Impl(const Model& m, DatasetPtr data, EvaluatorOptions o)
      : model(m),
        test(std::move(data)),
        options(std::move(o)),
        arena(options.threads > 0 ? options.threads : tbb::task_arena::automatic),
        lanes([this] { return HostLane(model); }) {
    const std::uint64_t n = test->rows();
    const std::uint64_t used = options.rows == 0 ? n : std::min(options.rows, n);
    for (std::uint64_t i = 0; i < used; ++i) rows.push_back(static_cast<Index>(i * n / used));
    if (options.gpu >= 0) device_name = cuda_device_name(options.gpu);
    if (binary()) {
      scores.resize(rows.size());
      truth.resize(rows.size());
    }
  }

  bool binary() const { return model.shape().task == Task::binary; }

  const Batch& fill(Lane& lane, const Chunk& chunk) const {
    Batch& batch = lane.batch[chunk.number % 2];
    batch.reset(*test).assign(rows.begin() + static_cast<std::ptrdiff_t>(chunk.begin),
                              rows.begin() + static_cast<std::ptrdiff_t>(chunk.end));
    return batch;
  }

  ChunkSums measure_chunk(Lane& lane, const Chunk& chunk, const float* w) {
    const Batch& batch = fill(lane, chunk);
    ChunkSums sums;
    if (!binary()) {
      const std::size_t k = std::min(kTop, model.outputs());
      lane.top.resize(batch.size() * k);
      sums.loss = model.rank(*lane.context, batch, w, k, lane.top.data());
      count_hits(batch, lane.top, k, sums);
      return sums;
    }
    lane.logits.reset(lane.device, batch.size());
    lane.scores.resize(batch.size());
    sums.loss = model.scores(*lane.context, batch, w, lane.logits.data());
    lane.device.download(lane.scores.data(), lane.logits.data(), batch.size() * sizeof(float));
    for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
      scores[i] = lane.scores[i - chunk.begin];
      truth[i] = test->labels(rows[i]).empty() ? 0 : 1;
      sums.correct += (scores[i] > 0) == (truth[i] == 1) ? 1 : 0;
    }
    return sums;
  }

  Chunks chunks_within(const ChunkLimits& limits) const {
    const bool linear = model.shape().hidden.empty();
    return {rows.size(),
            linear ? std::clamp<std::size_t>(limits.scores / model.outputs(), 1, limits.rows)
                   : limits.rows};
  }

  std::vector<ChunkSums> measure_on_host(const float* w) {
    const Chunks chunks = chunks_within(kHostLimits);
    std::vector<ChunkSums> sums(chunks.count());
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, sums.size(), [&](std::size_t c) {
        sums[c] = measure_chunk(lanes.local().lane, chunks.at(c), w);
      });
    });
    return sums;
  }

  std::vector<ChunkSums> measure_on_gpu(std::span<const float> parameters) {
    if (!gpu) gpu = make_cuda_device<float>(options.gpu);
    Buffer w(*gpu, parameters.size());
    gpu->upload(w.data(), parameters.data(), parameters.size_bytes());
    Lane lane(model, *gpu);
    const Chunks chunks = chunks_within(kGpuLimits);
    std::vector<ChunkSums> sums(chunks.count());
    for (std::size_t c = 0; c < sums.size(); ++c) {
      lane.context->upcoming = [&, next = c + 1]() -> const Batch* {
        return next < sums.size() ? &fill(lane, chunks.at(next)) : nullptr;
      };
      sums[c] = measure_chunk(lane, chunks.at(c), w.data());
    }
    return sums;
  }

  std::vector<ChunkSums> measure(std::span<const float> parameters) {
    if (options.gpu < 0) return measure_on_host(parameters.data());
    try {
      return measure_on_gpu(parameters);
    } catch (const MemoryError& error) {
      if (options.warn) options.warn(fmt::format("measured on the host: {}", error.what()));
    }
    gpu.reset();
    options.gpu = -1;
    device_name = kHost;
    return measure_on_host(parameters.data());
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
  EvaluatorOptions options;
  std::string device_name = kHost;
  std::vector<Index> rows;
  tbb::task_arena arena;
  tbb::enumerable_thread_specific<HostLane> lanes;
  std::unique_ptr<Device> gpu;  // made for the first measurement
  std::vector<float> scores;    // binary only
  std::vector<std::uint8_t> truth;
};

std::vector<std::string> metrics_of(Task task, std::uint64_t labels) {
  std::vector<std::string> names;
  if (task != Task::binary) {
    names.emplace_back("p1");
    if (labels >= 3) names.emplace_back("p3");
    if (labels >= 5) names.emplace_back("p5");
  }
  if (task != Task::multilabel) names.emplace_back("accuracy");
  if (task == Task::binary) names.emplace_back("auc");
  names.insert(names.end(), {"test_loss", "train_loss"});
  return names;
}

void check_measured(const std::string& metric, const Dataset& train, const Dataset& test,
                    const std::string& place, const std::string& text) {
  const std::uint64_t labels = std::max(train.label_count, test.label_count);
  const std::vector<std::string> names = metrics_of(train.task, labels);
  if (std::find(names.begin(), names.end(), metric) == names.end()) {
    const bool binary = train.task == Task::binary;
    throw with_hint(
        usage_error("{}: found {}, but {} is not measured on {} data{}, expected one of {}", place,
                    text, metric, to_string(train.task),
                    binary ? "" : fmt::format(" with {} labels", labels), fmt::join(names, ", ")),
        fmt::format("the metric that says most about these data is {}", names.front()));
  }
  const DatasetTotals rows = test.totals();
  if (metric == "auc" && (rows.labels == 0 || rows.labels == rows.rows)) {
    throw usage_error("{}: found {}, but all test rows are of one class, expected both for auc",
                      place, text);
  }
  if (metric.starts_with("p") && rows.labels == 0) {
    throw usage_error("{}: found {}, but no test row has a label, expected some for {}", place,
                      text, metric);
  }
}

Evaluator::Evaluator(const Model& model, DatasetPtr test, EvaluatorOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(test), std::move(options))) {}
Evaluator::~Evaluator() = default;

std::uint64_t Evaluator::rows() const { return impl_->rows.size(); }
const std::string& Evaluator::device() const { return impl_->device_name; }

Metrics Evaluator::measure(std::span<const float> parameters) {
  HETSGD_CHECK_EQ(parameters.size(), impl_->model.parameters());
  const std::vector<ChunkSums> sums = impl_->measure(parameters);
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
