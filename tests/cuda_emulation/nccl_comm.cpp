// Communicators and groups of the emulated NCCL.
#include <chrono>
#include <cstring>
#include <utility>

#include "nccl_clique.hpp"

namespace hetsgd_emulation {

thread_local int group_depth = 0;

namespace {

thread_local std::vector<std::function<ncclResult_t()>> group;

std::map<std::string, std::weak_ptr<Clique>>& cliques() {
  static auto* const all = new std::map<std::string, std::weak_ptr<Clique>>;
  return *all;
}

// A rank enters its clique. NCCL takes no GPU twice.
ncclResult_t enter(ncclComm_t* comm, const std::shared_ptr<Clique>& clique, int rank, int gpu) {
  const auto at = static_cast<std::size_t>(rank);
  if (rank < 0 || at >= clique->gpus.size() || clique->gpus[at] != -1) return ncclInvalidArgument;
  if (std::find(clique->gpus.begin(), clique->gpus.end(), gpu) != clique->gpus.end()) {
    clique->refused = true;
  }
  clique->gpus[at] = gpu;
  *comm = new ncclComm{clique, rank};
  changed.notify_all();
  return clique->refused ? ncclInvalidUsage : ncclSuccess;
}

}  // namespace

ncclResult_t now_or_later(std::function<ncclResult_t()> call) {
  if (group_depth == 0) return call();
  group.push_back(std::move(call));
  return ncclSuccess;
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22700;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t next = 0;
  const Lock lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string text = fmt::format("emulated {}", ++next);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  *comm = nullptr;
  if (ranks < 1) return ncclInvalidArgument;
  std::shared_ptr<Clique> clique;
  {
    const Lock lock(mutex);
    std::weak_ptr<Clique>& slot = cliques()[id.internal];
    clique = slot.lock();
    if (clique == nullptr) slot = clique = std::make_shared<Clique>(ranks);
    if (clique->gpus.size() != static_cast<std::size_t>(ranks)) return ncclInvalidArgument;
    const ncclResult_t result = enter(comm, clique, rank, current_gpu());
    if (result == ncclInvalidArgument) return result;
  }
  return now_or_later([clique] {
    Lock lock(mutex);
    const auto patience = std::chrono::duration<double>(settings().hang_s);
    if (!changed.wait_for(lock, patience, [&] { return clique->complete(); })) {
      misuse("NCCL: a rank waits for others that do not come into the communicator");
    }
    return clique->refused ? ncclInvalidUsage : ncclSuccess;
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (count < 1) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>(count);
  const Lock lock(mutex);
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < count; ++rank) {
    const int gpu = devices != nullptr ? devices[rank] : rank;
    if (gpu < 0 || gpu >= settings().gpus) return ncclInvalidArgument;
    const ncclResult_t one = enter(&comms[rank], clique, rank, gpu);
    if (one != ncclSuccess) result = one;
  }
  if (result != ncclSuccess) {
    for (int rank = 0; rank < count; ++rank) delete std::exchange(comms[rank], nullptr);
  }
  return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
// Whoever waits for this communicator's operations waits no longer.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const Lock lock(mutex);
    Clique& clique = *comm->clique;
    clique.aborted = true;
    for (auto& [number, round] : clique.rounds) round->meeting->aborted = true;
    for (auto& [pair, mail] : clique.mail) mail.sent->aborted = true;
    changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = static_cast<int>(comm->clique->gpus.size());
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->clique->gpus[static_cast<std::size_t>(comm->rank)];
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Lock lock(mutex);
  *error = comm->clique->aborted ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& call : std::exchange(group, {})) {
    const ncclResult_t one = call();
    if (result == ncclSuccess) result = one;
  }
  return result;
}

}  // extern "C"
