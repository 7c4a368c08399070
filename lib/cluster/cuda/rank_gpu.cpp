#include "cluster/cuda/rank_gpu.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/cuda/nccl_member.hpp"
#include "cluster/cuda/ring_group.hpp"
#include "core/error.hpp"

namespace hetsgd::cuda {

namespace {

class GpuExchangeMemory final : public ExchangeMemory {
 public:
  explicit GpuExchangeMemory(int gpu) : gpu_(gpu), stream_(make_on<Stream>(gpu)) {}
  ~GpuExchangeMemory() override {
    for (const Held& room : scratch_) cudaFree(room.memory);
  }

  std::byte* reserve(Scratch which, std::size_t bytes) override {
    Held& room = scratch_[static_cast<std::size_t>(which)];
    if (bytes > room.capacity) {
      cudaFree(room.memory);
      room = {};
      room.memory = allocate(with_slack(bytes));
      room.capacity = with_slack(bytes);
    }
    return room.memory;
  }

  std::byte* allocate(std::size_t bytes) override {
    HETSGD_CUDA(cudaSetDevice(gpu_));
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status != cudaSuccess) fail_memory(status, bytes, "exchanges between ranks", 0);
    return static_cast<std::byte*>(memory);
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    HETSGD_CUDA(cudaSetDevice(gpu_));
    HETSGD_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_->get()));
    stream_->synchronize();
  }

  void reduce(std::span<const void* const> in, void* out, std::size_t n, Element element,
              ReduceOp op) override {
    HETSGD_CUDA(cudaSetDevice(gpu_));
    reduce_on(*stream_, n, element, op, in, {&out, 1});
    stream_->synchronize();
  }

 private:
  struct Held {
    std::byte* memory = nullptr;
    std::size_t capacity = 0;
  };
  const int gpu_;
  const std::unique_ptr<Stream> stream_;
  std::array<Held, 3> scratch_;  // by Scratch
};

}  // namespace

void make_current(int gpu) { HETSGD_CUDA(cudaSetDevice(gpu)); }

std::shared_ptr<ExchangeMemory> make_exchange_memory(int gpu) {
  return std::make_shared<GpuExchangeMemory>(gpu);
}

std::string nccl_problem(std::span<const RankGpu> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].nccl_version == 0) return fmt::format("rank {} has no NCCL", r);
    if (ranks[r].nccl_version / 100 != ranks[0].nccl_version / 100) {
      return fmt::format("rank 0 has NCCL {} and rank {} has {}", ranks[0].nccl_version, r,
                         ranks[r].nccl_version);
    }
    for (std::size_t other = 0; other < r; ++other) {
      if (ranks[r].uuid != ranks[other].uuid) continue;
      return fmt::format("ranks {} and {} share a GPU, and NCCL needs one for each", other, r);
    }
  }
  return "";
}

#ifdef HETSGD_NCCL

RankGpu rank_gpu(int gpu) {
  RankGpu mine;
  cudaDeviceProp properties;
  HETSGD_CUDA(cudaGetDeviceProperties(&properties, gpu));
  static_assert(sizeof properties.uuid.bytes == sizeof mine.uuid);
  std::memcpy(mine.uuid.data(), properties.uuid.bytes, mine.uuid.size());
  try {
    Nccl::get().check(Nccl::get().version(&mine.nccl_version), "ncclGetVersion");
  } catch (const Error&) {
    mine.nccl_version = 0;
  }
  return mine;
}

NcclId make_nccl_id() {
  ncclUniqueId id;
  Nccl::get().check(Nccl::get().unique_id(&id), "ncclGetUniqueId");
  NcclId bytes;
  static_assert(sizeof id == sizeof bytes);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

std::unique_ptr<NcclRank> join_nccl(const NcclId& bytes, int gpu, int rank, int size) {
  ncclUniqueId id;
  std::memcpy(&id, bytes.data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  HETSGD_CUDA(cudaSetDevice(gpu));
  const Nccl& nccl = Nccl::get();
  nccl.check(nccl.init_rank(&comm, size, id, rank, &config), "ncclCommInitRankConfig");
  return std::make_unique<NcclMember>(comm, gpu, rank, size);
}

#else

RankGpu rank_gpu(int) { return {}; }
NcclId make_nccl_id() { throw CheckFailure("NCCL in a binary without it"); }
std::unique_ptr<NcclRank> join_nccl(const NcclId&, int, int, int) {
  throw CheckFailure("NCCL in a binary without it");
}

#endif

}  // namespace hetsgd::cuda
