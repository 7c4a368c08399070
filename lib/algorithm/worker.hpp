// Worker: the vocabulary that algorithm files are written in: samples, learning, vectors,
// communication, measuring.
//
// It joins a cluster's Endpoint (time, messages) with the model and the data. Every call that
// computes is charged to the worker's device. The referee (training/), reached through Run, decides
// everything about stopping, evaluating and recording.
//
//                     Algorithm::worker(Worker&)
//                               |
//          Endpoint <-------- Worker --------> Run (training/)
//     clock, Comm, Service       |         budget, stop, evaluation, record
//                    BatchSource, ModelContext
//
// A worker learns in Replicas; further vectors (Buffer) are model-sized device memory. A Buffer
// that a call takes is this worker's own: no other process may read or write it until the call has
// returned (the contract of Endpoint::compute).
//
// A Worker belongs to one process, and only that process calls it. A background task gets a Worker
// of its own, which shares the rank, the Run and the count of updates with the first one. Its
// Device is another object on the same hardware, and its clock is the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "algorithm/batch_source.hpp"
#include "algorithm/run.hpp"
#include "algorithm/worker_tables.hpp"
#include "linalg/buffer_field.hpp"
#include "linalg/host_view.hpp"
#include "linalg/streams.hpp"
#include "model/model.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

// A model's blocks as optimizers see them.
std::vector<Tensor> tensors_of(const Layout& layout);

// One copy of the parameters with the learning state that belongs to it. State lies where the
// weights are, and two replicas of one worker share nothing. To save a replica, or to hand it to
// another worker, is to save or hand over these members.
//
// Worker makes the members when they are first needed, so a method takes only the memory that it
// uses. A replica that takes fused steps of plain SGD has neither a gradient nor an optimizer.
//
// All of it is memory of one device, which must outlive the replica. Move-only, as its buffers are.
// Nothing in it is guarded: two processes that share a replica need a Monitor of their own.
struct Replica {
  Buffer w;                              // [n]
  std::unique_ptr<Optimizer> optimizer;  // null: its next update begins with a fresh state
  Gradient gradient;                     // the last one: gradient.flat [n]; empty: none was built
  // A sum over workers has filled rows that no batch of this replica has touched. The next gradient
  // must clear them first, since models write only touched rows. An update must take all rows, not
  // only gradient.rows.
  bool gradient_is_dense = false;
  std::function<std::unique_ptr<Optimizer>()> make_optimizer{};  // for one that is loaded

  // Its parameters and the state of its optimizer; a gradient is of one step.
  void fields(Archive& fields) {
    fields("w", w);
    optimizer_fields(fields);
  }
  void optimizer_fields(Archive& fields) {
    bool has_optimizer = optimizer != nullptr;
    fields("has_optimizer", has_optimizer);
    if (!has_optimizer) return;
    if (!optimizer) optimizer = make_optimizer();
    fields("optimizer", *optimizer);
  }
};

class Worker : NonCopyable {
 public:
  Worker(Endpoint& endpoint, Run& run);  // both outlive the worker
  // The context asks this object for the next batch, so the object must not move.

  int rank() const { return endpoint_.rank(); }
  int size() const { return endpoint_.size(); }
  // The worker's number in the run: its rank, unless workers are lost (cluster/segment.hpp).
  int id() const { return endpoint_.id(); }
  Seconds now() const { return endpoint_.now(); }
  const Plan& plan() const { return run_.plan(); }
  const Model& model() const { return run_.model(); }
  const CostModel& costs() const { return run_.costs(); }
  Device& device() { return endpoint_.device(); }
  // Whether it computes in the host's memory (a CPU), not in a memory of its own.
  bool in_host_memory() { return endpoint_.in_host_memory(); }

  // --- the loop ---------------------------------------------------------------------------------
  // The only loop guard: false when the budget is used up, a target stops the run, it diverged or
  // was aborted. Once false, it stays false. Workers of a synchronous algorithm get the same answer
  // to their k-th call, whenever they make it, so that none is left alone in a collective. So all
  // of them must make the same number of calls. Throws CheckFailure after a million calls without
  // any work between them, because such a loop would never end.
  bool running();
  bool may_leave() const { return running_calls_ > 0 && !decision_.yes; }  // running() said no

  // --- what a run goes on from ------------------------------------------------------------------
  // The object that make() returns, with all that this worker must know from one iteration to the
  // next, in fields() (run_state.hpp). The run keeps it. If the run goes on from an earlier segment
  // it is loaded here: then the worker skips what it does only at the start of a run. Called once,
  // before the loop.
  template <class Make>
  auto& state(Make make) {
    return *shared_state(make);
  }
  // The same for state that the worker's processes share.
  template <class Make>
  auto shared_state(Make make) {
    using State = std::remove_cvref_t<std::invoke_result_t<Make&>>;
    std::shared_ptr<State> state(new State(make()));
    run_.state().keep(id(), "state", state);
    return state;
  }
  // In place of state(): services and shared objects know all that this worker goes on from.
  void stateless() { run_.state().keep(id(), "state", std::make_shared<Stateless>()); }
  // Whether an earlier segment of this run came before.
  bool goes_on() const { return run_.state().goes_on(); }
  // After running() said no: whether the run will go on in another segment.
  bool is_followed() const { return decision_.is_followed; }
  // The worker's own counts, and what its model's context remembers.
  void fields(Archive& fields);

  // Says that the algorithm's own budget (a number of rounds) is used up: the next evaluate_here()
  // measures the model and ends the run. Synchronous algorithms: all workers must call it.
  void end_budget() { run_.end_budget(); }
  // Samples until the next merge: plan().mega_batch_samples(), or less if the run's budget ends
  // before. All workers of a synchronous algorithm get the same number between two calls of
  // running().
  std::uint64_t mega_batch_samples() const;

  // The learning rate of a batch of b samples now: lr * b / b_max (linear scaling) times the
  // schedule. An algorithm asks before it computes the batch's gradient. So the first update of a
  // run takes the schedule at epoch 0, whichever worker makes it. Workers whose parts of a global
  // batch differ must take the same learning rate.
  double learning_rate(std::uint64_t b) const { return learning_rate(b, epoch()); }
  // The same at an epoch that the algorithm has counted itself.
  double learning_rate(std::uint64_t b, double epoch) const;
  // The progress of training: samples at the last running(), and this worker's since then times P.
  // It is an estimate between two calls of running(), and the same on all workers only while all of
  // them have learnt from as many samples since. A background task's Worker has never called
  // running(), so its epoch is 0: the task counts epochs itself and asks for the learning rate at
  // one of those.
  double epoch() const;

  // --- sharded tables ---------------------------------------------------------------------------
  // With --tables sharded the model is its dense part: replicas, vectors, gradients and collectives
  // have no tables. learn() and gradient() look the batch up first, and learn() updates the rows by
  // its own learning rate. All workers look up exchanged tables together (lockstep algorithms,
  // AlgorithmInfo), and apply() after gradient() updates the rows. Calls that cannot be made
  // together, such as gradient_cancellable(), fail a check. Each worker looks up served tables
  // (table/served.hpp) for itself, and gradient() updates the rows by learning_rate() of its batch.
  bool sharded() const { return tables_ != nullptr; }
  bool exchanges_tables() const { return sharded() && !plan().served_tables; }
  // Null: the tables are part of the model. For algorithms that run the stages themselves, as a
  // pipeline.
  WorkerTables* tables() { return tables_.get(); }
  LookupCounts lookup_counts() const { return sharded() ? tables_->counts() : LookupCounts{}; }
  void begin_serving() {  // before the algorithm
    if (sharded()) tables_->begin_serving();
  }
  void end_serving() {  // when it has returned
    if (sharded()) tables_->end_serving();
  }
  StageTimes& stage_times() { return stage_times_; }  // so far, kept by the algorithm
  // Like apply(), for the dense part alone, by a gradient that all workers have summed; charged as
  // the stage `opt`.
  void apply_dense(Replica& replica, double learning_rate);

  // --- learning, charged to this worker's device ------------------------------------------------
  // The effects of the learning calls:
  //
  //                       samples, loss   straggler   updates of the run
  //   learn               yes             yes         one for each replica
  //   rehearse            no              yes         none
  //   gradient            yes             yes         none
  //   apply               no              no          one for all workers (rank 0's call)
  //   apply_alone         no              no          one for each call
  //   SharedWorker::step  yes             yes         one for each call   (shared_model.hpp)
  //   discard             takes back      no          none
  //
  // Only the main process learns from batches. A background task makes updates; if it learnt from
  // samples, they would count for the run but not for the worker.
  BatchSource& batches() { return batches_; }  // this worker's samples
  // A replica at the initial parameters, which are the same bits for every worker, algorithm and
  // cluster. (Making one is not charged: set-up.)
  Replica replica();

  // One iteration and one update of this replica: w <- w - learning_rate * gradient, fused, or by
  // the plan's optimizer. Returns the batch's mean loss before it. The fused form (plain SGD) never
  // builds the gradient, so replica.gradient is meaningless afterwards.
  double learn(Replica& replica, const Batch& batch, double learning_rate) {
    return learn({&replica, 1}, {&batch, 1}, learning_rate);
  }
  // The same for several replicas on this device at once, replica j with batches[j]: one iteration
  // of the device, each replica on a stream of its own (linalg/streams.hpp). In sim it takes the
  // time that the profile's saturation gives for this number. The results are those of streams one
  // after the other. Returns the mean of their losses.
  double learn(std::span<Replica> replicas, std::span<const Batch> batches, double learning_rate);
  // A first step whose result is to be thrown away: w moves, but the step counts for nothing, and
  // the optimizer begins afresh. Returns the time that it took.
  Seconds rehearse(Replica& replica, const Batch& batch, double learning_rate);

  // One iteration without an update: replica.gradient <- the gradient at replica.w. Returns the
  // batch's mean loss. If a collective has filled the last gradient beyond its touched rows, these
  // are cleared first, inside the computation.
  double gradient(Replica& replica, const Batch& batch);
  // The same until `token` is cancelled: then nothing counts, and the result is false. The time
  // until then has passed all the same, and replica.gradient holds no gradient. The batch has not
  // been learnt from: a caller that wants its samples counted passes it again.
  bool gradient_cancellable(CancellationToken& token, Replica& replica, const Batch& batch);
  // The same at a snapshot w of the parameters, into a gradient of its own, for methods whose
  // replica other processes change meanwhile. Outside of g.rows the row-sparse blocks of g must be
  // zero, as the last call has left them: do not sum other workers' gradients into g.
  double gradient(const Buffer& w, const Batch& batch, Gradient& g);
  Gradient make_gradient() { return hetsgd::make_gradient(model(), device()); }
  // One iteration, as gradient(replica, batch), with the backward pass in pieces: consecutive
  // ranges of the model's parts that cover all of them. complete(i) is called when piece i is
  // finished, before the next one is computed; it may start a collective on these elements of the
  // gradient. With one piece the bits and the time are those of the whole call. Injected delays
  // come with the first piece.
  double gradient_in_pieces(Replica& replica, const Batch& batch, std::span<const Extent> pieces,
                            const std::function<void(std::size_t)>& complete);
  // Only the update, of replica.w by replica.gradient, or by the vector g [n], which a collective
  // has summed. All workers make the same one, and it counts once for the run. A gradient that is
  // still sparse moves only its touched rows (plain SGD); the charge is that of whole vectors
  // either way.
  void apply(Replica& replica, double learning_rate);
  void apply(Replica& replica, std::span<const float> g, double learning_rate);
  // Only the update, of a replica that no other worker updates alike: each counts for the run.
  void apply_alone(Replica& replica, double learning_rate);
  // An update made elsewhere (on a server) that this worker took over; counts like apply.
  void count_shared_update();
  void count_own_update();  // of the global model, which only this worker caused (a push)

  // Reports a batch that was learnt from to the run; `started`: when its computation began. The
  // calls above do so. It is for methods whose step is a computation of their own
  // (Endpoint::compute, of kind step). Call it after the computation and before an update that
  // waits for others, so that a loss that is not finite is known even then.
  void completed(const Batch& batch, double loss, Seconds started);

  // Says that the gradient of this batch is in no update, for example because the worker came too
  // late and the method has backup workers. The run has not learnt from its samples, so they do not
  // count; its loss and its time do. Call it for a batch of this iteration, before the next
  // running(). Synchronous algorithms call it before the collective that makes the update, so that
  // all workers count alike at evaluate_here(). Not with sharded tables, whose rows gradient() has
  // updated. Throws CheckFailure for a batch that does not count in this iteration, or for sharded
  // tables.
  void discard(const Batch& batch);

  // A fresh optimizer for vectors of the model's size, for methods with a second one (local-sgd's
  // outer optimizer). Replicas get the plan's when they first need it.
  std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);
  std::vector<Tensor> tensors() const;  // an optimizer scales each by its own norms

  // --- vectors, charged likewise ----------------------------------------------------------------
  // Vectors have the model's size n. A call is charged by the vectors that it streams: 4 n bytes
  // and n operations for each one read or written, one launch. Scalars are rounded to float first.
  void copy(const Buffer& x, Buffer& y);                   // y <- x
  void scale(double a, Buffer& x) { scale(a, x.span()); }  // x <- a x
  void scale(double a, std::span<float> x);                // of any length; charged by its length
  void axpby(double a, const Buffer& x, double b, Buffer& y);  // y <- a x + b y
  double squared_norm(const Buffer& x);                        // ||x||^2, in double
  // w' = merged + gamma (w - previous); previous <- w; w <- w'.
  void momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous);
  // Any other computation that streams `passes` model-sized vectors; with several learners, as many
  // for each of them at once.
  void compute_vectors(double passes, FunctionRef fn, int learners = 1);
  // Charges the time of copying a vector between the device's memory and the host's, for methods
  // whose reductions the hosts make. Real clusters reduce a vector where it lies, so there it is
  // free.
  void charge_host_copy();
  Buffer vector();              // model-sized, zero; not charged: set-up
  Buffer initial_parameters();  // as a replica's w; not charged either
  std::span<const float> initial_on_host() const { return run_.initial_parameters(); }
  // x for the host to read: x itself, or a copy of a GPU's memory that is valid until the next
  // call. The copy is made outside of compute(), so it is not charged: for set-up and measuring.
  std::span<const float> on_host(const Buffer& x);

  // --- memory that workers share ----------------------------------------------------------------
  // The object `name` of the run, made by the first caller, for workers of one process (the
  // algorithm says AlgorithmInfo::one_process_only). Not charged: set-up. It lives as long as a
  // worker keeps it (run.hpp). One with fields() is part of the state of the run.
  template <class T>
  std::shared_ptr<T> share(const std::string& name,
                           const std::function<std::shared_ptr<T>()>& make) {
    return run_.shared_objects().get<T>(name, [&] {
      std::shared_ptr<T> made = make();
      if constexpr (requires(Archive & fields) { made->fields(fields); }) {
        run_.state().keep_shared(name, made);
      }
      return made;
    });
  }

  // --- communication ----------------------------------------------------------------------------
  // For collectives of its own: comm().all_gather<double>({&x, 1}, all) gathers a number of each.
  Comm& comm() { return endpoint_.comm(); }
  Endpoint& endpoint() { return endpoint_; }
  // x <- sum over all workers, in rank order.
  void all_reduce(Buffer& x, Traffic kind) { comm().all_reduce(x.span(), ReduceOp::sum, kind); }
  // replica.gradient <- sum over all workers; afterwards it is dense in every block.
  void all_reduce_gradient(Replica& replica);
  // Opens service S, made once in the run with args.... Every worker that uses it makes this call
  // with the same name and the same arguments; any of the calls may be the one that makes the
  // service.
  template <class S, class... Args>
  auto serve(const std::string& name, const Args&... args) {
    return hetsgd::serve<S>(endpoint_, name, args...);
  }
  // A second process of this worker, with a Worker of its own and the same rank. Its updates count
  // as the worker's. A Monitor guards the state that the two share. The state must live as long as
  // the last of the two: fn is kept beyond this call, so it takes shared_ptrs by value. The run
  // ends when all processes have returned. While the main process waits, computing and sending of
  // this one are in the worker's account (cluster/worker_account.hpp).
  void background_task(const std::string& name, std::function<void(Worker&)> fn);
  std::unique_ptr<Monitor> make_monitor() { return endpoint_.make_monitor(); }
  std::unique_ptr<CancellationToken> make_cancellation_token() {
    return endpoint_.make_cancellation_token();
  }

  // --- measuring --------------------------------------------------------------------------------
  // Here `model` is what the algorithm defines as its result. If an evaluation is due, the clock is
  // paused and the model measured. Synchronous algorithms: all workers must call it. If their
  // workers need not be in the same iteration here, `samples` is the number that all workers will
  // have learnt from when they are (the same on all). It decides whether an evaluation is due and
  // whether the budget is used up.
  void evaluate_here(const Buffer& model, std::optional<std::uint64_t> samples = {});
  // The same for a model that the host makes when it is measured, in memory that stays valid until
  // the next call. Not for models on GPUs.
  void evaluate_here(const std::function<std::span<const float>()>& model) {
    run_.evaluate_here(*this, std::nullopt, model);
  }
  // Asynchronous algorithms: an evaluation is due, so preparations of the model may be made now, on
  // the clock. Another worker may still measure first.
  bool evaluation_due() { return run_.evaluation_due(*this); }
  // Runs fn off the clock, with the world stopped, for measurements of the method besides
  // evaluations. fn must not make a call that blocks.
  void measure(const std::function<void()>& fn) { run_.measure(*this, fn); }
  // At most `count` rows of the test data, evenly spaced.
  Batch test_batch(std::uint64_t count) const { return run_.test_batch(count); }
  // As evaluate_here(), for algorithms whose result is the mean of all replicas, published before
  // the loop. A published buffer must be whole whenever the world is stopped, i.e. at every
  // blocking call. It is read in place, so it must live until all workers have left (adpsgd: a
  // barrier).
  void publish(const Buffer& replica);
  void evaluate_mean_here();
  // The best accuracy (P@1 if the task has it) that was measured from `from` to `to` samples, both
  // included; empty: none was. All workers get the same answer if rank 0 has passed evaluate_here
  // at `to`.
  std::optional<double> best_accuracy(std::uint64_t from, std::uint64_t to) const {
    return run_.best_accuracy(from, to);
  }
  void record(nlohmann::json event);  // {"time_s": now, ...event} to the result's events
  void record(nlohmann::json event, Seconds at);
  // Counts a value in one of the result's histograms ("staleness", "contributors", ...).
  void observe(const std::string& histogram, std::int64_t value) { run_.observe(histogram, value); }
  // Appends to the result's warnings. Only one worker should call it.
  void warn(const std::string& text) { run_.warn(text); }

  // Samples of steps that survivors of a loss make anew, because they begin their round anew. pend:
  // the steps are made; settle: they are merged.
  void pend(std::uint64_t samples) { pending_samples_ += samples; }
  void settle() { pending_samples_ = 0; }
  // The workers of the segment by their numbers in the run.
  const std::vector<int>& view() const { return run_.state().view(); }

  // --- counters for the referee -----------------------------------------------------------------
  // Counts of this Worker since it was made; updates include those of its background tasks. The
  // counts of calls identify the points of synchronous algorithms where all workers must get one
  // answer.
  std::uint64_t samples() const { return samples_; }
  // Samples since the last running() that was no return into a round, or since the evaluate_here()
  // of a synchronous algorithm, which ends a round.
  std::uint64_t unsettled_samples() const {
    return samples_ - samples_at_round_ + carried_samples_;
  }
  // Samples that a survivor of a loss learns from again: the pending ones, and those of gradients
  // since its last update. The latter mean nothing if a background task makes the updates.
  std::uint64_t unapplied_samples() const { return unapplied_samples_ + pending_samples_; }
  // Samples in this segment, whatever becomes of them.
  std::uint64_t computed_samples() const { return samples_ - samples_at_start_; }
  std::uint64_t updates() const { return *updates_; }
  std::uint64_t running_calls() const { return running_calls_; }
  // How often a round has begun or ended: running(), and evaluate_here() of synchronous algorithms.
  // If others are ahead of a lost worker, they have ended a merge that has its samples.
  std::uint64_t round_points() const { return running_calls_ + rounds_ended_; }
  std::uint64_t count_evaluate_call() { return evaluate_calls_++; }

 private:
  void end_round();
  struct Stateless {
    void fields(Archive&) {}
  };
  void count_idle_call();
  Work vector_work(double passes, int learners = 1) const;
  // Whether a step moves the weights by itself, without building a gradient.
  bool fused() const { return sharded() ? tables_->fused() : plan().optimizer.plain(); }
  // The computation of one iteration, charged, when the rows of the batch have arrived. fn()
  // returns its mean loss. Empty: cancelled.
  std::optional<double> compute_step(const Batch& batch, const std::function<double()>& fn,
                                     CancellationToken* token = nullptr);
  // The skeleton of all calls that make a gradient by fn(): completes or drops it, and moves served
  // rows.
  std::optional<double> gradient_by(const Batch& batch, const std::function<double()>& fn,
                                    CancellationToken* token = nullptr);
  // Losses of the batches into losses_. Afterwards fused steps have moved the replicas; other
  // replicas have their gradients. One computation for all replicas: m of them share the device as
  // its profile says.
  void compute_losses(std::span<Replica> replicas, std::span<const Batch> batches, double lr);
  void ensure_gradient(Replica& replica);  // made at its first use, outside of the clock
  // Inside a computation:
  double step_here(Replica& replica, const Batch& batch, double lr);  // as learn(), or the gradient
  double gradient_here(Replica& replica, const Batch& batch);
  double gradient_here(const float* w, const Batch& batch, Gradient& g);
  void clear_foreign_rows(Replica& replica, Device& device);
  void make_streams(std::size_t replicas);  // and their contexts; not charged: set-up
  // Launches the kernels of a replica that learns on the context's device; its loss comes later.
  DeferredSum start(ModelContext& context, Replica& replica, const Batch& batch, double lr);
  Optimizer& optimizer(Replica& replica);
  void update(Replica& replica, double lr);
  void update(Replica& replica, std::span<const float> g, double lr);
  void update(std::span<Replica> replicas, double lr);

  Endpoint& endpoint_;
  Run& run_;
  BatchSource batches_;
  std::unique_ptr<ModelContext> context_;  // scratch of this worker's device
  std::unique_ptr<WorkerTables> tables_;
  StageTimes stage_times_;
  // For several replicas at once: the streams that their number calls for, with a context each.
  std::unique_ptr<Streams> streams_;
  std::vector<std::unique_ptr<ModelContext>> stream_contexts_;
  std::vector<DeferredSum> started_;  // their sums of losses, in flight
  std::vector<double> losses_;        // their mean losses
  HostScratch host_copy_;             // of on_host()
  LoopDecision decision_;             // the last answer of running()
  std::uint64_t samples_at_decision_ = 0, samples_at_round_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t samples_at_start_ = 0;  // of the segment
  std::uint64_t carried_samples_ = 0;   // of the round, from the segment before
  std::uint64_t unapplied_samples_ = 0, pending_samples_ = 0;
  std::uint64_t rounds_ended_ = 0;
  // Shared with the background tasks, which are threads on real clusters.
  std::shared_ptr<std::atomic<std::uint64_t>> updates_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t running_calls_ = 0;
  std::uint64_t evaluate_calls_ = 0;
  // Calls of running() since the worker last did something; and its samples and time spent then.
  int idle_calls_ = 0;
  std::pair<std::uint64_t, Seconds> done_at_last_call_{0, -1};
};

}  // namespace hetsgd
