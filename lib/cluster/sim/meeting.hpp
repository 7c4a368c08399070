// Meeting: one group's collectives, one at a time. Every rank arrives; the last one starts it; all
// go on when the analytic cost of the network's topology has passed.
//
// From the last arrival to the completion the contributions belong to the collective; the host pool
// moves the data meanwhile: reductions in rank order, each input read once, each output written
// once.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "cluster/collective_call.hpp"
#include "cluster/sim/world.hpp"

namespace hetsgd::sim {

// What a rank brings to split, and what it gets.
struct SplitPart {
  int color = 0, key = 0;
  std::shared_ptr<Group> group;  // null: none
  int rank = 0;
};

// What a rank brings to agree, and what it gets: the same object as all others.
struct AgreePart {
  const Comm::Maker* make = nullptr;
  std::shared_ptr<const void> made;
};

class Meeting {
 public:
  // `workers`: the members' ranks in the world.
  Meeting(World& world, std::vector<int> workers);

  const std::vector<int>& workers() const { return workers_; }
  int size() const { return static_cast<int>(workers_.size()); }

  // Returns when the collective is complete. in: what the rank contributes; out: where its result
  // goes (a SplitPart for split, an AgreePart for agree). Checked: all ranks make the same call.
  void attend(int rank, const CollectiveCall& call, const void* in, void* out);

 private:
  struct Range {  // of elements: one task for the host pool
    Meeting* meeting;
    std::size_t begin, end;
    void operator()() const { meeting->move(begin, end); }
  };

  void join(int rank, const CollectiveCall& call, const void* in, void* out, Process& self);
  void start();
  void complete();
  void start_moving();
  void move(std::size_t begin, std::size_t end) const;
  void reduce_all(std::size_t begin, std::size_t end) const;
  void reduce_blocks(std::size_t begin, std::size_t end) const;
  double cost() const;
  double charged() const;
  void count_bytes() const;
  void form_groups() const;
  void make_for_all() const;

  World& world_;
  std::vector<int> workers_;

  CollectiveCall call_;
  int arrived_ = 0;
  int first_ = 0;  // the rank that came first
  double last_arrival_ = 0;
  // By rank.
  std::vector<Process*> process_;  // null: not here yet
  std::vector<double> arrival_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  // Data movement. Tasks refer to ranges, so these come first.
  std::vector<Range> ranges_;
  std::deque<HostTask> tasks_;
};

}  // namespace hetsgd::sim
