// Coordinator: what the ranks of a run agree on beside the training: when it starts and ends, who
// stops the world, and with which error it fails. Rank 0 decides; messages travel on the Channel.
//
// Meetings. A rank that comes to a point tells rank 0, which tells all when everybody has come:
// before the run (so that nobody waits inside of an MPI call for a rank that has failed), when the
// workers are set up (the answer is the instant at which the clocks start), and when all processes
// of all ranks have ended. An error ends a meeting.
//
// Fences. Whoever wants one asks rank 0, which grants one after the other: all stop; the fence
// begins at the latest instant at which a rank had stopped; the asking process runs its function;
// all go on at one instant a little in the future, so that the message has arrived by then. Both
// instants are rank 0's, and every rank knows its clock's offset: each takes the same time off its
// clock, and the clocks of the ranks do not drift apart.
//
// Errors. The first that reaches rank 0 is the error of the run, thrown by every rank.
//
// Deadlocks. A rank on which everybody has waited for long says so with its signs of life. When all
// ranks have for the time of --peer-timeout, that is an error which names all waits.
//
// Agreements. Outside of runs (options, data) all ranks come to the same points, and leave them with
// rank 0's answer or the same error.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/blocking.hpp"
#include "cluster/mpi/channel.hpp"
#include "cluster/mpi/failure.hpp"
#include "cluster/service_recipe.hpp"

namespace hetsgd::mpi {

// What the coordinator asks of the run that is on, from the channel's thread.
class Local {
 public:
  virtual void fail(std::exception_ptr error) = 0;
  virtual void stop() = 0;
  virtual std::int64_t stopped_at() = 0;  // monotonic ns of this host; 0: somebody runs
  virtual void freeze(std::int64_t at) = 0;
  virtual void grant() = 0;  // to the process that has asked first
  virtual void resume(std::int64_t at, bool together) = 0;
  virtual void left(int rank) = 0;  // where services are: a worker has ended
  // Where services are: rank `from` has opened one.
  virtual void opened(int from, const std::string& name) = 0;
  virtual void make(const std::string& name, const ServiceRecipe& recipe) = 0;
  virtual Pace pace() = 0;  // of the channel, whose thread calls it
  virtual bool still_receives() = 0;
  // World::blocked_since, as a duration.
  virtual std::optional<Seconds> blocked(std::vector<BlockedProcess>& waiting) = 0;

 protected:
  ~Local() = default;
};

class Coordinator {
 public:
  enum class Meeting : int { begin, set_up, ended, quiet, leave };

  Coordinator(Channel& channel, const std::vector<MpiRank>& ranks);

  // --- of the run --------------------------------------------------------------------------------
  // The calls of one run, in this order. begin() and set_up() return when all ranks have come, or
  // the run has failed; then begin() returns false.
  bool begin(Local& local, Seconds peer_timeout);
  // offset: this rank's monotonic clock minus rank 0's. Returns the instant of this rank's clock at
  // which the run starts; after a failure, now.
  std::int64_t set_up(std::int64_t offset_ns);
  void worker_left(int host);  // host: of the services
  // Returns when all processes of all ranks have ended: the reports of all, on rank 0.
  std::vector<std::vector<std::byte>> end(std::span<const std::byte> report);
  // After end(): the failure of the run, the same on every rank.
  std::optional<Failure> end_run();

  // Collective, outside of runs. Returns rank 0's `answer` when all have come, or the failure of the
  // lowest rank that has one (or of a rank that is lost). Rank 0 gets what all have said, too.
  struct Agreement {
    double answer = 0;
    int failed = -1;  // the rank; -1: none
    Failure failure{};
    std::vector<std::vector<std::byte>> said{};  // rank 0, where nobody has failed: by rank
  };
  Agreement agree(double answer, const std::optional<Failure>& failure, Seconds peer_timeout,
                  std::span<const std::byte> saying = {});

  // From any thread: the run, or the next one, fails.
  void fail(std::exception_ptr error);
  // After a failure: no process of any rank receives any more, or will.
  const std::atomic<bool>& everybody_quiet() const { return everybody_quiet_; }

  // --- groups: numbers that no group of the run has had, above 0 ---------------------------------
  void ask_for_group();
  int take_group();  // 0: none has come yet

  // --- services on another rank: who opens one asks whether its recipe is wanted ------------------
  void ask_for_service(int host, const std::string& name);
  std::optional<bool> take_wanted(const std::string& name);  // empty: no answer has come yet
  void say_wanted(int to, const std::string& name, bool wanted);
  void send_recipe(int host, const std::string& name, const ServiceRecipe& recipe);

  // --- fences ------------------------------------------------------------------------------------
  void ask_for_fence(bool together);
  void fence_done();

  // Rank 0 gives no sign of life.
  bool root_is_lost() const { return lost_peer_ && channel_.rank() != 0; }

  // Between the channel's looks.
  Pace tick();
  // False: somebody cannot come. `limit`: how long it waits.
  bool leave(std::optional<Seconds> limit);

 private:
  struct Fence {
    int owner = 0;
    bool together = false;
  };
  struct Attendance {
    int count = 0;
    std::vector<std::vector<std::byte>> contents;
  };
  template <class T>
  void to_root(int kind, const T& value);
  template <class T>
  void to_all(int kind, const T& value);
  template <class T, class Fn>
  void on(int kind, Fn fn);
  void install_handlers();
  void install_service_handlers();
  void come(Meeting meeting, std::span<const std::byte> content);
  bool await(std::unique_lock<std::mutex>& lock, Meeting meeting, std::optional<Seconds> limit);
  void on_come(int from, std::span<const std::byte> bytes);
  void on_met(std::span<const std::byte> bytes);
  void on_failure(int epoch, Failure failure);
  void decide(int epoch, const Failure& failure);
  void start_next_fence();
  void on_stopped(std::int64_t at);
  void look_for_signs_of_life();
  void on_agree(int from, std::span<const std::byte> bytes);
  void say_if_blocked();
  void on_blocked(int from, std::span<const std::byte> bytes);
  bool drive_fence();

  Channel& channel_;
  const std::vector<MpiRank>& ranks_;

  std::mutex mutex_;  // guards the next block
  std::condition_variable changed_;
  int epoch_ = 1;  // of the run that is on, or comes next
  std::set<std::pair<int, Meeting>> met_;
  std::int64_t start_at_ = 0;        // rank 0's clock
  std::map<int, Failure> failures_;  // by epoch
  std::vector<std::vector<std::byte>> reports_;
  std::deque<int> groups_;
  std::map<std::string, std::deque<bool>> wanted_;  // answers, by service
  std::deque<std::vector<std::byte>> agreed_;
  std::vector<std::vector<std::byte>> said_;  // rank 0: at the agreement that has come last
  std::optional<Failure> lost_;               // why lost_peer_

  std::mutex local_mutex_;  // while a run is on; the channel's thread calls it under this
  Local* local_ = nullptr;
  Seconds peer_timeout_{60};

  std::atomic<bool> everybody_quiet_ = false, leaving_ = false, lost_peer_ = false,
                    agreeing_ = false;
  std::atomic<std::int64_t> offset_ns_ = 0;

  // The channel's thread only.
  std::map<std::pair<int, Meeting>, Attendance> attendance_;      // rank 0
  int last_group_ = 0;                                            // rank 0
  std::vector<std::deque<std::vector<std::byte>>> at_agreement_;  // rank 0: by rank
  std::vector<std::string>
      blocked_;  // rank 0: who waits for what, by rank; empty: somebody goes on
  std::chrono::steady_clock::time_point blocked_said_at_{};
  bool blocked_said_ = false;
  std::deque<Fence> asked_;      // rank 0; the first is on
  int stopped_ = 0;              // rank 0: ranks
  std::int64_t stopped_at_ = 0;  // rank 0: the latest
  bool stopping_ = false;        // rank 0 waits to be told that this rank has stopped
  bool fenced_ = false;          // told to stop, not yet to go on
  std::int64_t resume_at_ = 0;
  bool resume_together_ = false;
  bool failing_ = false;  // the run that is on has failed
  bool quiet_said_ = false;
};

}  // namespace hetsgd::mpi
