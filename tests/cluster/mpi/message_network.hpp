// Ranks as objects of one process, for the tests of the protocols between them: messages lie in a
// queue until they are delivered.
#pragma once

#include <deque>
#include <mutex>
#include <utility>

#include "cluster/process_group.hpp"

namespace hetsgd::mpi {

class Network {
 public:
  class Rank final : public Control {
   public:
    Rank(Network& network, int rank) : network_(network), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(network_.ranks_.size()); }
    void send(int to, int kind, std::span<const std::byte> bytes) override {
      const std::lock_guard guard(network_.mutex_);
      network_.queue_.push_back({rank_, to, kind, {bytes.begin(), bytes.end()}});
    }
    void on_message(int kind, Handler handler) override { handlers_[kind] = std::move(handler); }
    bool failing() const override { return false; }

   private:
    friend class Network;
    Network& network_;
    const int rank_;
    std::map<int, Handler> handlers_;
  };

  explicit Network(int size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }
  Control& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Delivers all messages, and those that they cause. `to`: only to this rank.
  int deliver(int to = -1) {
    int count = 0;
    while (true) {
      Message message;
      {
        const std::lock_guard guard(mutex_);
        const auto next = std::ranges::find_if(
            queue_, [to](const Message& each) { return to < 0 || each.to == to; });
        if (next == queue_.end()) return count;
        message = std::move(*next);
        queue_.erase(next);
      }
      ++count;
      ranks_[static_cast<std::size_t>(message.to)]->handlers_.at(message.kind)(message.from,
                                                                               message.bytes);
    }
  }
  // Every rank runs fn(rank) on a thread; messages are delivered until all have returned.
  template <class Fn>
  void run_all(Fn fn) {
    std::atomic<int> running = size();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        fn(rank);
        --running;
      });
    }
    while (running > 0) {
      if (deliver() == 0) std::this_thread::yield();
    }
  }

 private:
  struct Message {
    int from = 0, to = 0, kind = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex mutex_;
  std::deque<Message> queue_;
};

}  // namespace hetsgd::mpi
