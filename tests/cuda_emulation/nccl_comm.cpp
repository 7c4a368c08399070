// Communicators and groups of the emulated NCCL.
#include <cstring>
#include <utility>

#include "nccl_clique.hpp"

namespace hetsgd_emulation {

thread_local int group_depth = 0;

namespace {

thread_local std::vector<std::function<ncclResult_t()>> group;

std::map<std::string, std::weak_ptr<Clique>>& cliques() {  // by id
  static auto* const all = new std::map<std::string, std::weak_ptr<Clique>>;
  return *all;
}

// This process' part of a communicator; null: there is no such. Under the lock.
std::shared_ptr<Clique> clique_of(const ncclUniqueId& id, int ranks) {
  std::weak_ptr<Clique>& slot = cliques()[{id.internal, sizeof id.internal}];
  std::shared_ptr<Clique> clique = slot.lock();
  if (clique) return clique->ranks() == ranks ? clique : nullptr;
  std::unique_ptr<Board> board = Board::open(id, ranks);
  if (board) slot = clique = std::make_shared<Clique>(std::move(board), true);
  return clique;
}

bool complete(const Clique& clique) {
  for (int rank = 0; rank < clique.ranks(); ++rank) {
    if (clique.gpu(rank) < 0) return false;
  }
  return true;
}

// NCCL takes no GPU twice.
ncclResult_t verdict(const Clique& clique) {
  std::set<int> gpus;
  for (int rank = 0; rank < clique.ranks(); ++rank) gpus.insert(clique.gpu(rank));
  return static_cast<int>(gpus.size()) == clique.ranks() ? ncclSuccess : ncclInvalidUsage;
}

// Asked again and again: the others may be in other processes.
ncclResult_t meet(const Clique& clique, const ncclUniqueId& id) {
  if (!complete(clique)) return ncclInProgress;
  withdraw_board(id);
  return verdict(clique);
}

ncclResult_t in_turn(std::function<ncclResult_t()> call) {
  if (group_depth == 0) return call();
  group.push_back(std::move(call));
  return ncclSuccess;
}

// Makes progress with the calls that a communicator that does not block has begun.
ncclResult_t progress(ncclComm& comm) {
  if (comm.state != ncclInProgress) return comm.state;
  if (comm.begun.empty()) return comm.state = ncclSuccess;
  while (!comm.begun.empty()) {
    const ncclResult_t result = comm.begun.front()();
    if (result == ncclInProgress) return result;
    comm.begun.pop_front();
    if (result != ncclSuccess) return comm.state = result;
  }
  return ncclInProgress;  // who asks again hears that it is over
}

// This rank's communicator. Under the lock.
ncclResult_t enter(ncclComm_t* comm, const std::shared_ptr<Clique>& clique, int rank, int gpu) {
  if (rank < 0 || rank >= clique->ranks() || !clique->board->sit_down(rank, gpu)) {
    return ncclInvalidArgument;
  }
  clique->here.insert(rank);
  *comm = new ncclComm{clique, rank};
  return ncclSuccess;
}

}  // namespace

ncclResult_t now_or_later(ncclComm_t comm, const std::function<ncclResult_t()>& call) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (comm->state == ncclInProgress) return ncclInvalidArgument;
  if (comm->state != ncclSuccess) return comm->state;
  return in_turn([=] {
    if (comm->blocking) return call();
    comm->begun.push_back(call);
    return comm->state = ncclInProgress;
  });
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22700;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = offer_board();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (ranks < 1 || ranks > Board::kMostRanks) return ncclInvalidArgument;
  std::shared_ptr<Clique> clique;
  {
    const Lock lock(mutex);
    clique = clique_of(id, ranks);
    if (clique == nullptr) return ncclInvalidArgument;
    const ncclResult_t result = enter(comm, clique, rank, current_gpu());
    if (result != ncclSuccess) return result;
  }
  if (config == nullptr || config->blocking != 0) misuse("NCCL: ranks that join block");
  (*comm)->blocking = false;
  (*comm)->begun.push_back([=] { return meet(*clique, id); });
  return (*comm)->state = ncclInProgress;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (count < 1 || count > Board::kMostRanks) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>(Board::make(count), false);
  const Lock lock(mutex);
  for (int rank = 0; rank < count; ++rank) {
    const int gpu = devices != nullptr ? devices[rank] : rank;
    if (gpu < 0 || gpu >= settings().gpus) return ncclInvalidArgument;
    enter(&comms[rank], clique, rank, gpu);
  }
  const ncclResult_t result = verdict(*clique);
  if (result != ncclSuccess) {
    for (int rank = 0; rank < count; ++rank) delete std::exchange(comms[rank], nullptr);
  }
  return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
// Ends the waits of this process for the communicator's operations. Other processes are not told.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const Lock lock(mutex);
    comm->clique->aborted = true;
    comm->clique->holds.clear();
    changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->clique->aborted ? ncclRemoteError : progress(*comm);
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
    const bool tells_nothing = result == ncclSuccess || result == ncclInProgress;
    if (one != ncclSuccess && tells_nothing) result = one;
  }
  return result;
}

}  // extern "C"
