// Channel: control messages between the ranks, carried by a thread of its own on a communicator of
// its own. Nothing of it is on the training clock or in a time breakdown.
//
// One turn of the thread (loop()):
//
//    late messages whose kind has a handler now
//    outbox --> MPI_Isend, or straight to the handler for messages to this rank
//    sends that are complete are forgotten
//    MPI_Improbe --> MPI_Imrecv; messages that are complete go to their handlers, in order
//    heartbeats that are due
//    hook(): the protocols and the run do what is due, and say how soon to look again
//    sleeps, unless something happened
//
// The thread sleeps between its looks, as MPI wakes nobody. A look costs little, but a core that
// looks all the time is one that a worker may be using. So `hook` says how much there is to do, and
// while there is nothing the sleeps grow. send() and look() end a sleep of this process's own
// thread; a message from another rank is found at the end of the sleep.
//
// Order. Messages of one pair of ranks arrive in the order sent: they have one tag, and a receive
// that is not complete holds back what came after it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cluster/mpi/environment.hpp"
#include "cluster/process_group.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

// When the thread looks again, as the hook says.
enum class Pace {
  // The thread only gives its core away: sends advance, or a pause is about to end.
  at_once,
  // Somebody waits: 200 us.
  soon,
  // The thread looks later and later, up to 1 ms apart.
  calm,
};

// Made once per process; thread-safe where nothing else is said. Lock order: a caller may hold any
// other mutex of the program, since the channel's is held only briefly, and never during a handler
// or the hook.
class Channel final : public Control {
 public:
  // comm: belongs to the channel from here on. Kinds below 0 are the cluster's own.
  explicit Channel(MPI_Comm comm);
  ~Channel() override { stop(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, int kind, std::span<const std::byte> bytes) override;
  void on_message(int kind, Handler handler) override;
  // The current run has failed. Set by the Coordinator.
  bool failing() const override { return failing_; }
  void set_failing(bool failing) { failing_ = failing; }

  // Called once, before any message is expected. hook: called by the thread between its looks.
  // on_error: the thread calls it with the exception of a handler, and goes on. An exception of the
  // thread itself (MPI has failed) is given to it too, but ends the thread.
  void start(std::function<Pace()> hook, std::function<void(std::exception_ptr)> on_error);
  // Makes the thread look now.
  void look();
  // Returns when all that was sent has left; received messages that have not reached a handler are
  // lost. Other threads must not use the channel any more.
  void stop();
  // From now on heartbeats leave so often that nobody misses one within `timeout`; never again less
  // often, because another rank may still have the shorter timeout.
  void beat_within(Seconds timeout);
  // How long ago the last message of `rank` came. The channel's thread only.
  Seconds silence(int rank) const;

 private:
  // A message in flight, or a received one. The bytes begin with the kind, until a handler gets
  // them.
  struct Message {
    int peer = 0;
    int kind = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void loop();
  // The steps of a turn; true: something happened.
  bool send_what_waits();
  bool receive();
  bool finish(std::deque<std::unique_ptr<Message>>& messages, bool deliver);
  // Calls the handler, or keeps the message until its kind has one.
  void deliver(std::unique_ptr<Message> message);
  bool deliver_late();
  void beat();

  const MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::function<Pace()> hook_;
  std::function<void(std::exception_ptr)> on_error_;

  // Guards the next five.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Message>> outbox_;
  std::map<int, Handler> handlers_;
  bool stopping_ = false;
  bool look_ = false;
  // A hint to look for late messages, read without the mutex.
  std::atomic<bool> handlers_changed_ = false;
  std::atomic<bool> failing_ = false;

  // From here on the members belong to the thread. Both queues are in the order of their messages'
  // beginnings.
  std::deque<std::unique_ptr<Message>> sending_, receiving_;
  // By kind. Messages behind one that waits wait as well.
  std::map<int, std::deque<std::unique_ptr<Message>>> without_handler_;
  // By rank: when the last message came.
  std::vector<std::chrono::steady_clock::time_point> heard_;
  // When the next heartbeat is due.
  std::chrono::steady_clock::time_point beat_at_;
  // Interval between heartbeats. Other threads shorten it.
  std::atomic<Seconds> beat_interval_;
  std::thread thread_;
};

}  // namespace hetsgd::mpi
