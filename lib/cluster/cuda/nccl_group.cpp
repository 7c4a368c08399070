// GpuGroup by NCCL.
#include "cluster/cuda/nccl_member.hpp"

#ifdef HETSGD_NCCL
#include <atomic>
#include <mutex>
#include <thread>

#include "cluster/cuda/ring_group.hpp"
#include "core/error.hpp"

namespace hetsgd::cuda {

namespace {

class NcclGroup final : public GpuGroup {
 public:
  NcclGroup(std::vector<int> gpus, const GpuGroupOptions& options)
      : gpus_(std::move(gpus)), ring_(gpus_, options), members_(gpus_.size()) {}

  AllReduce method() const override { return AllReduce::nccl; }

  void move(int rank, const CollectiveCall& call, std::span<const void* const> in,
            std::span<void* const> out) override {
    if (call.count == 0) return;
    const auto r = static_cast<std::size_t>(rank);
    try {
      std::call_once(made_, [&] { make_members(); });
      NcclMember& me = *members_[r];
      me.start(call, in[r], out[r]);
      while (!me.done()) {
        if (failed_) return me.abort();  // another rank's share never comes
        std::this_thread::yield();
      }
    } catch (...) {
      failed_ = true;  // nobody's kernel waits for this rank's any more
      throw;
    }
  }

  void fetch(int rank, int from, const void* source, void* target, std::size_t bytes) override {
    ring_.fetch(rank, from, source, target, bytes);
  }

 private:
  void make_members() {
    const Nccl& nccl = Nccl::get();
    std::vector<ncclComm_t> comms(gpus_.size());
    nccl.check(nccl.init_all(comms.data(), static_cast<int>(comms.size()), gpus_.data()),
               "ncclCommInitAll");
    for (std::size_t r = 0; r < comms.size(); ++r) {
      HETSGD_CUDA(cudaSetDevice(gpus_[r]));
      members_[r] = std::make_unique<NcclMember>(comms[r], gpus_[r], static_cast<int>(r),
                                                 static_cast<int>(gpus_.size()));
    }
    HETSGD_CUDA(cudaSetDevice(gpus_[0]));
  }

  const std::vector<int> gpus_;
  RingGroup ring_;  // for what NCCL does not do
  std::once_flag made_;
  std::vector<std::unique_ptr<NcclMember>> members_;
  std::atomic<bool> failed_ = false;
};

}  // namespace

std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int> gpus, const GpuGroupOptions& options) {
  return std::make_unique<NcclGroup>(std::move(gpus), options);
}

}  // namespace hetsgd::cuda
#endif
