// Channel: control messages between the ranks, carried by a thread of its own on a communicator of
// its own. Nothing of it is on the training clock or in a ledger.
//
// The thread sleeps between its looks. A look costs some 25 us of a core: every 200 us that was 8 %
// of one that a worker may be using (the thread's times in /proc, beside elastic on two cores). So
// `hook` says how much there is to do, and while there is nothing the sleeps grow.
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

#include "cluster/control.hpp"
#include "cluster/mpi/environment.hpp"
#include "core/units.hpp"

namespace hetsgd::mpi {

// When the thread looks again.
enum class Pace {
  at_once,  // it only gives its core away: sends advance, a fence ends
  soon,     // somebody waits: 200 us
  calm,     // later and later: 1 ms in the end, about 2 % of a core
};

class Channel final : public Control {
 public:
  // Kinds below 0 are the cluster's own.
  explicit Channel(MPI_Comm comm);
  ~Channel() override { stop(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, int kind, std::span<const std::byte> bytes) override;
  void send_to_all(int kind, std::span<const std::byte> bytes);  // the own rank included
  void on_message(int kind, Handler handler) override;
  bool failing() const override { return failing_; }
  void set_failing(bool failing) { failing_ = failing; }

  // Before start(). hook: called by the thread between its looks. on_error: what a handler threw.
  void start(std::function<Pace()> hook, std::function<void(std::exception_ptr)> on_error);
  // Makes the thread look now.
  void look();
  // Returns when all that was sent has left. Other threads may not use the channel any more.
  void stop();
  // From now on signs of life leave so often that nobody misses one within `timeout`; never again
  // less often.
  void beat_within(Seconds timeout);
  // How long ago the last message of `rank` came. The channel's thread only.
  Seconds silence(int rank) const;

 private:
  struct Message {
    int peer = 0;
    int kind = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void loop();
  bool send_what_waits();
  bool receive();
  bool finish(std::deque<std::unique_ptr<Message>>& messages, bool deliver);
  void deliver(std::unique_ptr<Message> message);
  bool deliver_late();
  void beat();

  const MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::function<Pace()> hook_;
  std::function<void(std::exception_ptr)> on_error_;

  std::mutex mutex_;  // guards the next five
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Message>> outbox_;
  std::map<int, Handler> handlers_;
  bool stopping_ = false;
  bool look_ = false;
  std::atomic<bool> handlers_changed_ = false;
  std::atomic<bool> failing_ = false;

  // The thread's own.
  std::deque<std::unique_ptr<Message>> sending_, receiving_;
  std::map<int, std::deque<std::unique_ptr<Message>>> without_handler_;
  std::vector<std::chrono::steady_clock::time_point> heard_;
  std::chrono::steady_clock::time_point beat_at_;
  std::atomic<Seconds> beat_interval_;
  std::thread thread_;
};

}  // namespace hetsgd::mpi
