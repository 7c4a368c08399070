// State that all kernels of one GPU device share: its streams and the libraries that work on them.
// Free of fmt, because CUDA sources include this.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "linalg/convolution_kernels.hpp"
#include "linalg/cuda/batch.hpp"
#include "linalg/cuda/blas.hpp"
#include "linalg/cuda/resources.hpp"
#include "linalg/cuda/transfer.hpp"

namespace hetsgd::cuda {

// Belongs to the device that was current when it was made. All work goes to one stream, except
// batches in transfer, which use a second one.
struct Backend {
  Backend(int its_ordinal, Precision its_precision, ConvolutionLibrary its_convolutions,
          std::size_t its_logit_budget, std::size_t its_logit_block, std::size_t its_split_from)
      : ordinal(its_ordinal),
        precision(its_precision),
        convolutions(its_convolutions),
        logit_budget(its_logit_budget),
        logit_block(its_logit_block),
        split_from(its_split_from),
        blas(stream, precision),
        transfer(stream),
        batches(stream),
        result(stream) {
    stream.keep_what_is_held();
  }

  // The stream, after making the GPU the current one. This is done at each call, since calls may
  // come from any thread.
  cudaStream_t use() const {
    HETSGD_CUDA(cudaSetDevice(ordinal));
    return stream.get();
  }

  const int ordinal;
  const Precision precision;
  const ConvolutionLibrary convolutions;
  const std::size_t logit_budget, logit_block;  // bytes, see CudaDeviceOptions
  const std::size_t split_from;                 // logits
  Stream stream;
  Blas blas;
  Transfer transfer;
  BatchStage batches;
  Result result;
};

}  // namespace hetsgd::cuda
