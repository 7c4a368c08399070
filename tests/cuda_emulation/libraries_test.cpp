// The emulated cuBLAS, cuDNN and NCCL.
#include <cublas_v2.h>
#include <cudnn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <thread>

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

// One thread calls for both ranks.
template <class Call>
std::vector<Floats> both(Call call) {
  ncclComm_t comms[2];
  EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  Rank ranks[2] = {{0, {1, 2, 3, 4}}, {1, {10, -20, 30, 40}}};
  EXPECT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) EXPECT_NCCL(call(ranks[r], r, comms[r]));
  EXPECT_NCCL(ncclGroupEnd());
  std::vector<Floats> results = {ranks[0].result(), ranks[1].result()};
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
  return results;
}

TEST(EmulatedNccl, Collectives) {
  EXPECT_EQ(both([](Rank& rank, int, ncclComm_t comm) {
              return ncclAllReduce(rank.in, rank.out, 4, ncclFloat, ncclSum, comm, rank.stream);
            }),
            (std::vector<Floats>{{11, -18, 33, 44}, {11, -18, 33, 44}}));
  EXPECT_EQ(both([](Rank& rank, int, ncclComm_t comm) {
              return ncclAllReduce(rank.in, rank.out, 4, ncclFloat, ncclMax, comm, rank.stream);
            })[1],
            (Floats{10, 2, 30, 40}));
  EXPECT_EQ(both([](Rank& rank, int, ncclComm_t comm) {
              return ncclBroadcast(rank.in, rank.out, 4, ncclFloat, 1, comm, rank.stream);
            })[0],
            (Floats{10, -20, 30, 40}));
  EXPECT_EQ(both([](Rank& rank, int, ncclComm_t comm) {
              return ncclAllGather(rank.in, rank.out, 2, ncclFloat, comm, rank.stream);
            })[0],
            (Floats{1, 2, 10, -20}));
  const auto scattered = both([](Rank& rank, int, ncclComm_t comm) {
    return ncclReduceScatter(rank.in, rank.out, 2, ncclFloat, ncclSum, comm, rank.stream);
  });
  EXPECT_EQ(scattered[0][1], -18);
  EXPECT_EQ(scattered[1][0], 33);
  EXPECT_EQ(both([](Rank& rank, int, ncclComm_t comm) {
              return ncclReduce(rank.in, rank.out, 4, ncclFloat, ncclMin, 0, comm, rank.stream);
            })[0],
            (Floats{1, -20, 3, 4}));
}

TEST(EmulatedNccl, ThreadsExchangeAsRanks) {
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  Floats results[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([r, id, &results] {
      EXPECT_CUDA(cudaSetDevice(r));
      ncclComm_t comm = nullptr;
      EXPECT_NCCL(ncclCommInitRank(&comm, 2, id, r));
      Rank rank(r, Floats(3, static_cast<float>(r + 1)));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclSend(rank.in, 3, ncclFloat, 1 - r, comm, rank.stream));
      EXPECT_NCCL(ncclRecv(rank.out, 3, ncclFloat, 1 - r, comm, rank.stream));
      EXPECT_NCCL(ncclGroupEnd());
      EXPECT_NCCL(ncclAllReduce(rank.out, rank.out, 3, ncclFloat, ncclSum, comm, rank.stream));
      results[r] = rank.result();
      EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], Floats(3, 3));
  EXPECT_EQ(results[1], Floats(3, 3));
}

TEST(EmulatedNccl, RefusesAGpuTwiceAndAbortsEndWaits) {
  ncclComm_t comms[2];
  const int same[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, same), ncclInvalidUsage);
  EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  Rank rank(0, {1});
  EXPECT_NCCL(ncclAllReduce(rank.in, rank.out, 1, ncclFloat, ncclSum, comms[0], rank.stream));
  std::thread waiting([&] { EXPECT_CUDA(cudaStreamSynchronize(rank.stream)); });
  EXPECT_NCCL(ncclCommAbort(comms[1]));  // who would have been the other one
  waiting.join();
  EXPECT_EQ(ncclAllReduce(rank.in, rank.out, 1, ncclFloat, ncclSum, comms[0], rank.stream),
            ncclInvalidUsage);
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
}

TEST(EmulatedNccl, OneThreadNeedsAGroup) {
  ncclComm_t comms[2];
  EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  Rank ranks[2] = {{0, {1}}, {1, {1}}};
  EXPECT_DEATH(
      for (int r = 0; r < 2; ++r) {
        ncclAllReduce(ranks[r].in, ranks[r].out, 1, ncclFloat, ncclSum, comms[r], ranks[r].stream);
      },
      "without ncclGroupStart");
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
