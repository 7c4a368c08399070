#include "training/evaluation.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/error.hpp"
#include "data/load.hpp"
#include "data/parallel.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

namespace {

// Limits of a chunk. `rows` suffices for matrix products at full speed, so that reading the weights
// once per chunk costs little. `scores` bounds the scores of a linear model, which are all in
// memory for a chunk.
struct ChunkLimits {
  std::size_t rows, scores;
};
constexpr ChunkLimits kHostLimits = {512, std::size_t{1} << 21};  // 8 MB
constexpr ChunkLimits kGpuLimits = {1024, std::size_t{1} << 26};  // 256 MB
constexpr std::uint64_t kStatisticsBatch = 128;                   // rows
constexpr const char* kHost = "cpu";

// The terms that one chunk adds to the sums of each metric.
using ChunkSums = std::vector<MetricSums>;

// The rows that are measured in one pass.
struct Chunk {
  std::size_t number = 0, begin = 0, end = 0;
};
struct Chunks {
  std::size_t rows = 0, each = 1;
  std::size_t count() const { return (rows + each - 1) / each; }
  Chunk at(std::size_t c) const { return {c, c * each, std::min(rows, (c + 1) * each)}; }
};

// A host thread, or the GPU, that measures one chunk at a time.
struct EvaluationThread {
  EvaluationThread(const Model& model, Device& its_device, const std::function<void()>& check)
      : device(its_device), context(model.make_context(device)) {
    context->check = check;
  }
  Device& device;
  std::unique_ptr<ModelContext> context;
  Buffer logits;
  Embedded embedded;  // rows of tables that are not part of the model
  std::vector<std::uint32_t> top;
  std::array<Batch, 2> batch;  // by chunk number: this one and, on the GPU, the next
};

struct HostThread {
  HostThread(const Model& model, const std::function<void()>& check)
      : device(make_cpu_device<float>(1)), thread(model, *device, check) {}
  std::unique_ptr<Device> device;
  EvaluationThread thread;
};

}  // namespace

struct Evaluator::Impl {
  Impl(const Model& m, DatasetPtr data, EvaluatorOptions o)
      : model(m),
        test(std::move(data)),
        options(std::move(o)),
        wanted(metrics_of(model.data())),
        threads(options.threads > 0 ? options.threads : thread_count(std::nullopt)) {
    const std::uint64_t n = test->rows();
    const std::uint64_t used = options.rows == 0 ? n : std::min(options.rows, n);
    for (std::uint64_t i = 0; i < used; ++i) rows.push_back(static_cast<Index>(i * n / used));
    // Without those rows statistics are a chunk's, and a GPU's chunks are larger.
    if (model.statistics().numbers > 0 && !options.statistics_of) options.gpu = -1;
    if (options.gpu >= 0) device_name = cuda_device_name(options.gpu);
    for (const Metric* metric : wanted) {
      k = std::max(k, metric->best_labels());
      if (metric->needs_score()) scores.resize(rows.size());
    }
    HETSGD_CHECK(scores.empty() || (k == 0 && model.outputs() == 1));
    truth.resize(scores.size());
  }

  const Batch& fill(EvaluationThread& thread, const Chunk& chunk) const {
    Batch& batch = thread.batch[chunk.number % 2];
    batch.reset(*test).assign(rows.begin() + static_cast<std::ptrdiff_t>(chunk.begin),
                              rows.begin() + static_cast<std::ptrdiff_t>(chunk.end));
    return batch;
  }

  // The batches of which statistics are estimated, each with room for its own.
  std::vector<std::vector<float>> room_for_statistics() const {
    const auto [count, samples] = model.statistics();
    if (count == 0 || !options.statistics_of) return {};
    const std::uint64_t used = std::min<std::uint64_t>(samples, options.statistics_of->rows());
    return {(used + kStatisticsBatch - 1) / kStatisticsBatch, std::vector<float>(count)};
  }

  // Writes the statistics of one of `batches` into memory of the thread's device.
  void estimate(EvaluationThread& thread, std::size_t number, std::size_t batches, const float* w,
                float* to) const {
    if (options.check) options.check();
    const Dataset& data = *options.statistics_of;
    const std::uint64_t used = std::min<std::uint64_t>(model.statistics().samples, data.rows());
    Batch batch;
    std::vector<Index>& chosen = batch.reset(data);
    for (std::uint64_t i = number; i < used; i += batches) {
      chosen.push_back(static_cast<Index>(i * data.rows() / used));
    }
    model.estimate_statistics(*thread.context, batch, w, to);
    thread.device.synchronize();  // which may still read the batch
  }

  // statistics <- the mean over batches, added in order.
  void set_statistics(const std::vector<std::vector<float>>& each) {
    statistics.clear();
    if (each.empty()) return;
    for (std::size_t i = 0; i < each.front().size(); ++i) {
      double sum = 0;
      for (const std::vector<float>& one : each) sum += static_cast<double>(one[i]);
      statistics.push_back(static_cast<float>(sum / static_cast<double>(each.size())));
    }
  }

  double score(EvaluationThread& thread, const Batch& batch, const float* w) const {
    float* const logits = thread.logits.data();
    if (!table_rows) return model.scores(*thread.context, batch, w, logits);
    read_embedded(*table_rows, batch, thread.device, thread.embedded);
    return model.scores(*thread.context, batch, thread.embedded, w, logits);
  }

  ChunkSums measure_chunk(EvaluationThread& thread, const Chunk& chunk, const float* w) {
    if (options.check) options.check();
    const Batch& batch = fill(thread, chunk);
    const std::vector<std::uint32_t> targets = model.targets(batch);
    ScoredRows scored{.k = k, .target = targets};
    double loss = 0;
    if (scores.empty()) {
      thread.top.resize(model.losses(batch) * k);
      loss = model.rank(*thread.context, batch, w, k, thread.top.data());
      scored.top = thread.top;
    } else {
      thread.logits.reset(thread.device, batch.size());
      loss = score(thread, batch, w);
      float* const score = scores.data() + chunk.begin;
      thread.device.download(score, thread.logits.data(), batch.size() * sizeof(float));
      for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
        truth[i] = test->labels(rows[i]).empty() ? 0 : 1;
      }
      scored.score = {score, batch.size()};
      scored.truth = {truth.data() + chunk.begin, batch.size()};
    }
    ChunkSums sums(wanted.size());
    for (std::size_t m = 0; m < wanted.size(); ++m) wanted[m]->add(batch, scored, loss, sums[m]);
    return sums;
  }

  Chunks chunks_within(const ChunkLimits& limits) const {
    return {rows.size(),
            model.ranks_in_memory()
                ? std::clamp<std::size_t>(limits.scores / model.outputs(), 1, limits.rows)
                : limits.rows};
  }

  std::vector<ChunkSums> measure_on_host(const float* w) {
    std::vector<std::vector<float>> each = room_for_statistics();
    const Chunks chunks = chunks_within(kHostLimits);
    std::vector<ChunkSums> sums(chunks.count());
    on_threads(each.size(), [&](EvaluationThread& thread, std::size_t b) {
      estimate(thread, b, each.size(), w, each[b].data());
    });
    set_statistics(each);
    on_threads(sums.size(), [&](EvaluationThread& thread, std::size_t c) {
      thread.context->statistics = statistics;
      sums[c] = measure_chunk(thread, chunks.at(c), w);
    });
    return sums;
  }

  // Calls task(thread, i) for every i below `count`. A thread's memory waits in `idle` for the next
  // measurement.
  template <class Task>
  void on_threads(std::size_t count, const Task& task) {
    parallel_tasks(threads, count, [&](std::size_t i) {
      std::unique_ptr<HostThread> own = take_idle();
      if (!own) own = std::make_unique<HostThread>(model, options.check);
      task(own->thread, i);
      const std::lock_guard lock(idle_mutex);
      idle.push_back(std::move(own));
    });
  }
  std::unique_ptr<HostThread> take_idle() {
    const std::lock_guard lock(idle_mutex);
    if (idle.empty()) return nullptr;
    std::unique_ptr<HostThread> last = std::move(idle.back());
    idle.pop_back();
    return last;
  }

  std::vector<ChunkSums> measure_on_gpu(std::span<const float> parameters) {
    if (!gpu) gpu = make_cuda_device<float>(options.gpu);
    Buffer w(*gpu, parameters.size());
    gpu->upload(w.data(), parameters.data(), parameters.size_bytes());
    EvaluationThread thread(model, *gpu, options.check);
    std::vector<std::vector<float>> each = room_for_statistics();
    Buffer on_gpu(*gpu, each.empty() ? 0 : each.front().size());
    for (std::size_t b = 0; b < each.size(); ++b) {
      estimate(thread, b, each.size(), w.data(), on_gpu.data());
      gpu->download(each[b].data(), on_gpu.data(), each[b].size() * sizeof(float));
    }
    set_statistics(each);
    gpu->upload(on_gpu.data(), statistics.data(), statistics.size() * sizeof(float));
    thread.context->statistics = {on_gpu.data(), on_gpu.size()};
    const Chunks chunks = chunks_within(kGpuLimits);
    std::vector<ChunkSums> sums(chunks.count());
    for (std::size_t c = 0; c < sums.size(); ++c) {
      thread.context->upcoming = [&, next = c + 1]() -> const Batch* {
        return next < sums.size() ? &fill(thread, chunks.at(next)) : nullptr;
      };
      sums[c] = measure_chunk(thread, chunks.at(c), w.data());
    }
    return sums;
  }

  std::vector<ChunkSums> measure(std::span<const float> parameters) {
    if (options.gpu < 0 || table_rows) return measure_on_host(parameters.data());
    try {
      return measure_on_gpu(parameters);
    } catch (const MemoryError& error) {
      if (options.warn) options.warn(fmt::format("evaluated on the host: {}", error.what()));
    }
    gpu.reset();
    options.gpu = -1;
    device_name = kHost;
    return measure_on_host(parameters.data());
  }

  std::vector<MetricValue> values(const ChunkSums& total) const {
    std::vector<MetricValue> result;
    const auto n = static_cast<double>(rows.size());
    for (std::size_t m = 0; m < wanted.size(); ++m) {
      const auto value = wanted[m]->value(total[m], n, {.score = scores, .truth = truth});
      if (value) result.push_back({wanted[m], *value});
    }
    return result;
  }

  const Model& model;
  DatasetPtr test;
  EvaluatorOptions options;
  std::string device_name = kHost;
  std::vector<Index> rows;
  const RowSource* table_rows = nullptr;  // of the current measurement
  const std::vector<const Metric*> wanted;
  std::size_t k = 0;  // number of top labels that the metrics need
  const int threads;
  std::mutex idle_mutex;
  std::vector<std::unique_ptr<HostThread>> idle;
  std::unique_ptr<Device> gpu;  // made for the first measurement
  std::vector<float> scores;    // of all rows, if some metric needs them
  std::vector<std::uint8_t> truth;
  std::vector<float> statistics;  // of the current model, if it needs any
};

std::string first_metric_of(const Dataset& data) {
  return metrics_of(DataShape::of(data)).front()->key();
}

void check_measured(const std::string& name, const DataShape& data, const Dataset& test,
                    const std::string& place, const std::string& text) {
  if (name == kTrainLoss) return;
  std::vector<std::string> names;
  for (const Metric* metric : metrics_of(data)) {
    names.push_back(metric->key());
    if (names.back() != name) continue;
    if (const std::string why = metric->why_not(test.totals()); !why.empty()) {
      throw usage_error("{}: found {}, but {}", place, text, why);
    }
    return;
  }
  names.emplace_back(kTrainLoss);
  const bool labelled = data.task == Task::multilabel || data.task == Task::multiclass;
  refuse(place,
         fmt::format("{}, but {} is not measured on {} data{}", text, name,
                     data.masked_tokens ? "masked" : to_string(data.task),
                     labelled ? fmt::format(" with {} labels", data.label_count) : ""),
         fmt::format("one of {}", fmt::join(names, ", ")),
         fmt::format("{} says most about these data", names.front()));
}

Evaluator::Evaluator(const Model& model, DatasetPtr test, EvaluatorOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(test), std::move(options))) {}
Evaluator::~Evaluator() = default;

std::uint64_t Evaluator::rows() const { return impl_->rows.size(); }
const std::string& Evaluator::device() const { return impl_->device_name; }

std::vector<Index> Evaluator::categories() const {
  const auto& fields = impl_->test->fields;
  std::vector<bool> occurs(fields.first.empty() ? 0 : fields.first.back());
  for (const Index row : impl_->rows) {
    for (const Index category : fields.row(row)) occurs[category] = true;
  }
  std::vector<Index> all;
  for (std::size_t category = 0; category < occurs.size(); ++category) {
    if (occurs[category]) all.push_back(static_cast<Index>(category));
  }
  return all;
}

std::vector<MetricValue> Evaluator::measure(std::span<const float> parameters,
                                            const RowSource* rows) {
  HETSGD_CHECK_EQ(parameters.size(), impl_->model.parameters());
  impl_->table_rows = rows;
  const std::vector<ChunkSums> sums = impl_->measure(parameters);
  ChunkSums total(impl_->wanted.size());
  for (const ChunkSums& part : sums) {
    for (std::size_t m = 0; m < total.size(); ++m) {
      for (std::size_t i = 0; i < total[m].size(); ++i) total[m][i] += part[m][i];
    }
  }
  return impl_->values(total);
}

}  // namespace hetsgd
