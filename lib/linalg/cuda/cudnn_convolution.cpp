// The convolution kernels of a GPU by cuDNN (--convolution-library cudnn). The tests compare them
// with those of convolution.cu.
//
//   forward             implicit GEMM with precomputed indices, without where it does not apply;
//                       then the bias is added
//   input gradient      ALGO_1
//   parameter gradient  ALGO_1; the bias by cudnnConvolutionBackwardBias
//
// Bits: all of these are deterministic. They are the same for the same version, kind of GPU and
// sizes (cudnn_api.hpp). Products are of full floats unless TF32 was requested.
// Memory: the workspace that cuDNN requests is scratch of the device, beside the arena of the maps,
// like the windows of convolution.cu. Parameters that do not begin at a multiple of 16 bytes, which
// cuDNN's vector loads need, are copied, so that the bits do not depend on addresses.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "core/error.hpp"
#include "core/non_copyable.hpp"
#include "linalg/cuda/cudnn.hpp"
#include "linalg/device.hpp"

namespace hetsgd::cuda {

namespace {

constexpr std::size_t kAlignedBytes = 16;
// Sizes and indices of a tensor are ints.
constexpr std::size_t kMostNumbers = std::numeric_limits<int>::max();

// Owns an object that one function of the library makes and another one destroys.
template <class Pointer>
class Owned : NonCopyable {
 public:
  using Create = cudnn::Status (*)(Pointer*);
  using Destroy = cudnn::Status (*)(Pointer);

  Owned(const Cudnn& library, Create create, Destroy destroy, const char* call)
      : destroy_(destroy) {
    library.check(create(&pointer_), call);
  }
  ~Owned() { destroy_(pointer_); }

  Pointer get() const { return pointer_; }

 private:
  Pointer pointer_ = nullptr;
  Destroy destroy_;
};

struct OwnedTensor : Owned<cudnn::Tensor> {
  explicit OwnedTensor(const Cudnn& library)
      : Owned(library, library.create_tensor, library.destroy_tensor,
              "cudnnCreateTensorDescriptor") {}
};

// Threads make their handles one after the other, as the documentation recommends.
std::unique_ptr<Owned<cudnn::Handle>> make_handle(const Cudnn& library, const Stream& stream) {
  static std::mutex mutex;
  const std::lock_guard one_at_a_time(mutex);
  auto handle = std::make_unique<Owned<cudnn::Handle>>(library, library.create, library.destroy,
                                                       "cudnnCreate");
  library.check(library.set_stream(handle->get(), stream.get()), "cudnnSetStream");
  return handle;
}

template <class Algorithm>
struct Choice {
  Algorithm algorithm{};
  std::size_t workspace_bytes = 0;
};

int whole(std::size_t x) { return static_cast<int>(x); }

// A convolution of n samples in cuDNN's terms, and the algorithms chosen for it.
struct Described {
  explicit Described(const Cudnn& library)
      : x(library),
        y(library),
        bias(library),
        w(library, library.create_filter, library.destroy_filter, "cudnnCreateFilterDescriptor"),
        how(library, library.create_convolution, library.destroy_convolution,
            "cudnnCreateConvolutionDescriptor") {}

  OwnedTensor x, y, bias;
  Owned<cudnn::Filter> w;
  Owned<cudnn::Convolution> how;
  Choice<cudnn::ForwardAlgorithm> forward;
  Choice<cudnn::InputAlgorithm> input_gradient;
  Choice<cudnn::FilterAlgorithm> filter_gradient;
};

void set_shapes(const Cudnn& library, const ConvolutionShape& s, std::size_t n,
                cudnn::DataType type, cudnn::Math math, const Described& d) {
  constexpr auto kFormat = cudnn::Format::nchw;
  const auto set_tensor = [&](const OwnedTensor& tensor, std::size_t samples, std::size_t channels,
                              std::size_t height, std::size_t width) {
    library.check(library.set_tensor_4d(tensor.get(), kFormat, type, whole(samples),
                                        whole(channels), whole(height), whole(width)),
                  "cudnnSetTensor4dDescriptor");
  };
  set_tensor(d.x, n, s.in_channels, s.in_height, s.in_width);
  set_tensor(d.y, n, s.out_channels, s.out_height, s.out_width);
  set_tensor(d.bias, 1, s.out_channels, 1, 1);
  library.check(library.set_filter_4d(d.w.get(), type, kFormat, whole(s.out_channels),
                                      whole(s.in_channels / s.groups), whole(s.kernel_height),
                                      whole(s.kernel_width)),
                "cudnnSetFilter4dDescriptor");
  library.check(library.set_convolution_2d(d.how.get(), whole(s.padding_height),
                                           whole(s.padding_width), whole(s.stride), whole(s.stride),
                                           1, 1, cudnn::Mode::cross_correlation, type),
                "cudnnSetConvolution2dDescriptor");
  library.check(library.set_convolution_group_count(d.how.get(), whole(s.groups)),
                "cudnnSetConvolutionGroupCount");
  library.check(library.set_convolution_math_type(d.how.get(), math),
                "cudnnSetConvolutionMathType");
}

// The first of the algorithms that cuDNN accepts for the shapes.
template <class Algorithm, class Ask>
Choice<Algorithm> first_of(const Cudnn& library, std::initializer_list<Algorithm> algorithms,
                           const char* call, const Ask& ask) {
  cudnn::Status status{};
  for (const Algorithm algorithm : algorithms) {
    Choice<Algorithm> choice{.algorithm = algorithm};
    status = ask(algorithm, &choice.workspace_bytes);
    if (status == cudnn::Status::success) return choice;
  }
  library.check(status, call);
  HETSGD_CHECK(false);
}

template <class Real>
class CudnnConvolutionKernels final : public BasicConvolutionKernels<Real> {
 public:
  explicit CudnnConvolutionKernels(Backend& backend)
      : backend_(backend),
        handle_(make_handle(library_, backend.stream)),
        workspace_(backend.stream),
        weights_(backend.stream),
        bias_(backend.stream) {
    HETSGD_CHECK(backend.precision != Precision::bf16);  // cuDNN can round floats only to TF32
  }

  void forward(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* W,
               const Real* bias, Real* Y) override {
    const Real* const filters = aligned(weights_, s.weights(), W);
    const Real* const shift = aligned(bias_, bias == nullptr ? 0 : s.out_channels, bias);
    const Real one = 1, zero = 0;
    for_parts(s, n, [&](const Described& d, std::size_t first) {
      Real* const to = Y + first * s.outputs();
      check(library_.convolution_forward(handle_->get(), &one, d.x.get(), X + first * s.inputs(),
                                         d.w.get(), filters, d.how.get(), d.forward.algorithm,
                                         room(d.forward.workspace_bytes), d.forward.workspace_bytes,
                                         &zero, d.y.get(), to),
            "cudnnConvolutionForward");
      if (bias == nullptr) return;
      check(library_.add_tensor(handle_->get(), &one, d.bias.get(), shift, &one, d.y.get(), to),
            "cudnnAddTensor");
    });
  }

  void input_gradient(const ConvolutionShape& s, std::size_t n, const Real* dY, const Real* W,
                      Real beta, Real* dX) override {
    const Real* const filters = aligned(weights_, s.weights(), W);
    const Real one = 1;
    for_parts(s, n, [&](const Described& d, std::size_t first) {
      check(library_.convolution_backward_data(
                handle_->get(), &one, d.w.get(), filters, d.y.get(), dY + first * s.outputs(),
                d.how.get(), d.input_gradient.algorithm, room(d.input_gradient.workspace_bytes),
                d.input_gradient.workspace_bytes, &beta, d.x.get(), dX + first * s.inputs()),
            "cudnnConvolutionBackwardData");
    });
  }

  void parameter_gradient(const ConvolutionShape& s, std::size_t n, const Real* X, const Real* dY,
                          Real alpha, Real beta, Real* G, Real* g) override {
    if (n == 0) return;
    Real* const filters = aligned_target(weights_, s.weights(), beta, G);
    Real* const shift = aligned_target(bias_, g == nullptr ? 0 : s.out_channels, beta, g);
    for_parts(s, n, [&](const Described& d, std::size_t first) {
      const Real here = first == 0 ? beta : Real(1);
      const Real* const from = dY + first * s.outputs();
      check(library_.convolution_backward_filter(
                handle_->get(), &alpha, d.x.get(), X + first * s.inputs(), d.y.get(), from,
                d.how.get(), d.filter_gradient.algorithm, room(d.filter_gradient.workspace_bytes),
                d.filter_gradient.workspace_bytes, &here, d.w.get(), filters),
            "cudnnConvolutionBackwardFilter");
      if (g == nullptr) return;
      check(library_.convolution_backward_bias(handle_->get(), &alpha, d.y.get(), from, &here,
                                               d.bias.get(), shift),
            "cudnnConvolutionBackwardBias");
    });
    if (filters != G) copy(s.weights(), filters, G);
    if (shift != g) copy(s.out_channels, shift, g);
  }

 private:
  void check(cudnn::Status status, const char* call) const { library_.check(status, call); }

  // Calls f(convolution, first sample) for parts with as many samples as their elements can be
  // counted by an int.
  template <class F>
  void for_parts(const ConvolutionShape& s, std::size_t n, const F& f) {
    backend_.use();
    const std::size_t most = kMostNumbers / std::max(s.inputs(), s.outputs());
    const std::size_t together = std::clamp<std::size_t>(most, 1, std::max<std::size_t>(n, 1));
    for (std::size_t first = 0; first < n; first += together) {
      f(described(s, std::min(together, n - first)), first);
    }
  }

  // Descriptions are kept, because batches repeat their sizes.
  const Described& described(const ConvolutionShape& s, std::size_t n) {
    const std::array key = {
        n,           s.in_channels,   s.in_height,    s.in_width, s.out_channels,   s.out_height,
        s.out_width, s.kernel_height, s.kernel_width, s.stride,   s.padding_height, s.padding_width,
        s.groups};
    std::unique_ptr<Described>& known = described_[key];
    if (known) return *known;
    auto made = std::make_unique<Described>(library_);
    constexpr bool kFloats = sizeof(Real) == sizeof(float);
    set_shapes(library_, s, n, kFloats ? cudnn::DataType::float32 : cudnn::DataType::float64,
               backend_.precision == Precision::tf32 ? cudnn::Math::usual : cudnn::Math::fma,
               *made);
    choose_algorithms(*made);
    known = std::move(made);
    return *known;
  }

  void choose_algorithms(Described& d) const {
    const cudnn::Tensor x = d.x.get(), y = d.y.get();
    d.forward = first_of(
        library_,
        {cudnn::ForwardAlgorithm::implicit_precomp_gemm, cudnn::ForwardAlgorithm::implicit_gemm},
        "cudnnGetConvolutionForwardWorkspaceSize", [&](auto algorithm, std::size_t* bytes) {
          return library_.get_forward_workspace_size(handle_->get(), x, d.w.get(), d.how.get(), y,
                                                     algorithm, bytes);
        });
    d.input_gradient = first_of(
        library_, {cudnn::InputAlgorithm::algorithm_1},
        "cudnnGetConvolutionBackwardDataWorkspaceSize", [&](auto algorithm, std::size_t* bytes) {
          return library_.get_backward_data_workspace_size(handle_->get(), d.w.get(), y,
                                                           d.how.get(), x, algorithm, bytes);
        });
    d.filter_gradient = first_of(
        library_, {cudnn::FilterAlgorithm::algorithm_1},
        "cudnnGetConvolutionBackwardFilterWorkspaceSize", [&](auto algorithm, std::size_t* bytes) {
          return library_.get_backward_filter_workspace_size(handle_->get(), x, y, d.how.get(),
                                                             d.w.get(), algorithm, bytes);
        });
  }

  void* room(std::size_t bytes) {
    return bytes == 0 ? nullptr : workspace_.reserve<std::byte>(bytes, "cuDNN's workspace");
  }

  static bool is_aligned(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % kAlignedBytes == 0;
  }
  void copy(std::size_t count, const Real* from, Real* to) const {
    HETSGD_CUDA(
        cudaMemcpyAsync(to, from, count * sizeof(Real), cudaMemcpyDeviceToDevice, backend_.use()));
  }
  // The elements at an address where cuDNN may read them.
  const Real* aligned(DeviceMemory& memory, std::size_t count, const Real* from) const {
    if (is_aligned(from)) return from;
    backend_.use();
    Real* const to = memory.reserve<Real>(count, "parameters of convolutions");
    copy(count, from, to);
    return to;
  }
  // An address where cuDNN may add to the elements.
  Real* aligned_target(DeviceMemory& memory, std::size_t count, Real beta, Real* to) const {
    if (is_aligned(to)) return to;
    backend_.use();
    Real* const here = memory.reserve<Real>(count, "gradients of convolutions");
    if (beta != 0) copy(count, to, here);
    return here;
  }

  const Cudnn& library_ = Cudnn::get();
  Backend& backend_;
  const std::unique_ptr<Owned<cudnn::Handle>> handle_;
  std::map<std::array<std::size_t, 13>, std::unique_ptr<Described>> described_;
  DeviceMemory workspace_, weights_, bias_;
};

}  // namespace

template <class Real>
std::unique_ptr<BasicConvolutionKernels<Real>> make_cudnn_convolution(Backend& backend) {
  return std::make_unique<CudnnConvolutionKernels<Real>>(backend);
}

template std::unique_ptr<BasicConvolutionKernels<float>> make_cudnn_convolution<float>(Backend&);
template std::unique_ptr<BasicConvolutionKernels<double>> make_cudnn_convolution<double>(Backend&);

}  // namespace hetsgd::cuda
