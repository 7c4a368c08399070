// A GPU's kernels and whole steps against the floors of operations and bytes, and its sparse
// products beside cuSPARSE. Needs a GPU; without one it says so and ends.
//
//   delicious/B   500 features, 983 labels, 18 nonzeros and 19 labels per row, batch B
//   amazon670k/B  135,909 features, 670,091 labels, 76 nonzeros and 5 labels per row, batch B
// with H = 128 hidden units; features log-uniform (Zipf-like), labels uniform. Takes half a minute.
//
// Counters: GB_per_s and GFLOP_per_s of the floor's bytes and operations; floor_ratio = the floor
// over the time taken (1 is the floor). The floor is the larger of bytes over the bandwidth of a
// copy inside the GPU and operations over the rate of a large square product of the same precision,
// both measured in this process; what stays in the L2 cache can beat the bandwidth. BF16's rate is
// that of a product of BF16 operands. Scoring (the loss and the 5 best labels of every row) also
// has product_share: the operations of its product over the time taken, over that rate.
//
// A step's floor has two plans, and is the lesser of their times. With n samples, L labels and H
// hidden units, a product has 2 n H L operations:
//   scores stored        three products, 6 n H L operations; the output weights read before the
//                        softmax is known, read again and written after it, 12 H L bytes; the
//                        scores written and read once, 8 n L bytes, with BF16 4 n L
//   scores never stored  they are computed twice, 8 n H L operations; 12 H L bytes
// The sparse layer adds 4 76 n H operations and at most 12 76 n H bytes to both. On an H200 as
// measured (51 TFLOP/s FP32, 405 TF32, about 790 BF16; 4.25 TB/s), Amazon-670k, ms:
//                 n = 256                        n = 1,024
//                 stored         never stored    stored       never stored
//   FP32          2.58           3.44            10.3         13.8
//   TF32          0.57 (bytes)   0.43            1.56 (bytes) 1.73
//   BF16          0.41 (bytes)   0.25 (bytes)    0.92 (bytes) 0.89
// TF32's 11 significant bits also fit into FP16, whose products run at BF16's rate, so kernels that
// scale what could leave FP16's range may beat TF32's floor.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusparse.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "linalg/attention_kernels.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/cuda/library.hpp"
#include "linalg/output_layer_kernels.hpp"
#include "linalg/sparse_kernels.hpp"
#include "model/mlp.hpp"
#include "support.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kHidden = 128;

struct Shape {
  const char* name;
  Index features, labels;
  std::size_t nonzeros, labels_per_row;
};
constexpr Shape kDelicious{"delicious", 500, 983, 18, 19};
constexpr Shape kAmazon{"amazon670k", 135'909, 670'091, 76, 5};

constexpr std::size_t kBatches = 4, kLargestBatch = 1024;

// Rows for kBatches batches of the largest size; a benchmark takes the first ones.
const Dataset& rows_of(const Shape& shape) {
  static std::map<std::string, DatasetPtr> made;
  DatasetPtr& data = made[shape.name];
  if (!data) {
    data = bench::synthetic({shape.features, shape.labels, shape.nonzeros, shape.labels_per_row,
                             kBatches * kLargestBatch});
  }
  return *data;
}

const std::vector<float>& initial_of(const Shape& shape, const Layout& layout) {
  static std::map<std::string, std::vector<float>> made;
  std::vector<float>& initial = made[shape.name];
  if (initial.empty()) initial = initial_parameters<float>(layout, 1);
  return initial;
}

// Random values like those of weights: tensor cores are faster on constants.
void fill_random(Device& device, Buffer& buffer) {
  static const std::vector<float> numbers = bench::random_floats(std::size_t{1} << 20);
  for (std::size_t at = 0; at < buffer.size(); at += numbers.size()) {
    const std::size_t count = std::min(numbers.size(), buffer.size() - at);
    device.upload(buffer.data() + at, numbers.data(), count * sizeof(float));
  }
}

// Seconds of `calls` calls on the GPU, in whatever streams, after all earlier work has ended.
template <class Call>
double seconds(int calls, Call&& call) {
  cudaDeviceSynchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  cudaDeviceSynchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double copied_bytes_per_s() {
  static const double rate = [] {
    const auto device = make_cuda_device<float>(0);
    const std::size_t n = std::size_t{1} << 28;
    Buffer x(*device, n), y(*device, n);
    fill_random(*device, x);
    const auto copy = [&] { device->copy(n, x.data(), y.data()); };
    copy();
    return 10 * 8.0 * static_cast<double>(n) / seconds(10, copy);
  }();
  return rate;
}

constexpr std::size_t kProduct = 8192;

template <class Product>
double product_rate(Product&& product) {
  product();
  return 10 * 2.0 * std::pow(static_cast<double>(kProduct), 3) / seconds(10, product);
}

// The rate of float operands, as the device multiplies them.
double float_operations_per_s(Precision precision) {
  const auto device = make_cuda_device<float>(0, {.precision = precision});
  const std::size_t n = kProduct;
  Buffer A(*device, n * n), B(*device, n * n), C(*device, n * n);
  fill_random(*device, A);
  fill_random(*device, B);
  return product_rate([&] {
    device->gemm(Transpose::no, Transpose::no, n, n, n, 1.0F, A.data(), n, B.data(), n, 0.0F,
                 C.data(), n);
  });
}

// The rate of BF16 operands and float sums. (For float operands cuBLAS takes TF32 whatever is asked
// for.)
double bf16_operations_per_s() {
  const cuda::SharedLibrary blas{
      "cuBLAS", {"libcublas.so." + std::to_string(CUBLAS_VER_MAJOR)}, "install the CUDA libraries"};
  decltype(&cublasCreate_v2) create = blas.function("cublasCreate_v2");
  decltype(&cublasDestroy_v2) destroy = blas.function("cublasDestroy_v2");
  decltype(&cublasGemmEx_64) multiply = blas.function("cublasGemmEx_64");
  const auto device = make_cuda_device<float>(0);
  constexpr auto n = static_cast<std::int64_t>(kProduct);
  Buffer A(*device, kProduct * kProduct / 2), C(*device, kProduct * kProduct);
  const std::vector<float> numbers = bench::random_floats(2 * A.size());
  std::vector<std::uint32_t> pairs(A.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = (std::bit_cast<std::uint32_t>(numbers[2 * i]) & 0xFFFF0000U) |
               std::bit_cast<std::uint32_t>(numbers[2 * i + 1]) >> 16;
  }
  device->upload(A.data(), pairs.data(), pairs.size() * sizeof(std::uint32_t));
  device->synchronize();
  const auto check = [](cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) throw device_error("cuBLAS: {}", static_cast<int>(status));
  };
  cublasHandle_t handle = nullptr;
  check(create(&handle));
  const float one = 1, zero = 0;
  const double rate = product_rate([&] {
    check(multiply(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, A.data(), CUDA_R_16BF, n,
                   A.data(), CUDA_R_16BF, n, &zero, C.data(), CUDA_R_32F, n, CUBLAS_COMPUTE_32F,
                   CUBLAS_GEMM_DEFAULT));
  });
  destroy(handle);
  return rate;
}

double product_operations_per_s(Precision precision) {
  static std::map<Precision, double> rates;
  double& rate = rates[precision];
  if (rate == 0) {
    rate =
        precision == Precision::bf16 ? bf16_operations_per_s() : float_operations_per_s(precision);
  }
  return rate;
}

// An iteration is a call on average, of as many as take kTimed.
constexpr int kIterations = 5;
constexpr double kTimed = 20e-3;

struct Work {
  double operations, bytes;

  double floor(Precision precision) const {
    return std::max(operations / product_operations_per_s(precision), bytes / copied_bytes_per_s());
  }
};

template <class Call>
void measure(benchmark::State& state, Precision precision, const Work& work, Call&& call) {
  seconds(3, call);
  const auto calls = static_cast<int>(std::clamp(kTimed / seconds(1, call), 3.0, 500.0));
  for (auto _ : state) state.SetIterationTime(seconds(calls, call) / calls);
  const double floor = work.floor(precision);
  const auto n = static_cast<double>(state.iterations());
  state.counters["GFLOP_per_s"] = {n * work.operations / 1e9, benchmark::Counter::kIsRate};
  state.counters["GB_per_s"] = {n * work.bytes / 1e9, benchmark::Counter::kIsRate};
  state.counters["floor_us"] = floor * 1e6;
  state.counters["floor_ratio"] = {n * floor, benchmark::Counter::kIsRate};
}

// --- sparse products -----------------------------------------------------------------------------

void check(cusparseStatus_t status) {
  if (status != CUSPARSE_STATUS_SUCCESS) throw device_error("{}", cusparseGetErrorString(status));
}

// The operands of a batch's sparse layer, for both sides.
struct SparseLayer {
  SparseLayer(const Shape& shape, std::size_t batch)
      : data(rows_of(shape)),
        device(make_cuda_device<float>(0)),
        rows{batch,
             data.feature_count,
             nullptr,
             data.sparse.begin.data(),
             data.sparse.index.data(),
             data.sparse.value.data()},
        W(*device, data.feature_count * kHidden),
        bias(*device, kHidden),
        Y(*device, batch * kHidden) {
    for (Buffer* const buffer : {&W, &bias, &Y}) fill_random(*device, *buffer);
  }
  std::size_t nonzeros() const { return data.sparse.begin[rows.rows]; }
  double distinct() const {
    std::vector<Index> columns(rows.index, rows.index + nonzeros());
    std::sort(columns.begin(), columns.end());
    return static_cast<double>(std::unique(columns.begin(), columns.end()) - columns.begin());
  }
  double batch_numbers() const { return static_cast<double>(Y.size()); }

  const Dataset& data;
  std::unique_ptr<Device> device;
  SparseRows<float> rows;
  Buffer W, bias, Y;
};

// The batch as cuSPARSE's operand. Its descriptors are made once here; a training step would have
// to make them anew.
class CusparseLayer {
 public:
  explicit CusparseLayer(SparseLayer& layer) : layer_(layer) {
    const SparseRows<float>& d = layer.rows;
    const std::size_t nonzeros = layer.nonzeros();
    const std::vector<int> begin(d.begin, d.begin + d.rows + 1);
    const std::vector<int> index(d.index, d.index + nonzeros);
    const std::vector<float> value(d.value, d.value + nonzeros);
    const auto rows = static_cast<std::int64_t>(d.rows),
               columns = static_cast<std::int64_t>(d.columns),
               n = static_cast<std::int64_t>(kHidden);
    check(cusparseCreate(&handle_));
    check(cusparseCreateCsr(&X_, rows, columns, static_cast<std::int64_t>(nonzeros), put(begin),
                            put(index), put(value), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                            CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    check(cusparseCreateDnMat(&W_, columns, n, n, layer.W.data(), CUDA_R_32F, CUSPARSE_ORDER_ROW));
    check(cusparseCreateDnMat(&Y_, rows, n, n, layer.Y.data(), CUDA_R_32F, CUSPARSE_ORDER_ROW));
  }
  ~CusparseLayer() {
    cudaDeviceSynchronize();
    for (void* const memory : memory_) layer_.device->release(memory);
    cusparseDestroySpMat(X_);
    cusparseDestroyDnMat(W_);
    cusparseDestroyDnMat(Y_);
    cusparseDestroy(handle_);
  }

  // Y = X W, or W += -1e-6 X^T Y, with a buffer that is there already from the second call on.
  void multiply(bool transposed) {
    const auto op = transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
    const auto algorithm = transposed ? CUSPARSE_SPMM_ALG_DEFAULT : CUSPARSE_SPMM_CSR_ALG2;
    const float alpha = transposed ? -1e-6F : 1.0F, beta = transposed ? 1.0F : 0.0F;
    const cusparseDnMatDescr_t from = transposed ? Y_ : W_, to = transposed ? W_ : Y_;
    if (buffer_ == nullptr) {
      std::size_t bytes = 0;
      check(cusparseSpMM_bufferSize(handle_, op, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, X_, from,
                                    &beta, to, CUDA_R_32F, algorithm, &bytes));
      buffer_ = memory_.emplace_back(layer_.device->allocate(bytes));
    }
    check(cusparseSpMM(handle_, op, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, X_, from, &beta, to,
                       CUDA_R_32F, algorithm, buffer_));
  }

 private:
  template <class T>
  void* put(const std::vector<T>& host) {
    void* const memory = memory_.emplace_back(layer_.device->allocate(host.size() * sizeof(T)));
    layer_.device->upload(memory, host.data(), host.size() * sizeof(T));
    layer_.device->synchronize();
    return memory;
  }

  SparseLayer& layer_;
  std::vector<void*> memory_;
  cusparseHandle_t handle_ = nullptr;
  cusparseSpMatDescr_t X_ = nullptr;
  cusparseDnMatDescr_t W_ = nullptr, Y_ = nullptr;
  void* buffer_ = nullptr;
};

// Z nonzeros in U columns: 8Z bytes of indices and values, U rows of W once, Y once. The update
// reads Y (in L2 from the second nonzero on) and reads and writes the U rows.
void sparse(benchmark::State& state, const Shape& shape, bool update, bool cusparse) {
  SparseLayer layer(shape, static_cast<std::size_t>(state.range(0)));
  Device& device = *layer.device;
  const double h = static_cast<double>(kHidden), z = static_cast<double>(layer.nonzeros());
  const double operations = 2 * z * h;
  const double bytes =
      8 * z + 4 * ((update ? 2 : 1) * layer.distinct() * h + layer.batch_numbers());
  if (cusparse) {
    CusparseLayer other(layer);
    measure(state, Precision::fp32, {operations, bytes}, [&] { other.multiply(update); });
    return;
  }
  const SparseRows<float> X = device.stage(layer.rows);
  SparseKernels& layer_0 = kernels<SparseKernels>(device);
  measure(state, Precision::fp32, {operations, bytes}, [&] {
    if (update) {
      layer_0.update(X, kHidden, -1e-6F, layer.Y.data(), layer.W.data());
    } else {
      layer_0.forward(X, kHidden, layer.W.data(), layer.bias.data(), true, layer.Y.data());
    }
  });
}

// --- scoring -------------------------------------------------------------------------------------

// A batch's hidden layer in, its loss and best labels out: all of an evaluation but the sparse
// layer.
void scoring(benchmark::State& state, const Shape& shape, Precision precision) {
  constexpr std::size_t kBest = 5;
  const auto size = static_cast<std::size_t>(state.range(0));
  const Dataset& data = rows_of(shape);
  const auto device = make_cuda_device<float>(0, {.precision = precision});
  Buffer A(*device, size * kHidden), W(*device, shape.labels * kHidden), b(*device, shape.labels),
      best(*device, size * kBest);
  for (Buffer* const buffer : {&A, &W, &b}) fill_random(*device, *buffer);
  const SparseRows<float> labels = device->stage({.rows = size,
                                                  .columns = data.label_count,
                                                  .begin = data.targets.begin.data(),
                                                  .index = data.targets.index.data()});
  const SoftmaxLayer<float> layer{.inputs = kHidden,
                                  .outputs = shape.labels,
                                  .input = A.data(),
                                  .weight = W.data(),
                                  .bias = b.data()};
  OutputLayerKernels& output = kernels<OutputLayerKernels>(*device);
  auto* const top = reinterpret_cast<std::uint32_t*>(best.data());
  const auto h = static_cast<double>(kHidden), n = static_cast<double>(size),
             l = static_cast<double>(shape.labels);
  const Work work{2 * n * h * l, 4 * (h * l + l + n * h)};
  double loss = 0;
  measure(state, precision, work, [&] { output.softmax_ranks(labels, layer, kBest, top); });
  loss = output.softmax_ranks(labels, layer, kBest, top);
  state.counters["product_share"] = {static_cast<double>(state.iterations()) * work.operations /
                                         product_operations_per_s(precision),
                                     benchmark::Counter::kIsRate};
  if (!std::isfinite(loss)) state.SkipWithError("the loss is not finite");
}

// --- attention -----------------------------------------------------------------------------------

// 12 heads of 64 numbers over 16,384 tokens in causal rows of 256 or 1,024. The backward pass's
// operations are those without the two products that it computes twice.
void attention(benchmark::State& state, bool backward) {
  constexpr std::size_t kTokens = 16'384, kHeads = 12, kWidth = 64 * kHeads;
  const auto steps = static_cast<std::uint32_t>(state.range(0));
  std::vector<std::uint32_t> begin, length(kTokens / steps, steps);
  for (std::uint32_t at = 0; at < kTokens; at += steps) begin.push_back(at);
  const TokenSpans rows{kTokens, begin.size(), begin.data(), length.data()};
  const AttentionShape shape{.heads = kHeads, .width = kWidth, .causal = true, .block = steps};
  const auto device = make_cuda_device<float>(0);
  Buffer X(*device, kTokens * 3 * kWidth), dX(*device, X.size()), Y(*device, kTokens * kWidth),
      dY(*device, Y.size()), sums(*device, kTokens * kHeads);
  for (Buffer* const buffer : {&X, &dY}) fill_random(*device, *buffer);
  auto& attention = kernels<BasicAttentionKernels<float>>(*device);
  const auto forward = [&] { attention.attention(shape, rows, X.data(), sums.data(), Y.data()); };
  forward();
  const auto n = static_cast<double>(kTokens), c = static_cast<double>(kWidth),
             seen = (static_cast<double>(steps) + 1) / 2;
  if (!backward) return measure(state, Precision::fp32, {4 * n * seen * c, 16 * n * c}, forward);
  measure(state, Precision::fp32, {10 * n * seen * c, 32 * n * c}, [&] {
    attention.attention_gradient(shape, rows, X.data(), sums.data(), Y.data(), dY.data(), 0,
                                 dX.data());
  });
}

// --- whole steps ---------------------------------------------------------------------------------

// As a worker takes them: batch after batch, the next one gathered while the GPU works.
void step(benchmark::State& state, const Shape& shape, Precision precision) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const Dataset& data = rows_of(shape);
  const auto device = make_cuda_device<float>(0, {.precision = precision});
  const auto model = make_mlp<float>({shape.features, shape.labels}, {.hidden = {kHidden}});
  const auto context = model->make_context(*device);
  Buffer w(*device, model->parameters());
  const std::vector<float>& initial = initial_of(shape, model->layout());
  device->upload(w.data(), initial.data(), initial.size() * sizeof(float));
  const std::vector<Batch> batches = bench::batches_of(data, size, kBatches);
  std::size_t next = 0;
  context->upcoming = [&] { return &batches[next]; };
  const auto h = static_cast<double>(kHidden), n = static_cast<double>(size),
             labels = static_cast<double>(shape.labels),
             z = n * static_cast<double>(shape.nonzeros);
  const Work sparse_layer{4 * z * h, 12 * z * h + 16 * z};
  const double score_bytes = precision == Precision::bf16 ? 2 : 4;
  const Work stored{6 * n * h * labels + sparse_layer.operations,
                    12 * h * labels + 2 * score_bytes * n * labels + sparse_layer.bytes};
  const Work never_stored{8 * n * h * labels + sparse_layer.operations,
                          12 * h * labels + sparse_layer.bytes};
  const bool stores = stored.floor(precision) < never_stored.floor(precision);
  double loss = 0;
  measure(state, precision, stores ? stored : never_stored, [&] {
    const Batch& batch = batches[next];
    next = (next + 1) % kBatches;
    loss = model->step(*context, batch, 0.1F, w.data());
    device->synchronize();  // as the clock of a worker does
  });
  if (!std::isfinite(loss)) state.SkipWithError("the loss is not finite");
}

void add_all() {
  const auto add = [](const std::string& name, auto&& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->Arg(256)
        ->Arg(kLargestBatch)
        ->Iterations(kIterations)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (const bool backward : {false, true}) {
    add(fmt::format("attention/{}", backward ? "backward" : "forward"),
        [=](benchmark::State& state) { attention(state, backward); });
  }
  for (const Shape& shape : {kDelicious, kAmazon}) {
    for (const bool update : {false, true}) {
      for (const bool cusparse : {false, true}) {
        add(fmt::format("{}/{}/{}", update ? "sparse_update" : "sparse_forward",
                        cusparse ? "cusparse" : "own", shape.name),
            [=](benchmark::State& state) { sparse(state, shape, update, cusparse); });
      }
    }
    for (const auto& [precision, name] : {std::pair{Precision::fp32, "fp32"},
                                          {Precision::tf32, "tf32"},
                                          {Precision::bf16, "bf16"}}) {
      add(fmt::format("scoring/{}/{}", name, shape.name),
          [=, p = precision](benchmark::State& state) { scoring(state, shape, p); });
      add(fmt::format("step/{}/{}", name, shape.name),
          [=, p = precision](benchmark::State& state) { step(state, shape, p); });
    }
  }
}

}  // namespace
}  // namespace hetsgd

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (const auto platform = hetsgd::cuda_platform(); platform.gpus.empty()) {
    fmt::print(stderr, "skipped: {}\n", platform.problem);
    return 77;
  }
  hetsgd::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
