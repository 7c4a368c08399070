// Convolutions of the CPU device beside oneDNN's on one core, at the shapes of networks for images.
//
// Both begin and end with plain maps (NCHW): oneDNN's direct kernels may choose their own layouts,
// and the reordering to and from them counts, as it would for a caller. Counters: GFLOP_per_s, and
// floor_ratio = time at the core's measured FMA peak (support.hpp) / time taken.
// Pin it: OMP_NUM_THREADS=1 taskset -c 0 convolution_bench.
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "linalg/convolution_kernels.hpp"
#include "linalg/device.hpp"
#include "support.hpp"

namespace hetsgd {
namespace {

enum class Product { forward, input_gradient, parameter_gradient };

struct Layer {
  const char* name;
  std::size_t samples;
  ConvolutionShape shape;
};

Layer layer(const char* name, std::size_t samples, std::size_t channels, std::size_t side,
            std::size_t filters, std::size_t kernel, std::size_t padding) {
  const std::size_t out = side + 2 * padding - kernel + 1;
  return {name,
          samples,
          {channels, side, side, filters, out, out, kernel, kernel, 1, padding, padding, 1}};
}

const Layer kLayers[] = {
    layer("lenet-5_conv1", 64, 1, 28, 6, 5, 2),
    layer("lenet-5_conv2", 64, 6, 14, 16, 5, 0),
    layer("lenet-002_conv1", 64, 1, 28, 32, 5, 0),
    layer("lenet-002_conv2", 64, 32, 12, 64, 5, 0),
    layer("resnet-32_16x32x32", 64, 16, 32, 16, 3, 1),
    layer("resnet-32_32x16x16", 64, 32, 16, 32, 3, 1),
    layer("resnet-32_64x8x8", 64, 64, 8, 64, 3, 1),
    layer("vgg-16_256x16x16", 4, 256, 16, 256, 3, 1),
};

// Operands of one layer, and what one call of each product is.
struct Operands {
  explicit Operands(const Layer& layer)
      : s(layer.shape),
        n(layer.samples),
        X(bench::random_floats(n * s.inputs())),
        W(bench::random_floats(s.weights())),
        Y(bench::random_floats(n * s.outputs())) {}

  ConvolutionShape s;
  std::size_t n;
  std::vector<float> X, W, Y;
};

class OneDnn {
 public:
  OneDnn(Operands& of, Product product) {
    using dnnl::algorithm;
    const auto& s = of.s;
    const dnnl::memory::dims x{dim(of.n), dim(s.in_channels), dim(s.in_height), dim(s.in_width)},
        w{dim(s.out_channels), dim(s.in_channels), dim(s.kernel_height), dim(s.kernel_width)},
        y{dim(of.n), dim(s.out_channels), dim(s.out_height), dim(s.out_width)},
        stride{dim(s.stride), dim(s.stride)}, pad{dim(s.padding_height), dim(s.padding_width)};
    const auto any = [](const dnnl::memory::dims& dims) {
      return dnnl::memory::desc(dims, kFloat, dnnl::memory::format_tag::any);
    };
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm::convolution_direct, any(x), any(w), any(y),
         stride, pad, pad},
        engine_);
    const auto plain = [&](const dnnl::memory::dims& dims, std::vector<float>& data) {
      return dnnl::memory({dims, kFloat, dnnl::memory::format_tag::abcd}, engine_, data.data());
    };
    const dnnl::memory X = plain(x, of.X), W = plain(w, of.W), Y = plain(y, of.Y);
    if (product == Product::forward) {
      primitive_ = dnnl::convolution_forward(forward);
      add(DNNL_ARG_SRC, X, forward.src_desc(), true);
      add(DNNL_ARG_WEIGHTS, W, forward.weights_desc(), true);
      add(DNNL_ARG_DST, Y, forward.dst_desc(), false);
    } else if (product == Product::input_gradient) {
      const dnnl::convolution_backward_data::primitive_desc backward(
          {algorithm::convolution_direct, any(x), any(w), any(y), stride, pad, pad}, engine_,
          forward);
      primitive_ = dnnl::convolution_backward_data(backward);
      add(DNNL_ARG_DIFF_SRC, X, backward.diff_src_desc(), false);
      add(DNNL_ARG_WEIGHTS, W, backward.weights_desc(), true);
      add(DNNL_ARG_DIFF_DST, Y, backward.diff_dst_desc(), true);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {algorithm::convolution_direct, any(x), any(w), any(y), stride, pad, pad}, engine_,
          forward);
      primitive_ = dnnl::convolution_backward_weights(backward);
      add(DNNL_ARG_SRC, X, backward.src_desc(), true);
      add(DNNL_ARG_DIFF_WEIGHTS, W, backward.diff_weights_desc(), false);
      add(DNNL_ARG_DIFF_DST, Y, backward.diff_dst_desc(), true);
    }
  }

  void run() {
    for (Argument& each : arguments_) {
      if (each.read && each.reorders) {
        dnnl::reorder(each.plain, each.own).execute(stream_, each.plain, each.own);
      }
    }
    primitive_.execute(stream_, places_);
    for (Argument& each : arguments_) {
      if (!each.read && each.reorders) {
        dnnl::reorder(each.own, each.plain).execute(stream_, each.own, each.plain);
      }
    }
    stream_.wait();
  }

 private:
  static constexpr auto kFloat = dnnl::memory::data_type::f32;
  struct Argument {
    dnnl::memory plain, own;
    bool read, reorders;
  };

  static dnnl::memory::dim dim(std::size_t n) { return static_cast<dnnl::memory::dim>(n); }
  void add(int place, const dnnl::memory& plain, const dnnl::memory::desc& own, bool read) {
    const bool reorders = own != plain.get_desc();
    arguments_.push_back({plain, reorders ? dnnl::memory(own, engine_) : plain, read, reorders});
    places_.insert({place, arguments_.back().own});
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  std::unordered_map<int, dnnl::memory> places_;
};

void report(benchmark::State& state, const Operands& of) {
  bench::count_work(state,
                    2.0 * static_cast<double>(of.n * of.s.weights() * of.s.out_height) *
                        static_cast<double>(of.s.out_width),
                    0);
}

void own(benchmark::State& state, const Layer& layer, Product product) {
  Operands of(layer);
  const auto device = make_cpu_device<float>(1);
  auto& convolution = kernels<ConvolutionKernels>(*device);
  for (auto _ : state) {
    switch (product) {
      case Product::forward:
        convolution.forward(of.s, of.n, of.X.data(), of.W.data(), nullptr, of.Y.data());
        break;
      case Product::input_gradient:
        convolution.input_gradient(of.s, of.n, of.Y.data(), of.W.data(), 0, of.X.data());
        break;
      case Product::parameter_gradient:
        convolution.parameter_gradient(of.s, of.n, of.X.data(), of.Y.data(), 1, 0, of.W.data(),
                                       nullptr);
    }
  }
  report(state, of);
}

void onednn(benchmark::State& state, const Layer& layer, Product product) {
  Operands of(layer);
  OneDnn call(of, product);
  for (auto _ : state) call.run();
  report(state, of);
}

[[maybe_unused]] const bool registered = [] {
  const std::pair<const char*, Product> products[] = {
      {"forward", Product::forward},
      {"input_gradient", Product::input_gradient},
      {"parameter_gradient", Product::parameter_gradient}};
  for (const Layer& each : kLayers) {
    for (const auto& [name, product] : products) {
      if (product == Product::input_gradient && each.shape.in_channels == 1) continue;  // no user
      const std::string what = std::string(each.name) + "/" + name;
      benchmark::RegisterBenchmark((what + "/hetsgd").c_str(), own, each, product);
      benchmark::RegisterBenchmark((what + "/oneDNN").c_str(), onednn, each, product);
    }
  }
  return true;
}();

}  // namespace
}  // namespace hetsgd
