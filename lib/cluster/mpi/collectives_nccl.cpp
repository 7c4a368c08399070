// The collectives of MpiComm that NCCL does.
#include "cluster/mpi/comm.hpp"

namespace hetsgd::mpi {

// Large collectives begin with it: so what a rank waits for late ones is not mixed up with what the
// transfer takes, and their calls are compared. True: all bring GPU memory alone, and NCCL goes on.
bool MpiComm::begin_large(const CollectiveCall& call, const void* in, const void* out) {
  const bool hopes = !group_->knows_nccl || group_->nccl != nullptr;
  const bool mine = hopes && groups_.gpus().tries_nccl() && threads::is_device_memory(in, 1) &&
                    threads::is_device_memory(out, 1);
  if (!rounds(call, mine)) return false;
  if (!group_->knows_nccl) ask_for_nccl(call);
  return group_->nccl != nullptr;
}

// All ranks of the group are here, and each has a GPU.
void MpiComm::ask_for_nccl(CollectiveCall call) {
  GpuRanks& gpus = groups_.gpus();
  const cuda::RankGpu mine = gpus.mine();
  std::vector<cuda::RankGpu> all(members_.size());
  gather_small(call, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  group_->knows_nccl = true;
  if (!gpus.can_use_nccl(all)) return;
  cuda::NcclId id{};
  if (rank_ == 0) id = cuda::make_nccl_id();
  call.root = 0;
  spread(call, std::as_writable_bytes(std::span(id)));
  group_->nccl = &gpus.join(world(), id, rank_, size());
}

// in, out: as the collective of `call` has them, the same where it is in place.
void MpiComm::by_nccl(const CollectiveCall& call, const void* in, void* out) {
  threads::Process& me = World::current();
  me.device->synchronize();  // NCCL's stream does not wait for the device's
  me.ledger.count(GpuPath::nccl);
  group_->nccl->start(call, in, out);
  await(world(), *group_->nccl, "waits for NCCL");
}

}  // namespace hetsgd::mpi
