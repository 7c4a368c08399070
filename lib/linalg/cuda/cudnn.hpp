// cuDNN, loaded when it is first asked for: a machine without the library runs everything else.
#pragma once

#include <memory>
#include <string>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cuda/backend.hpp"
#include "linalg/cuda/cudnn_api.hpp"

namespace hetsgd::cuda {

// The functions of libcudnn.so.9, or of libcudnn.so.8. There is one object per process, made at the
// first get() and never unloaded. Thread-safe, since it does not change.
class Cudnn : public cudnn::Functions {
 public:
  // Throws Error(device) if the library is missing, lacks a function, or has a version other than 8
  // and 9; the hint says what to do. The next call tries again.
  static const Cudnn& get();

  // The version, "9.6.0".
  std::string version() const;
  // Throws Error(device) if the call failed; the message names the call and cuDNN's reason.
  void check(cudnn::Status status, const char* call) const;

 private:
  Cudnn();
};

// Convolutions by cuDNN (cudnn_convolution.cpp). Throws what Cudnn::get() throws.
template <class Real>
std::unique_ptr<BasicConvolutionKernels<Real>> make_cudnn_convolution(Backend& backend);

}  // namespace hetsgd::cuda
