// Communicators of the emulated NCCL, and their operations in flight.
#pragma once

#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "emulation.hpp"
#include "nccl_board.hpp"

namespace hetsgd_emulation {

// This process' contributions to the k-th collective of a communicator.
struct Round {
  std::thread::id thread;                      // of a call outside of groups
  std::map<int, Point> sent = {}, taken = {};  // by rank: where its queue has done it
};

// Marks memory as used by a collective from its call to its end. Freeing it meanwhile ends the
// program.
class Hold {
 public:
  explicit Hold(const void* memory) : memory_(memory) { hold_memory(memory_); }
  ~Hold() { let_memory_go(memory_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const void* memory_;
};

struct Mail {
  Point sent = {};  // queue null: not yet
  std::vector<char> bytes;
  int ends = 0;  // sender and receiver who have it
};

// A communicator in this process: whichever of its ranks are here.
struct Clique {
  Clique(std::unique_ptr<Board> its_board, bool may_be_outside)
      : board(std::move(its_board)), outside(may_be_outside) {
    if (outside) ++waits_for_processes;
  }
  ~Clique() {
    if (outside) --waits_for_processes;
  }
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  int ranks() const { return board->ranks(); }
  int gpu(int rank) const { return board->seat(rank).gpu - 1; }  // -1: has not come

  const std::unique_ptr<Board> board;
  const bool outside;  // made by an id: ranks may be in other processes
  std::atomic<bool> aborted = false;
  std::set<int> here;  // ranks of this process
  std::map<std::uint64_t, Round> rounds;
  std::multimap<std::pair<std::uint64_t, int>, Hold> holds;                   // by number and rank
  std::map<std::tuple<int, int, std::uint64_t>, std::shared_ptr<Mail>> mail;  // from, to, number
};

extern thread_local int group_depth;
// Now, or at the end of the group; of a communicator that does not block, later still.
ncclResult_t now_or_later(ncclComm_t comm, const std::function<ncclResult_t()>& call);

}  // namespace hetsgd_emulation

struct ncclComm {
  std::shared_ptr<hetsgd_emulation::Clique> clique;
  int rank = 0;
  bool blocking = true;
  // State of a communicator that does not block. A call does nothing before its progress is asked
  // for, as if NCCL's thread were slow. Code that only looks at the stream sees it without the
  // call's kernels.
  ncclResult_t state = ncclSuccess;
  std::deque<std::function<ncclResult_t()>> begun = {};
  std::uint64_t collectives = 0;
  hetsgd_emulation::Point last = {};                      // where its last collective is over
  std::map<int, std::uint64_t> sent = {}, received = {};  // by peer
};
