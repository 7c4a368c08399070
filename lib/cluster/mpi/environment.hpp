// Environment: the MPI library of this process, initialised once and ended once, and the group of
// ranks that it makes.
//
//              get()               call_the_roll()            leave()
//    absent ----------> initialised -------------> in use ----------------> finalised
//               MPI_Init,           all ranks run    |        all have come; MPI_Finalize
//               places, channel     the same         +-----------------------> aborted
//                                                       somebody cannot come; MPI_Abort
//
// Calls that may block inside MPI without end are watched: the start by a StartWatch, the end by a
// time limit.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/process_group.hpp"

namespace hetsgd::mpi {

class Channel;
class Coordinator;

// Throws Error(runtime) with the library's text unless `code` is MPI_SUCCESS. The communicators of
// this program return errors instead of ending the process.
void check(int code, std::string_view call);

// One per process, made at the first get() and never destroyed. Its threads and those of the MPI
// library may be in use until the process ends. Functions are called by the program's main thread
// unless they say otherwise.
class Environment final : public ProcessGroup {
 public:
  // Initialises MPI at the first call, under a watch of `peer_timeout`; later calls return the same
  // object, whatever they pass. Collective at the first call. Throws Error(device) if the library
  // gives less than MPI_THREAD_MULTIPLE, which the channel's thread needs.
  static Environment& get(Seconds peer_timeout = kPeerTimeout);
  ~Environment() override;

  // The control messages of this process, on a communicator of their own. Lives as long as the
  // process.
  Channel& channel() { return *channel_; }
  Coordinator& coordinator() { return *coordinator_; }
  // A run has failed: leave() waits for the others for a limited time only.
  void remember_failure() { failed_ = true; }

  // --- ProcessGroup, where each is described
  const std::vector<ProcessPlace>& places() const override { return places_; }
  int rank() const override { return rank_; }
  Control* control() override;
  void call_the_roll(const std::vector<Fact>& facts, Seconds peer_timeout) override;
  void compare(const std::vector<Fact>& facts) override;
  std::string library() const override;
  bool takes_gpu_memory() const override;
  // Both block inside of MPI: neither a pause nor an abort reaches the caller. Where a rank is lost
  // meanwhile the job is aborted, with a message.
  void library_all_reduce(std::span<float> x) override;
  void library_all_to_all(std::span<const float> send, std::span<float> receive) override;
  bool root_is_lost() const override;
  // Also called by exit(), where the program has not called it.
  int leave(int exit_code) override;

 private:
  explicit Environment(Seconds peer_timeout);
  // By the channel's thread. Ends the whole job if a library_ function waits for a lost rank.
  void abort_if_library_waits_for_lost() const;
  // Collective: fills rank_ and places_.
  void gather_places();
  void agree_on(const std::function<void()>& prepare, std::span<std::byte> answer) override;
  // compare() with a patience of its own for the other ranks' heartbeats.
  void compare_within(const std::vector<Fact>& facts, Seconds peer_timeout);

  int rank_ = 0;
  std::vector<ProcessPlace> places_;
  Seconds peer_timeout_ = kPeerTimeout;
  // Duplicate of MPI_COMM_WORLD that the channel alone uses.
  MPI_Comm control_ = MPI_COMM_NULL;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Coordinator> coordinator_;
  // A thread of this process is in a library_ function.
  std::atomic<bool> in_library_ = false;
  // A run or an agreement has failed.
  bool failed_ = false;
  // leave() has been called.
  bool left_ = false;
};

}  // namespace hetsgd::mpi
