// Communicators of the emulated NCCL, and what is under way in them.
#pragma once

#include <algorithm>
#include <map>
#include <thread>
#include <tuple>

#include "emulation.hpp"
#include "nccl.h"

namespace hetsgd_emulation {

struct Call {
  enum class What { all_reduce, reduce, broadcast, all_gather, reduce_scatter };
  What what = What::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat;
  ncclRedOp_t op = ncclSum;
  int root = 0;

  bool matches(const Call& other) const {
    return what == other.what && count == other.count && type == other.type && op == other.op &&
           root == other.root;
  }
};

struct Round {  // the k-th collective of a communicator
  std::vector<Call> calls;
  std::size_t arrived = 0;
  std::thread::id thread;  // of a call outside of groups
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>();
};

struct Mail {
  std::shared_ptr<Later> sent = std::make_shared<Later>();
  std::shared_ptr<std::vector<char>> bytes = std::make_shared<std::vector<char>>();
  int ends = 0;  // sender and receiver who have it
};

struct Clique {
  explicit Clique(int ranks) : gpus(static_cast<std::size_t>(ranks), -1) {}
  Arenas arenas() const {
    Arenas all = 0;
    for (const int gpu : gpus) all |= arenas_of(gpu);
    return all;
  }
  bool complete() const { return std::find(gpus.begin(), gpus.end(), -1) == gpus.end(); }

  std::vector<int> gpus;  // by rank
  bool aborted = false, refused = false;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
  std::map<std::tuple<int, int, std::uint64_t>, Mail> mail;  // from, to, number
};

extern thread_local int group_depth;
// Now, or at the end of the group.
ncclResult_t now_or_later(std::function<ncclResult_t()> call);

}  // namespace hetsgd_emulation

struct ncclComm {
  std::shared_ptr<hetsgd_emulation::Clique> clique;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::map<int, std::uint64_t> sent = {}, received = {};  // by peer
};
