// The kernels of the fused softmax layer, called directly: against its definition, and against the
// same algorithm on the host.
#include <cuda_runtime_api.h>

#include <cstring>

#include "linalg/cuda/check.hpp"
#include "linalg/cuda/fused_softmax.hpp"
#include "linalg/devices.hpp"
#include "linalg/fused_reference.hpp"

namespace hetsgd::test {
namespace {

using namespace cuda;

// An array in device memory between two zones that nobody may write. What it is not filled with is
// NaN.
template <class T>
class Guarded {
 public:
  Guarded(cudaStream_t stream, std::size_t count) : stream_(stream), count_(count) {
    HETSGD_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes() + 2 * kZone));
    HETSGD_CUDA(cudaMemsetAsync(memory_, 0xFF, bytes() + 2 * kZone, stream_));
  }
  Guarded(cudaStream_t stream, const std::vector<T>& values) : Guarded(stream, values.size()) {
    HETSGD_CUDA(cudaMemcpyAsync(data(), values.data(), bytes(), cudaMemcpyHostToDevice, stream_));
  }
  ~Guarded() { cudaFree(memory_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() { return reinterpret_cast<T*>(memory_ + kZone); }
  std::vector<T> get() {
    std::vector<unsigned char> all(bytes() + 2 * kZone);
    HETSGD_CUDA(cudaMemcpyAsync(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost, stream_));
    HETSGD_CUDA(cudaStreamSynchronize(stream_));
    const auto untouched = [](unsigned char byte) { return byte == 0xFF; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kZone, untouched)) << "written before";
    EXPECT_TRUE(std::all_of(all.end() - kZone, all.end(), untouched)) << "written behind";
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), all.data() + kZone, bytes());
    return values;
  }

 private:
  static constexpr std::ptrdiff_t kZone = 4096;
  std::size_t bytes() const { return count_ * sizeof(T); }

  cudaStream_t stream_;
  std::size_t count_;
  unsigned char* memory_ = nullptr;
};

class FusedRun {
 public:
  FusedRun() { HETSGD_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~FusedRun() { cudaStreamDestroy(stream_); }
  FusedRun(const FusedRun&) = delete;
  FusedRun& operator=(const FusedRun&) = delete;

  FusedResult operator()(const FusedProblem& p, const FusedPlan& plan, bool precise,
                         bool in_place) const {
    std::vector<std::uint32_t> columns;
    std::vector<Entry> entries;
    by_label(p, columns, entries);
    Guarded<std::uint64_t> begin(stream_, p.begin);
    Guarded<std::uint32_t> index(stream_, p.labels), by(stream_, columns);
    Guarded<Entry> entry(stream_, entries);
    Guarded<float> A(stream_, p.A), W(stream_, p.W), b(stream_, p.b), G(stream_, p.G),
        g(stream_, p.g), dA(stream_, p.A.size());
    if (p.beta == 0 && !in_place) {  // not read
      HETSGD_CUDA(cudaMemsetAsync(G.data(), 0xFF, p.G.size() * sizeof(float), stream_));
      HETSGD_CUDA(cudaMemsetAsync(g.data(), 0xFF, p.g.size() * sizeof(float), stream_));
    }
    const std::size_t parts = plan.ranges * plan.padded_rows;
    const std::size_t tile_bytes = plan.padded_rows * kFusedInputs * 2;
    Guarded<unsigned char> groups(stream_, tile_bytes), chunks(stream_, tile_bytes);
    Guarded<float> log_sum(stream_, plan.padded_rows), facts(stream_, 2), max(stream_, parts),
        sum(stream_, parts), product(stream_, parts * kFusedInputs),
        logits(stream_, p.labels.size());
    Guarded<std::uint32_t> own(stream_, ceil_divide(p.outputs, kUpdateLabels) + 1);
    Guarded<double> loss(stream_, p.rows);
    const FusedScratch scratch{.ranges = plan.ranges,
                               .groups = groups.data(),
                               .chunks = chunks.data(),
                               .log_sum = log_sum.data(),
                               .facts = facts.data(),
                               .part_max = max.data(),
                               .part_sum = sum.data(),
                               .part_product = product.data(),
                               .true_logit = logits.data(),
                               .own_begin = own.data(),
                               .loss = loss.data()};
    const SparseRows<float> labels{p.rows, p.outputs, nullptr, begin.data(), index.data(), nullptr};
    const ByColumn by_column{columns.size(), by.data(), entry.data()};
    const SoftmaxLayer<float> layer{.inputs = kFusedInputs,
                                    .outputs = p.outputs,
                                    .input = A.data(),
                                    .weight = W.data(),
                                    .bias = b.data(),
                                    .scale = p.scale,
                                    .alpha = p.alpha,
                                    .beta = p.beta,
                                    .weight_gradient = in_place ? W.data() : G.data(),
                                    .bias_gradient = in_place ? b.data() : g.data(),
                                    .input_gradient = dA.data()};
    fused_scores(stream_, precise, labels, by_column, layer, plan, scratch);
    fused_update(stream_, precise, labels, by_column, layer, plan, scratch);
    FusedResult result{loss.get(), widen(dA.get()), widen((in_place ? W : G).get()),
                       widen((in_place ? b : g).get())};
    for (auto* const each : {&A, &log_sum, &facts, &max, &sum, &product, &logits}) each->get();
    for (auto* const each : {&groups, &chunks}) each->get();
    own.get();
    return result;
  }

 private:
  static void by_label(const FusedProblem& p, std::vector<std::uint32_t>& columns,
                       std::vector<Entry>& entries) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t row = 0; row < p.rows; ++row) {
      for (std::uint64_t k = p.begin[row]; k < p.begin[row + 1]; ++k) {
        pairs.emplace_back(p.labels[k], row);
      }
    }
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [label, row] : pairs) {
      columns.push_back(label);
      entries.push_back({row, 1});
    }
  }

  cudaStream_t stream_ = nullptr;
};

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}
std::vector<double> minus(std::vector<double> x, const std::vector<double>& y, double times = 1) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= times * y[i];
  return x;
}

// The largest error of the four results, each relative to the norm of what was computed. A hundred
// thousandth of what a difference p - T near 0 comes from is for FP32's rounding.
double error_of(const FusedProblem& p, const FusedResult& found, const FusedResult& expected) {
  struct Part {
    const char* name;
    double error, size, floor;
  };
  const double D = double(p.scale) * 1e-5, a = norm(widen(p.A)), w = norm(widen(p.W));
  const Part parts[] = {
      {"loss", norm(minus(found.loss, expected.loss)), norm(expected.loss), 1e-5},
      {"dA", norm(minus(found.dA, expected.dA)), norm(expected.dA),
       D * w / std::sqrt(double(p.outputs))},
      {"G", norm(minus(found.G, expected.G)), norm(minus(expected.G, widen(p.G), double(p.beta))),
       D * a + 1e-7 * double(p.beta) * norm(widen(p.G))},
      {"g", norm(minus(found.g, expected.g)), norm(minus(expected.g, widen(p.g), double(p.beta))),
       D * std::sqrt(double(p.rows)) + 1e-7 * double(p.beta) * norm(widen(p.g))}};
  double worst = 0;
  for (const Part& part : parts) {
    EXPECT_TRUE(std::isfinite(part.error)) << part.name;
    const double error = std::max(0.0, part.error - part.floor);
    worst = std::max(worst, error > 0 ? error / part.size : 0);
  }
  return worst;
}

// The bounds against the definition are twice the worst errors of hardware, and those against the
// algorithm a tenth of them: its factors round alike, but for numbers near a tie, because FP32's
// sums differ.
void check_case(const FusedCase& c, bool precise, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message()
               << (precise ? "FP16 " : "BF16 ") << c.rows << " x " << c.outputs << ", labels "
               << int(c.labels) << ", beta " << c.beta << (c.in_place ? ", in place" : "")
               << ", on " << c.multiprocessors);
  const FusedProblem p(c, seed);
  const FusedPlan plan = plan_fused(c.rows, c.outputs, c.multiprocessors);
  const FusedRun run;
  const FusedResult found = run(p, plan, precise, c.in_place);
  for (std::size_t row = 0; row < c.rows; ++row) {
    if (p.labels_of(row) == 0) {
      EXPECT_EQ(found.loss[row], 0);
    }
  }
  const FusedReference algorithm(p, plan, precise ? kFp16 : kBf16);
  EXPECT_LE(error_of(p, found, fused_by_definition(p)), precise ? 1.5e-3 : 1e-2);
  EXPECT_LE(error_of(p, found, algorithm.result()), precise ? 1.5e-4 : 1e-3);
}

TEST(CudaFusedSoftmax, TakesRaggedSizes) {
  constexpr std::size_t kRows[] = {1, 63, 64, 65, 256, 257, 300};
  constexpr std::size_t kOutputs[] = {1, 63, 95, 96, 97, 200, 700};
  constexpr float kBetas[] = {0, 0.5F, 1};
  constexpr std::size_t kMultiprocessors[] = {4, 1, 7, 132};
  std::uint64_t n = 0;
  for (const std::size_t rows : kRows) {
    for (const std::size_t outputs : kOutputs) {
      const FusedCase c{.rows = rows,
                        .outputs = outputs,
                        .beta = kBetas[n % 3],
                        .in_place = n / 3 % 2 == 1,
                        .multiprocessors = kMultiprocessors[n / 2 % 4]};
      check_case(c, n % 2 == 0, n);
      ++n;
    }
  }
}

// Every block goes through its buffers more than once.
TEST(CudaFusedSoftmax, TakesManyTiles) {
  for (const std::size_t rows : {64, 300}) {
    check_case({.rows = rows, .outputs = 2600, .beta = 1, .in_place = true}, true, rows);
  }
}

TEST(CudaFusedSoftmax, TakesAllKindsOfLabels) {
  for (const Labels labels : {Labels::none, Labels::many, Labels::shared}) {
    for (const std::size_t rows : {70, 300}) {
      check_case({.rows = rows, .outputs = 250, .labels = labels, .beta = 1}, true, rows);
      check_case({.rows = rows, .outputs = 250, .labels = labels, .in_place = true}, false, rows);
    }
  }
}

TEST(CudaFusedSoftmax, TakesNumbersOfAllSizes) {
  for (const bool precise : {true, false}) {
    check_case({.rows = 100, .outputs = 300, .bias = 30}, precise, 1);
    check_case({.rows = 100, .outputs = 300, .input = 0}, precise, 2);
    check_case({.rows = 100, .outputs = 300, .input = 1e-6, .weight = 100}, precise, 3);
    check_case({.rows = 100, .outputs = 300, .input = 1e3, .weight = 1e-3}, precise, 4);
    check_case({.rows = 100, .outputs = 300, .weight = 6}, precise, 5);  // scores up to 60
  }
}

TEST(CudaFusedSoftmax, RepeatsToTheBit) {
  for (const FusedCase& c :
       {FusedCase{.rows = 70, .outputs = 700}, {.rows = 300, .outputs = 400, .in_place = true}}) {
    const FusedProblem p(c, 1);
    const FusedPlan plan = plan_fused(c.rows, c.outputs, c.multiprocessors);
    for (const bool precise : {true, false}) {
      const auto run = [&]() -> Results {
        const FusedResult found = FusedRun()(p, plan, precise, c.in_place);
        return {found.loss, found.dA, found.G, found.g};
      };
      EXPECT_TRUE(same_bits(run(), run()));
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
