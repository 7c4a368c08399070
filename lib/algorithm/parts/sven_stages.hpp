// The stages of Sven's pipeline as one worker runs them. Each is a call for one batch, whose number
// k counts the global batches from 0; sven.cpp puts the calls in order.
//
// A batch lives in a slot from its request to the update of its rows. There are as many slots as
// batches in flight, used in turn:
//
//   request -> SFP -> fA2A -> FP -> BP -> bA2A -> SBP -> free for the batch k + slots
//
// Stages that compute block. Stages that communicate are either blocking calls, or operations of
// the communication process (start_...), which makes them one after the other, and are waited for.
// An input process, if there is one, makes requests kAhead batches before their SFP. Operations
// share the slots with the worker. Only one of the two uses a slot at a time, because the worker
// waits for an operation before it continues with the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "algorithm/stages.hpp"
#include "algorithm/worker.hpp"
#include "collective/all_to_all.hpp"
#include "collective/operation_queue.hpp"

namespace hetsgd {

class SvenStages {
 public:
  struct Options {
    Exchange exchange = Exchange::scatter;
    bool overlapped = false;                // there is a communication process
    bool prepared = false;                  // there is an input process
    std::uint64_t in_flight = 1;            // batches from SFP to the end of SBP
    std::optional<double> input_rate = {};  // samples/s of all workers
    std::uint64_t global_batch = 1;         // samples of an iteration, of all workers
    Block mine = {};                        // this worker's part of it
  };

  // The worker must have sharded tables.
  SvenStages(Worker& self, const Options& options);
  // Before the first batch, inside of the loop: starts the communication and the input process.
  // Collective if there are any.
  void begin();

  // The first batch of this segment of the run.
  std::uint64_t first() const { return first_; }

  // --- computing
  void sfp(std::uint64_t k);  // after the ids
  void fp(std::uint64_t k);   // the loss counts for the run
  void bp(std::uint64_t k);   // the dense gradient, and the sums of rows
  void sbp(std::uint64_t k);  // at the learning rate of the batch's own interval
  void opt(std::uint64_t k);
  void evaluate_here(std::uint64_t k);

  // --- communicating, by the worker itself
  void exchange_rows(std::uint64_t k);
  void exchange_sums(std::uint64_t k);
  void all_reduce();

  // --- by the communication process. Waits count as stall; a second wait costs nothing.
  void start_rows(std::uint64_t k);
  void start_sums(std::uint64_t k);
  void start_all_reduce();
  void wait_rows(std::uint64_t k) { wait(communication_, slot(k).rows, Stage::f_exchange); }
  void wait_sums(std::uint64_t k) { wait(communication_, slot(k).sums, Stage::b_exchange); }
  void wait_all_reduce() { wait(communication_, all_reduce_, Stage::all_reduce); }
  // The end: waits for all started operations, and ends the processes.
  void close();

 private:
  using Ticket = OperationQueue::Ticket;
  static constexpr std::uint64_t kAhead = 2;

  struct State {
    Replica replica;         // an all_reduce shares it
    std::uint64_t next = 0;  // batch that begins the next interval
    void fields(Archive& fields) {
      fields.common("replica", replica);
      fields.common("next", next);
    }
  };
  struct Slot {
    std::unique_ptr<Lookup> lookup;
    Batch batch;
    double learning_rate = 0;
    Ticket requested, rows, sums;
  };
  Slot& slot(std::uint64_t k) { return *slots_[k % slots_.size()]; }
  Lookup& lookup(std::uint64_t k) { return *slot(k).lookup; }

  void ids(std::uint64_t k);  // the request and its exchange, or the wait for them
  void take_batch(std::uint64_t k);
  void prepare_until(std::uint64_t k);
  void compute(Stage stage, std::uint64_t k, const Work& tables, FunctionRef fn);
  void make(Stage stage, const CollectiveRequest& request, int tag);
  Ticket start(std::uint64_t k, const CollectiveRequest& request, int tag);
  // Waits for an operation of the queue, unless there is none. Its time counts as the stage's.
  void wait(std::optional<OperationQueue>& queue, Ticket& ticket, Stage stage);

  Worker& self_;
  const Options options_;
  TableStages& tables_;  // with a Lookup in each slot
  const std::unique_ptr<ModelContext> context_;
  const std::shared_ptr<State> state_;
  Replica& replica_ = state_->replica;
  const std::uint64_t first_ = state_->next;
  std::vector<std::shared_ptr<Slot>> slots_;
  std::optional<OperationQueue> communication_, input_;
  Ticket all_reduce_;
  std::uint64_t prepared_ = first_;  // batches whose requests were begun
  std::uint64_t updated_ = first_;   // batches whose rows are updated
};

}  // namespace hetsgd
