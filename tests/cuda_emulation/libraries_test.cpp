// The emulated cuBLAS, cuDNN and NCCL.
#include <cublas_v2.h>
#include <cudnn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <vector>

namespace {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)
#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess)

// `count` numbers of a rank on its GPU.
struct Rank {
  Rank(int gpu, std::vector<float> values) : its_gpu(gpu), size(values.size()) {
    EXPECT_CUDA(cudaSetDevice(gpu));
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    EXPECT_CUDA(cudaMallocAsync(&in, size * sizeof(float), stream));
    EXPECT_CUDA(cudaMallocAsync(&out, size * sizeof(float), stream));
    EXPECT_CUDA(
        cudaMemcpyAsync(in, values.data(), size * sizeof(float), cudaMemcpyDefault, stream));
  }
  ~Rank() {
    cudaFreeAsync(in, stream);
    cudaFreeAsync(out, stream);
    cudaStreamDestroy(stream);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  std::vector<float> result() {
    std::vector<float> host(size);
    EXPECT_CUDA(cudaMemcpyAsync(host.data(), out, size * sizeof(float), cudaMemcpyDefault, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    return host;
  }
  int its_gpu;
  std::size_t size;
  cudaStream_t stream = nullptr;
  float* in = nullptr;
  float* out = nullptr;
};

using Floats = std::vector<float>;

TEST(EmulatedNccl, AThreadCallsForItsRanksInAGroup) {
  ncclComm_t comms[2];
  EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  Rank ranks[2] = {{0, {1, 2}}, {1, {10, -20}}};
  const auto call = [&] {
    for (int r = 0; r < 2; ++r) {
      EXPECT_NCCL(ncclAllReduce(ranks[r].in, ranks[r].out, 2, ncclFloat32, ncclSum, comms[r],
                                ranks[r].stream));
    }
  };
  EXPECT_NCCL(ncclGroupStart());
  call();
  EXPECT_NCCL(ncclGroupEnd());
  for (Rank& rank : ranks) EXPECT_EQ(rank.result(), (Floats{11, -18}));
  EXPECT_DEATH(call(), "without ncclGroupStart");
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(EmulatedCublas, RoundsTheOperandsOfFastProducts) {
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate_v2(&handle), CUBLAS_STATUS_SUCCESS);
  const float x = 1.0F + 0x1p-10F + 0x1p-12F;  // TF32 keeps 10 bits, BF16 7
  for (const auto& [compute, expected] : {std::pair{CUBLAS_COMPUTE_32F, x},
                                          {CUBLAS_COMPUTE_32F_FAST_TF32, 1.0F + 0x1p-10F},
                                          {CUBLAS_COMPUTE_32F_FAST_16BF, 1.0F}}) {
    Rank rank(0, {x, 1});
    cublasSetStream_v2(handle, rank.stream);
    const float one = 1, zero = 0;
    EXPECT_EQ(cublasGemmEx_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 2, 1, &one, rank.in + 1,
                              CUDA_R_32F, 1, rank.in, CUDA_R_32F, 1, &zero, rank.out, CUDA_R_32F, 1,
                              compute, CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(rank.result(), (Floats{expected, 1}));
  }
  cublasDestroy_v2(handle);
}

// A convolution of one number by one weight.
TEST(EmulatedCudnn, RefusesWhatRealOnesMayNotSee) {
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t how = nullptr;
  const int before = cudnnEmulationAlive();
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreateTensorDescriptor(&x), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreateFilterDescriptor(&w), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreateConvolutionDescriptor(&how), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnEmulationAlive(), before + 4);
  cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1);
  cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 1, 1);
  cudnnSetConvolution2dDescriptor(how, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  const auto forward = [&](const Rank& rank, std::size_t bytes, std::size_t shift) {
    const float one = 1, zero = 0;
    cudnnSetStream(handle, rank.stream);
    return cudnnConvolutionForward(handle, &one, x, rank.in, w, rank.in + shift, how,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, rank.out + 4,
                                   bytes, &zero, x, rank.out);
  };
  Rank rank(0, {2, 0, 0, 0, 3, 0, 0, 0});
  EXPECT_EQ(forward(rank, 7, 4), CUDNN_STATUS_BAD_PARAM);  // it needs 4 (1 + 1)
  EXPECT_EQ(forward(rank, 8, 3), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(forward(rank, 8, 4), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(rank.result()[0], 6);
  EXPECT_TRUE(std::isnan(rank.result()[5]));  // the workspace was used
  cudnnSetConvolutionGroupCount(how, 2);
  EXPECT_EQ(forward(rank, 8, 4), CUDNN_STATUS_BAD_PARAM);
  cudnnDestroyConvolutionDescriptor(how);
  EXPECT_DEATH(forward(rank, 8, 4), "convolution descriptor that does not live");
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroy(handle);
  EXPECT_EQ(cudnnEmulationAlive(), before);
}

}  // namespace
