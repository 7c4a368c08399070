// The collectives of MpiComm that NCCL does. Whether it does one is decided by all ranks alike:
//
//                begin_large: all bring GPU memory and hope for it
//    unknown ------------------------------------------------------> asked (once per group)
//                                                       all GPUs will do |      | some will not
//                                                                        v      v
//                                              works: a communicator, until    never again
//                                              the run ends
#include "cluster/mpi/comm.hpp"

namespace hetsgd::mpi {

// Large collectives begin with it: so the wait for late ranks is not mixed up with what the
// transfer takes, and the calls of the ranks are compared. True: all bring GPU memory alone, and
// NCCL goes on.
bool MpiComm::begin_large(const CollectiveCall& call, const void* in, const void* out) {
  const bool mine = hopes_for_nccl() && is_device_memory(in, 1) && is_device_memory(out, 1);
  return rounds(call, mine) && nccl_works(call);
}

bool MpiComm::hopes_for_nccl() const {
  // Once the group knows that NCCL does not work, no rank hopes any more.
  return (!group_->knows_nccl || group_->nccl != nullptr) && groups_.gpus().tries_nccl();
}

// All ranks hope for it, so all of them come here, and may make steps together.
bool MpiComm::nccl_works(const CollectiveCall& call) {
  if (!group_->knows_nccl) ask_for_nccl(call);
  return group_->nccl != nullptr;
}

// All ranks of the group are here, and each has a GPU. Its messages belong to the collective that
// is on.
void MpiComm::ask_for_nccl(CollectiveCall call) {
  GpuRanks& gpus = groups_.gpus();
  const cuda::RankGpu mine = gpus.mine();
  std::vector<cuda::RankGpu> all(members_.size());
  gather_small(call, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  // Before can_use_nccl() may throw: that ends the run on every rank, as all have the same facts.
  group_->knows_nccl = true;
  if (!gpus.can_use_nccl(all)) return;
  cuda::NcclId id{};
  if (rank_ == 0) id = cuda::make_nccl_id();
  // The spread has a root; all ranks change their call in the same way, so the calls still agree.
  call.root = 0;
  spread(call, std::as_writable_bytes(std::span(id)));
  group_->nccl = &gpus.join(world(), id, rank_, size());
}

// in, out: as GpuGroup::move has them.
void MpiComm::by_nccl(const CollectiveCall& call, const void* in, void* out) {
  Process& me = World::current();
  me.device->synchronize();  // NCCL's stream does not wait for the device's
  me.breakdown.count(GpuPath::nccl);
  group_->nccl->start(call, in, out);
  await(world(), *group_->nccl, "waits for NCCL");
}

}  // namespace hetsgd::mpi
