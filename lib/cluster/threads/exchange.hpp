// Exchanges between two ranks of a group that wait for their partner. All members are called under
// the world's mutex.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/comm.hpp"
#include "cluster/threads/world.hpp"

namespace hetsgd::threads {

// One rank's side of an exchange. On its stack, until its partner no longer reads its `out`.
struct PostedExchange {
  int rank = 0;
  int peer = 0;
  int tag = 0;
  std::span<const std::byte> out = {};
  std::span<std::byte> in = {};
  Traffic kind = Traffic::control;
  bool on_device = false;
  Process* process = nullptr;
  PostedExchange* partner = nullptr;  // null: not here yet
  bool filled = false;                // `in` is, by the partner: short ones
  bool released = false;              // the partner has read `out`
};

// Those of one rank.
class Exchanges {
 public:
  // The first with this peer and tag that has no partner yet; null: none.
  PostedExchange* find(int peer, int tag) const;
  void post(PostedExchange& exchange) { posted_.push_back(&exchange); }
  void withdraw(PostedExchange& exchange) { std::erase(posted_, &exchange); }

 private:
  std::vector<PostedExchange*> posted_;
};

}  // namespace hetsgd::threads
