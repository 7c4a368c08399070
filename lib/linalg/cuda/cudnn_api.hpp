// The part of cuDNN's C interface that is used. It is declared here because the library is found at
// run time (cudnn.hpp), so that a build needs no header of it.
//
// Source: NVIDIA cuDNN backend API 9.6.0, docs.nvidia.com/deeplearning/cudnn/backend/v9.6.0/api,
// pages cudnn-graph-library (status, types), cudnn-ops-library (tensors) and cudnn-cnn-library
// (convolutions); compared by a compiler with the headers of 9.28.1. Version 8 has the same
// functions with the same values. Version 9 has the functions of convolutions but calls them
// deprecated in favour of graphs of operations.
//
// Enumerations are C's, of the size of an int. Handles and descriptors are opaque pointers. alpha
// and beta are in host memory: floats, but doubles for tensors of doubles.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "linalg/cuda/library.hpp"

namespace hetsgd::cuda::cudnn {

struct Context;
struct TensorStruct;
struct FilterStruct;
struct ConvolutionStruct;
using Handle = Context*;
using Tensor = TensorStruct*;
using Filter = FilterStruct*;
using Convolution = ConvolutionStruct*;

enum class Status : int { success = 0 };
enum class DataType : int { float32 = 0, float64 = 1 };
enum class Format : int { nchw = 0 };
// A convolution of neural networks is a cross-correlation.
enum class Mode : int { cross_correlation = 1 };
// usual: tensor cores may round factors of floats to TF32; fma: they may not.
enum class Math : int { usual = 0, fma = 3 };

// Algorithms whose bits are the same in every run of a version on one architecture. The
// documentation (developer guide, Reproducibility) excludes routines that add by atomic operations.
// For convolutions these are ALGO_0 of both gradients and ALGO_3 of filters, which are therefore
// not named here.
enum class ForwardAlgorithm : int { implicit_gemm = 0, implicit_precomp_gemm = 1 };
enum class InputAlgorithm : int { algorithm_1 = 1 };
enum class FilterAlgorithm : int { algorithm_1 = 1 };

// Functions named as in cuDNN, without its prefix. Where the documentation has a `const` descriptor
// that is only read, this is left out, which changes no call.
struct Functions {
  explicit Functions(const SharedLibrary& from) : library(from) {}
  const SharedLibrary library;

  std::size_t (*get_version)() =
      library.function("cudnnGetVersion");  // 9: 10,000 major + 100 minor + patch; 8: 1,000 major
  const char* (*get_error_string)(Status) = library.function("cudnnGetErrorString");
  Status (*create)(Handle*) = library.function("cudnnCreate");  // for the current device
  Status (*destroy)(Handle) = library.function("cudnnDestroy");
  Status (*set_stream)(Handle, cudaStream_t) = library.function("cudnnSetStream");

  Status (*create_tensor)(Tensor*) = library.function("cudnnCreateTensorDescriptor");
  Status (*set_tensor_4d)(Tensor, Format, DataType, int n, int c, int h,
                          int w) = library.function("cudnnSetTensor4dDescriptor");
  Status (*destroy_tensor)(Tensor) = library.function("cudnnDestroyTensorDescriptor");
  // C = alpha A + beta C. A dimension of A may be 1 where the dimension of C is not.
  Status (*add_tensor)(Handle, const void* alpha, Tensor a_shape, const void* A, const void* beta,
                       Tensor c_shape, void* C) = library.function("cudnnAddTensor");

  // k filters over c channels of a group. (Type and format have the opposite order in
  // set_tensor_4d.)
  Status (*create_filter)(Filter*) = library.function("cudnnCreateFilterDescriptor");
  Status (*set_filter_4d)(Filter, DataType, Format, int k, int c, int h,
                          int w) = library.function("cudnnSetFilter4dDescriptor");
  Status (*destroy_filter)(Filter) = library.function("cudnnDestroyFilterDescriptor");

  Status (*create_convolution)(Convolution*) = library.function("cudnnCreateConvolutionDescriptor");
  Status (*set_convolution_2d)(Convolution, int pad_h, int pad_w, int stride_h, int stride_w,
                               int dilation_h, int dilation_w, Mode, DataType compute) =
      library.function("cudnnSetConvolution2dDescriptor");
  Status (*set_convolution_group_count)(Convolution, int groups) =
      library.function("cudnnSetConvolutionGroupCount");
  Status (*set_convolution_math_type)(Convolution,
                                      Math) = library.function("cudnnSetConvolutionMathType");
  Status (*destroy_convolution)(Convolution) =
      library.function("cudnnDestroyConvolutionDescriptor");

  Status (*get_forward_workspace_size)(Handle, Tensor x, Filter w, Convolution, Tensor y,
                                       ForwardAlgorithm, std::size_t* bytes) =
      library.function("cudnnGetConvolutionForwardWorkspaceSize");
  Status (*convolution_forward)(Handle, const void* alpha, Tensor x_shape, const void* X,
                                Filter w_shape, const void* W, Convolution, ForwardAlgorithm,
                                void* workspace, std::size_t workspace_bytes, const void* beta,
                                Tensor y_shape,
                                void* Y) = library.function("cudnnConvolutionForward");

  Status (*get_backward_data_workspace_size)(Handle, Filter w, Tensor dy, Convolution, Tensor dx,
                                             InputAlgorithm, std::size_t* bytes) =
      library.function("cudnnGetConvolutionBackwardDataWorkspaceSize");
  Status (*convolution_backward_data)(Handle, const void* alpha, Filter w_shape, const void* W,
                                      Tensor dy_shape, const void* dY, Convolution, InputAlgorithm,
                                      void* workspace, std::size_t workspace_bytes,
                                      const void* beta, Tensor dx_shape,
                                      void* dX) = library.function("cudnnConvolutionBackwardData");

  Status (*get_backward_filter_workspace_size)(Handle, Tensor x, Tensor dy, Convolution, Filter dw,
                                               FilterAlgorithm, std::size_t* bytes) =
      library.function("cudnnGetConvolutionBackwardFilterWorkspaceSize");
  Status (*convolution_backward_filter)(
      Handle, const void* alpha, Tensor x_shape, const void* X, Tensor dy_shape, const void* dY,
      Convolution, FilterAlgorithm, void* workspace, std::size_t workspace_bytes, const void* beta,
      Filter dw_shape, void* dW) = library.function("cudnnConvolutionBackwardFilter");
  Status (*convolution_backward_bias)(Handle, const void* alpha, Tensor dy_shape, const void* dY,
                                      const void* beta, Tensor db_shape,
                                      void* db) = library.function("cudnnConvolutionBackwardBias");
};

}  // namespace hetsgd::cuda::cudnn
