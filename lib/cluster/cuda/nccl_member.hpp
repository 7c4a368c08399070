// One rank of an NCCL communicator: its GPU, its stream and the collectives of Comm.
#pragma once

#ifdef HETSGD_NCCL
#include "cluster/collective_call.hpp"
#include "cluster/cuda/nccl.hpp"
#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

class NcclMember {
 public:
  // Takes over `comm`, whose GPU is `gpu`; it may still be in the making (blocking = 0).
  NcclMember(ncclComm_t comm, int gpu, int rank, int size);
  // Destroys the communicator; aborts it where a call failed or has not ended.
  ~NcclMember();
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;

  // Starts the share of this rank; in and out are memory of its GPU that is ready, the same where
  // the call is in place. Errors (device): a call failed.
  void start(const CollectiveCall& call, const void* in, void* out);
  // True: the communicator is there, and what was started has ended. Errors (device): it never will.
  bool done();
  // From here on its kernels wait for nobody. Nothing can be started any more.
  void abort() noexcept;

 private:
  ncclResult_t launch(const CollectiveCall& call, const void* in, void* out);
  ncclResult_t reduce_scatter(const CollectiveCall& call, std::byte* data);

  const Nccl& nccl_ = Nccl::get();
  ncclComm_t comm_;
  const int gpu_, rank_, size_;
  const Stream stream_;
  bool pending_ = true;
};

}  // namespace hetsgd::cuda
#endif
