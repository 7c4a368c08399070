// An emulated libcudnn: convolutions by their definition, in double, rounded once. Factors of
// floats are rounded to TF32 first unless the math type is FMA.
//
// It ends the program when a handle or descriptor is used that is not alive. It refuses shapes that
// do not fit, a workspace that is too small and operands that do not begin at 16 bytes. The
// workspace is filled with NaN while an operation runs. Algorithms that add by atomic operations
// are missing, and IMPLICIT_PRECOMP_GEMM does not take groups: callers meet both of its answers.
#include "cudnn.h"

#include <algorithm>
#include <limits>
#include <map>

#include "cudnn_shapes.hpp"
#include "emulation.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
namespace hetsgd_emulation {

namespace {

// --- what lives ----------------------------------------------------------------------------------
std::mutex alive_mutex;
std::map<const void*, std::string> alive;
int made = 0;

template <class T>
cudnnStatus_t make(T** object, const char* kind) {
  *object = new T;
  const std::lock_guard lock(alive_mutex);
  alive[*object] = kind;
  ++made;
  return CUDNN_STATUS_SUCCESS;
}

void expect_alive(const void* object, const char* kind) {
  const std::lock_guard lock(alive_mutex);
  const auto found = alive.find(object);
  if (found == alive.end() || found->second != kind) {
    misuse(fmt::format("cuDNN was given a {} that does not live", kind));
  }
}

template <class T>
cudnnStatus_t destroy(T* object, const char* kind) {
  expect_alive(object, kind);
  const std::lock_guard lock(alive_mutex);
  alive.erase(object);
  delete object;
  return CUDNN_STATUS_SUCCESS;
}

constexpr const char *kHandle = "handle", *kTensor = "tensor descriptor",
                     *kFilter = "filter descriptor", *kConvolution = "convolution descriptor";

// --- operations ----------------------------------------------------------------------------------
Geometry geometry(cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                  cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t y) {
  expect_alive(handle, kHandle);
  expect_alive(x, kTensor);
  expect_alive(w, kFilter);
  expect_alive(how, kConvolution);
  expect_alive(y, kTensor);
  return {*x, *y, *w, *how};
}

bool aligned(std::initializer_list<const void*> operands) {
  return std::all_of(operands.begin(), operands.end(), [](const void* operand) {
    return operand != nullptr && reinterpret_cast<std::uintptr_t>(operand) % 16 == 0;
  });
}

cudnnStatus_t given(cudaError_t status) {
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

struct Operands {
  const void *alpha, *X, *W, *Y, *beta;
  void *out, *workspace;
  std::size_t workspace_bytes;
};

template <class Real>
cudnnStatus_t enqueue_convolution(cudaStream_t stream, const Geometry& g, Way way,
                                  const Operands& o) {
  const Real alpha = *static_cast<const Real*>(o.alpha), beta = *static_cast<const Real*>(o.beta);
  return given(enqueue(stream, [=] {
    std::fill_n(static_cast<char*>(o.workspace), o.workspace_bytes, '\xff');  // NaN
    compute(g, way, alpha, static_cast<const Real*>(o.X), static_cast<const Real*>(o.W),
            static_cast<const Real*>(o.Y), beta, static_cast<Real*>(o.out));
  }));
}

cudnnStatus_t convolve(cudnnHandle_t handle, const Geometry& g, Way way, int algorithm,
                       const Operands& o) {
  std::size_t needed = 0;
  const cudnnStatus_t status = workspace_of(g, way, algorithm, &needed);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (o.workspace_bytes < needed || (needed > 0 && o.workspace == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return g.x.type == CUDNN_DATA_DOUBLE ? enqueue_convolution<double>(handle->stream, g, way, o)
                                       : enqueue_convolution<float>(handle->stream, g, way, o);
}

// Over the pixels of each channel: C += alpha A, or db = alpha sum dY + beta db.
template <class Real, class F>
void for_channels(const cudnnTensorStruct& t, Real* values, const F& f) {
  const std::size_t pixels = Geometry::size(t.h, t.w, 1, 1);
  for (int i = 0; i < t.n; ++i) {
    for (int c = 0; c < t.c; ++c) {
      for (std::size_t p = 0; p < pixels; ++p) f(static_cast<std::size_t>(c), *values++);
    }
  }
}

template <class Real>
cudnnStatus_t add_bias(cudaStream_t stream, const cudnnTensorStruct& t, const void* alpha,
                       const void* A, const void* beta, void* C) {
  const Real a = *static_cast<const Real*>(alpha), b = *static_cast<const Real*>(beta);
  return given(enqueue(stream, [=] {
    for_channels(t, static_cast<Real*>(C), [&](std::size_t c, Real& value) {
      value = a * static_cast<const Real*>(A)[c] + b * value;
    });
  }));
}

template <class Real>
cudnnStatus_t sum_bias(cudaStream_t stream, const cudnnTensorStruct& t, const void* alpha,
                       const void* dY, const void* beta, void* db) {
  const Real a = *static_cast<const Real*>(alpha), b = *static_cast<const Real*>(beta);
  return given(enqueue(stream, [=] {
    std::vector<double> sums(static_cast<std::size_t>(t.c));
    for_channels(t, static_cast<const Real*>(dY),
                 [&](std::size_t c, Real value) { sums[c] += static_cast<double>(value); });
    blend(sums, a, b, static_cast<Real*>(db));
  }));
}

bool is_bias_of(const cudnnTensorStruct& bias, const cudnnTensorStruct& t) {
  return bias.type == t.type && bias.n == 1 && bias.h == 1 && bias.w == 1 && bias.c == t.c;
}

}  // namespace
}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

extern "C" {

int cudnnEmulationAlive() {
  const std::lock_guard lock(alive_mutex);
  return static_cast<int>(alive.size());
}
int cudnnEmulationMade() {
  const std::lock_guard lock(alive_mutex);
  return made;
}

std::size_t cudnnGetVersion() { return settings().cudnn; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  static thread_local std::string text;
  text = fmt::format("status {} of the emulated cuDNN", static_cast<int>(status));
  return text.c_str();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return settings().gpus == 0 ? CUDNN_STATUS_NOT_INITIALIZED : make(handle, kHandle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy(handle, kHandle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  expect_alive(handle, kHandle);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* t) { return make(t, kTensor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
  return destroy(t, kTensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  expect_alive(t, kTensor);
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (format != CUDNN_TENSOR_NCHW || type > CUDNN_DATA_DOUBLE) return CUDNN_STATUS_NOT_SUPPORTED;
  // Places are ints.
  if (Geometry::size(n, c, h, w) > std::size_t{std::numeric_limits<int>::max()}) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *t = {type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* f) { return make(f, kFilter); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) {
  return destroy(f, kFilter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  expect_alive(f, kFilter);
  if (k <= 0 || c <= 0 || h <= 0 || w <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (format != CUDNN_TENSOR_NCHW || type > CUDNN_DATA_DOUBLE) return CUDNN_STATUS_NOT_SUPPORTED;
  *f = {type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* c) {
  return make(c, kConvolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
  return destroy(c, kConvolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t type) {
  expect_alive(c, kConvolution);
  if (pad_h < 0 || pad_w < 0 || u <= 0 || v <= 0) return CUDNN_STATUS_BAD_PARAM;
  if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *c = {.type = type, .pad_h = pad_h, .pad_w = pad_w, .u = u, .v = v};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  expect_alive(c, kConvolution);
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  expect_alive(c, kConvolution);
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
    std::size_t* bytes) {
  return workspace_of(geometry(handle, x, w, how, y), Way::forward, algo, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* X,
                                      cudnnFilterDescriptor_t w, const void* W,
                                      cudnnConvolutionDescriptor_t how,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                      std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* Y) {
  if (!aligned({X, W, Y})) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return convolve(handle, geometry(handle, x, w, how, y), Way::forward, algo,
                  {alpha, X, W, nullptr, beta, Y, workspace, bytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algo, std::size_t* bytes) {
  return workspace_of(geometry(handle, dx, w, how, dy), Way::data, algo, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* W,
                                           cudnnTensorDescriptor_t dy, const void* dY,
                                           cudnnConvolutionDescriptor_t how,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx, void* dX) {
  if (!aligned({W, dY, dX})) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return convolve(handle, geometry(handle, dx, w, how, dy), Way::data, algo,
                  {alpha, nullptr, W, dY, beta, dX, workspace, bytes});
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t how, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, std::size_t* bytes) {
  return workspace_of(geometry(handle, x, dw, how, dy), Way::filter, algo, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* X,
                                             cudnnTensorDescriptor_t dy, const void* dY,
                                             cudnnConvolutionDescriptor_t how,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw, void* dW) {
  if (!aligned({X, dY, dW})) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return convolve(handle, geometry(handle, x, dw, how, dy), Way::filter, algo,
                  {alpha, X, nullptr, dY, beta, dW, workspace, bytes});
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t a,
                             const void* A, const void* beta, cudnnTensorDescriptor_t c, void* C) {
  expect_alive(handle, kHandle);
  expect_alive(a, kTensor);
  expect_alive(c, kTensor);
  if (!is_bias_of(*a, *c)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!aligned({A, C})) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return c->type == CUDNN_DATA_DOUBLE ? add_bias<double>(handle->stream, *c, alpha, A, beta, C)
                                      : add_bias<float>(handle->stream, *c, alpha, A, beta, C);
}
cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha,
                                           cudnnTensorDescriptor_t dy, const void* dY,
                                           const void* beta, cudnnTensorDescriptor_t db, void* dB) {
  expect_alive(handle, kHandle);
  expect_alive(dy, kTensor);
  expect_alive(db, kTensor);
  if (!is_bias_of(*db, *dy)) return CUDNN_STATUS_BAD_PARAM;
  if (!aligned({dY, dB})) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return dy->type == CUDNN_DATA_DOUBLE ? sum_bias<double>(handle->stream, *dy, alpha, dY, beta, dB)
                                       : sum_bias<float>(handle->stream, *dy, alpha, dY, beta, dB);
}

}  // extern "C"
