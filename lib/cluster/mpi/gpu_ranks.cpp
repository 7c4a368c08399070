#include "cluster/mpi/gpu_ranks.hpp"

#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// Asks NCCL again and again instead of blocking in it. Where the run is aborted, the communicator
// is aborted too: its kernels would wait on the GPU for ranks that never come.
class ForNccl final : public Poll {
 public:
  ForNccl(cuda::NcclRank& nccl, const char* what) : nccl_(nccl), what_(what) {}
  bool done() override { return nccl_.done(); }
  bool cancel() override {
    nccl_.abort();
    return false;
  }
  std::string describe() const override { return what_; }
  bool transfers() const override { return true; }

 private:
  cuda::NcclRank& nccl_;
  const char* const what_;
};

}  // namespace

bool GpuRanks::can_use_nccl(std::span<const cuda::RankGpu> ranks) const {
  const std::string problem = cuda::nccl_problem(ranks);
  if (!problem.empty() && method_ == AllReduce::nccl) {
    throw with_hint(device_error("--all-reduce nccl: {}", problem),
                    "--all-reduce auto takes another method where NCCL cannot work");
  }
  return problem.empty();
}

cuda::NcclRank& GpuRanks::join(World& world, const cuda::NcclId& id, int rank, int size) {
  auto made = cuda::join_nccl(id, gpu_, rank, size);
  cuda::NcclRank& nccl = *made;
  {
    const std::lock_guard guard(mutex_);
    // The list owns it before anybody waits: where the wait unwinds, close() still destroys it.
    joined_.push_back(std::move(made));
  }
  await(world, nccl, "waits for the others to join NCCL");
  return nccl;
}

void await(World& world, cuda::NcclRank& nccl, const char* what) {
  ForNccl poll(nccl, what);
  poll_until(world, poll, &TimeBreakdown::communicate);
}

}  // namespace hetsgd::mpi
