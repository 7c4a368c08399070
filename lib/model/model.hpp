// Models: the loss and gradient of a batch at a flat parameter vector.
//
// Parameters are one contiguous vector of named blocks (layout.hpp), so that every merge rule,
// collective and optimizer is written once. A model is immutable and shared; scratch memory lives
// in a ModelContext, one per concurrent computation. README.md of this folder shows how to add one.
//
// Two ways to learn from a batch (gradients are means over the batch's losses):
//   gradient(w) -> g   for what is communicated: dense blocks + touched rows of row-sparse ones
//   step(w, lr)        w <- w - lr g, fused: the products accumulate straight into the weights,
//                      only touched rows of row-sparse blocks move, no gradient is ever built
// The two agree up to rounding: step(w, lr) == w - lr * gradient(w). A model implements both with
// one learn(), which adds the gradient to a Sink.
//
// Every public call of a model goes the same way; the protected functions are what a model adds:
//
//   check the batch --> learn(), score() or rank_batch(): stage(batch), launch the kernels
//     --> stage_ahead(): the upcoming batch travels while the kernels run
//     --> read the loss, a DeferredSum: waits for the device
//
// w, g.flat and logits are memory of the context's device. A model's calls allocate only what its
// context lacks, so a loop allocates nothing once it has seen its largest batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/archive.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "linalg/buffer_field.hpp"
#include "linalg/device.hpp"
#include "linalg/embedding_kernels.hpp"
#include "linalg/operands.hpp"
#include "model/clicks/embedded.hpp"
#include "model/layout.hpp"
#include "model/touched_rows.hpp"

namespace hetsgd {

// The data that a model is made for; `--charge` swaps in those of a full-size data set.
struct DataShape {
  Index feature_count = 0;
  Index label_count = 0;
  Task task = Task::multilabel;
  Index dense_columns = 0;
  // first category of each field, then their number; empty: no fields
  std::vector<Index> first_category{};
  ImageShape image{};                // shape of the samples; empty: they are no images
  Index frame_numbers = 0;           // elements of a frame of sequences; 0: no sequences
  Index token_kinds = 0;             // kinds of tokens; 0: no tokens
  std::uint32_t token_steps = 0;     // the longest row of tokens
  bool masked_tokens = false;        // the model predicts masked tokens alone, and not every one
  CategoryValues category_values{};  // values that determine the initial rows of a table

  static DataShape of(const Dataset& data);
  // The shape of the training data, whose test rows may be longer.
  static DataShape of(const Dataset& train, const Dataset& test);
  std::size_t fields() const { return first_category.empty() ? 0 : first_category.size() - 1; }
  Index categories() const { return first_category.empty() ? 0 : first_category.back(); }
  // Scores of a sample: one for each label, or a single one for Task::binary.
  std::size_t outputs() const { return task == Task::binary ? 1 : label_count; }
};

struct HashedLabels;  // model/labels/hashed_labels.hpp
struct DeviceRates;   // memory/plan.hpp
using RatesOfGpu = std::function<DeviceRates(const std::string& gpu)>;

// A gradient as a flat vector in the model's layout. A row-sparse block is zero outside its touched
// rows, so the whole vector is valid as it stands: collectives may sum all of it or only the
// touched rows.
template <class Real>
struct BasicGradient {
  BasicBuffer<Real> flat;  // [parameters]
  // Touched rows, ascending, of each row-sparse block in the layout's order; host memory.
  std::vector<std::vector<Index>> rows;

  void fields(Archive& fields) {
    fields("flat", flat);
    fields("rows", rows);
  }
};
using Gradient = BasicGradient<float>;

// A range [begin, end) of parts of a gradient, or of elements of the flat vector.
struct Extent {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// Where a backward pass puts the gradient: to <- beta to + alpha gradient in dense blocks; to <- to
// + alpha gradient in touched rows of row-sparse blocks. A gradient uses (g, 1, 0) with row-sparse
// blocks zeroed before; a step uses (w, -lr, 1).
template <class Real>
struct Sink {
  Real* to;
  Real alpha;
  Real beta;
};

// Size of the statistics that scoring needs, and the number of training rows they are estimated
// from. Zero if the model needs none.
struct ScoringStatistics {
  std::size_t numbers = 0;
  std::uint64_t samples = 0;
};

// Scratch memory for one computation at a time; grows to the largest batch. A model derives its own
// context, which only that model can use.
template <class Real>
class BasicModelContext : NonCopyable {
 public:
  explicit BasicModelContext(BasicDevice<Real>& device) : device_(device) {}
  virtual ~BasicModelContext() = default;

  BasicDevice<Real>& device() const { return device_; }

  // Says which batch the next call will use (null: not known), so that its transfer to a GPU
  // overlaps with this call's kernels. It is called after all kernels have been launched and before
  // the result is there. The batch must live until the next call. A wrong answer costs a copy. CPUs
  // never call it.
  std::function<const Batch*()> upcoming;

  // Networks call it between the parts of a call that only scores, since that may take minutes. It
  // may throw, which ends the call. Empty: nobody asks.
  std::function<void()> check;

  // Statistics that BasicModel::estimate_statistics() has made of training rows at the scored
  // parameters. Empty: a model that needs some takes the statistics of the current batch.
  std::span<const Real> statistics;

  // --- for models --------------------------------------------------------------------------------
  // Brings the batch to the device. If stage_ahead() has brought the same rows of the same data
  // set, uses these. A CPU device reads the data set in place.
  void stage(const Batch& batch);
  // Brings the upcoming batch while the device works on this one. All of this call's kernels must
  // have been launched.
  void stage_ahead();
  // The current batch, as the device reads it.
  const SparseRows<Real>& features() const { return staged_.features; }
  const FieldRows<Real>& fields() const { return staged_.fields; }
  const SparseRows<Real>& labels() const { return staged_.labels; }

  // Made at the first call. All calls of one context have the same count: the number of its model's
  // features or categories.
  TouchedRows& touched(Index count);
  BasicBuffer<Real> output;  // [batch x outputs], for a model that has all scores in memory at once

  // Its memory of the batches before; as a rule it has none.
  virtual void fields(Archive& fields) { static_cast<void>(fields); }
  // Bytes of device memory that grow with the batch.
  virtual std::size_t batch_bytes() const { return output.size() * sizeof(Real); }

 private:
  struct Staged {
    SparseRows<Real> features, labels;
    FieldRows<Real> fields;
  };
  Staged bring(const Batch& batch) const;

  BasicDevice<Real>& device_;
  Staged staged_, ahead_;
  BatchRows ahead_rows_;  // of the batch that was staged ahead
  std::optional<TouchedRows> touched_;
};

// A model for one shape of data. Const after its constructor, so any number of threads may call it,
// each with a context of its own; the context must be one that this model has made.
template <class Real>
class BasicModel {
 public:
  using Context = BasicModelContext<Real>;

  explicit BasicModel(const DataShape& data);
  virtual ~BasicModel() = default;

  const DataShape& data() const { return data_; }
  const Layout& layout() const { return layout_; }
  std::size_t parameters() const { return layout_.size; }
  std::size_t outputs() const { return data_.outputs(); }

  virtual std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const;

  // All calls throw MemoryError if a GPU has no room for the batch. Its hint names a batch size
  // that fits.

  // The number of losses of a batch, which means divide by: one for each sample, or for each target
  // of rows of tokens.
  virtual std::size_t losses(const Batch& batch) const { return batch.size(); }
  // Token models: the targets in the order in which rank() scores them. Other models have the
  // labels of the samples.
  virtual std::vector<std::uint32_t> targets(const Batch&) const { return {}; }

  // Returns the mean loss of the batch at w; g <- its gradient. Outside g.rows, the row-sparse
  // blocks of g.flat must have been zero before (as make_gradient, clear_rows and a former call
  // leave them). Rows without labels count in the divisor (the batch size); the objective defines
  // what else they contribute. The batch must not be empty, and its data set no wider than the
  // model's data.
  double gradient(Context& context, const Batch& batch, const Real* w,
                  BasicGradient<Real>& g) const;

  // A gradient in parts, so that finished parts can be sent while the rest is computed. The
  // backward pass completes part 0 first. A part is a run of neighbouring blocks, and each block is
  // in one part. Default: one part with everything.
  virtual std::size_t gradient_parts() const { return 1; }
  virtual Extent gradient_part(std::size_t part) const;  // its elements of the flat vector
  // Like gradient(), but computes only `parts`, with the same bits as gradient(). Calls go through
  // all parts in order, with the same batch, w and g, and no other call of this context comes
  // between them. The caller may change a finished part in g meanwhile, since no part depends on
  // another. Returns the mean loss with part 0, else 0. g.rows is set with the last part.
  double partial_gradient(Context& context, const Batch& batch, const Real* w,
                          BasicGradient<Real>& g, Extent parts) const;

  // w <- w - learning_rate * gradient; returns the mean loss before the step.
  double step(Context& context, const Batch& batch, Real learning_rate, Real* w) const;

  // gradient() and step() in two halves, for computations side by side (linalg/streams.hpp).
  // start_... launches and does not wait for a GPU; finish() sends the upcoming batch ahead, waits,
  // and returns the mean loss. No other call of the context may come between the two.
  DeferredSum start_gradient(Context& context, const Batch& batch, const Real* w,
                             BasicGradient<Real>& g) const;
  DeferredSum start_step(Context& context, const Batch& batch, Real learning_rate, Real* w) const;
  double finish(Context& context, const Batch& batch, DeferredSum loss) const;

  // --- embeddings that the caller has looked up --------------------------------------------------
  // Models with an embedding table, in separate steps, for tables that lie elsewhere
  // (table/stages.hpp). step() and gradient() take the same steps, with their own table at both
  // ends:
  //
  //   table --> embedded --forward--> loss --backward--> gradient by embedded --> table
  //
  // The model without its table: of the same kind and options, with a layout that lacks the table's
  // block. Its other parameters begin at the same values. Null: the model has no table.
  virtual std::unique_ptr<BasicModel> dense_part() const { return nullptr; }
  // Shape of a row of the table, also if the table lies elsewhere. Rows of no elements: no table.
  virtual TableShape table_shape() const { return {}; }
  // Elements of a sample's vector x0.
  virtual std::size_t embedded_width() const { return 0; }

  // Returns the mean loss of the batch at w, whose embeddings the caller has looked up: embedded.x
  // [batch x embedded_width()] and, with weights per category, embedded.u [batch]. Leaves the
  // inputs of backward() in the context, so no other call of the context may come between the two.
  double forward(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                 const Real* w) const;
  // After forward() with the same batch, embedded and w: computes the gradient of the mean loss.
  // The gradient by the parameters goes into g (as in gradient(), without a table of the model's
  // own), the gradient by the embeddings into by_embedded.
  void backward(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                const Real* w, BasicGradient<Real>& g, BasicEmbedded<Real>& by_embedded) const;
  // Like backward(), fused: w <- w - learning_rate * gradient, with the bits of step().
  void backward_step(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                     Real learning_rate, Real* w, BasicEmbedded<Real>& by_embedded) const;
  // Like scores(context, batch, w, logits), with embeddings that the caller has looked up.
  double scores(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                const Real* w, Real* logits) const;
  // Work of forward() alone, with the lookup if the model has a table of its own; backward() is the
  // rest of gradient_work().
  virtual Work forward_work(const BatchShape& batch) const;

  // rows[s] <- the rows of the s-th row-sparse block that learning from the batch reads and moves,
  // ascending, for all blocks: what BasicGradient::rows holds afterwards.
  void touched_rows(Context& context, const Batch& batch,
                    std::vector<std::vector<Index>>& rows) const;

  // Scores of a batch into device memory logits[batch x outputs()] (bias included); returns the SUM
  // of the losses.
  double scores(Context& context, const Batch& batch, const Real* w, Real* logits) const;

  // Evaluates a batch: returns the SUM of the losses. The k best labels of each loss, as
  // BasicOutputLayerKernels::top_k orders them, go into host memory top[losses x k]. Where the
  // device can, the scores are never all in memory. Not for Task::binary.
  double rank(Context& context, const Batch& batch, const Real* w, std::size_t k,
              std::uint32_t* top) const;
  // Statistics that scoring needs besides the parameters, such as those of batch norm. They are
  // estimated from training rows at the scored parameters, off the clock.
  virtual ScoringStatistics statistics() const { return {}; }
  // Writes the statistics of one batch into device memory; scoring takes their mean over batches.
  virtual void estimate_statistics(Context& context, const Batch& batch, const Real* w,
                                   Real* statistics) const;

  // Whether rank() has all scores of the batch in memory at once.
  virtual bool ranks_in_memory() const { return true; }

  // Work of one gradient (or fused step; the same cost model) of a batch, which the simulated clock
  // charges. It depends on the layout alone, so that a full-size model can be asked, too
  // (--charge). Affine in (samples, nonzeros, labels, lookups); for sequences, if the steps are the
  // same.
  virtual Work gradient_work(const BatchShape& batch) const = 0;
  // Work of the first `parts` parts of the gradient, with all that must come before them. All
  // parts: gradient_work().
  virtual Work partial_gradient_work(const BatchShape& batch, std::size_t parts) const;
  // Whether the memory of a batch is planned. Then its work depends on the device. work_on() plans,
  // which takes milliseconds, so a caller that charges many batches caches it by samples and
  // counted_steps().
  virtual bool is_planned() const { return false; }
  // gradient_work() on a device of these rates. Throws Error(usage) if the batch cannot be planned
  // in the memory.
  virtual Work work_on(const DeviceRates&, const BatchShape& batch) const {
    return gradient_work(batch);
  }
  // Steps charged for each row of a batch of sequences; 0: the samples are no sequences.
  virtual double counted_steps(const BatchShape&) const { return 0; }
  // From now on contexts plan the memory of a GPU by the rates of its name, for example "cuda:0
  // (NVIDIA H200)". Before this call they plan as for a CPU, whose memory is the host's.
  virtual void plan_by(RatesOfGpu) {}
  // The hash tables that choose the labels of a training sample's softmax. With them the rows that
  // a batch touches are known only after the batch has been learned from. Null: no hash tables.
  virtual const HashedLabels* hashed_labels() const { return nullptr; }
  // Bytes of device memory that grow with a batch, per sample of a batch like this one.
  double sample_bytes(const BatchShape& batch) const;
  // The layer widths from the features to the scores, as the result shows them.
  virtual std::vector<std::uint64_t> layer_sizes() const;

 protected:
  // For constructors: blocks follow each other in the order of these calls.
  void add_block(ParameterBlock block) { layout_.add(std::move(block)); }

  // The batch has been checked. Stages it, adds its mean gradient at w to the sink and returns the
  // SUM of its losses. `sink.to` may be `w`: whatever is read of a block is read before it moves.
  virtual DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                            Sink<Real> sink) const = 0;
  // Like learn() for one part, called in the order of parts. Returns the SUM of the losses with
  // part 0, else 0. Default: learn(). A model with several parts implements learn() by them.
  virtual DeferredSum learn_part(Context& context, const Batch& batch, const Real* w,
                                 Sink<Real> sink, std::size_t part) const;
  // Implements scores().
  virtual DeferredSum score(Context& context, const Batch& batch, const Real* w,
                            Real* logits) const = 0;
  // Implements rank(), and calls context.stage_ahead() before it waits for the device. Default:
  // score(), then the k best of the scores.
  virtual double rank_batch(Context& context, const Batch& batch, const Real* w, std::size_t k,
                            std::uint32_t* top) const;
  // Implement forward(), which returns the SUM of the losses, backward(), whose gradient goes to
  // the sink, and scores(). Default: a check failure, because the model has no table.
  virtual DeferredSum learn_forward(Context& context, const Batch& batch,
                                    const BasicEmbedded<Real>& embedded, const Real* w) const;
  virtual void learn_backward(Context& context, const Batch& batch,
                              const BasicEmbedded<Real>& embedded, const Real* w, Sink<Real> sink,
                              BasicEmbedded<Real>& by_embedded) const;
  virtual DeferredSum score_embedded(Context& context, const Batch& batch,
                                     const BasicEmbedded<Real>& embedded, const Real* w,
                                     Real* logits) const;
  // rows[s] <- the rows of the s-th row-sparse block that the batch touches, ascending. Default:
  // the batch's features, or its categories, for every block.
  virtual void touch(Context& context, const Batch& batch,
                     std::vector<std::vector<Index>>& rows) const;
  // Elements of scratch per sample on the device, without scores and the batch itself.
  virtual double sample_scratch() const { return 0; }

 private:
  void check(const Batch& batch) const;
  void check(const Batch& batch, const BasicEmbedded<Real>& embedded) const;
  // Zeroes the rows of the row-sparse blocks that the last call has filled.
  void clear_touched_rows(BasicDevice<Real>& device, BasicGradient<Real>& g) const;
  DeferredSum start_parts(Context& context, const Batch& batch, const Real* w,
                          BasicGradient<Real>& g, Extent parts) const;
  template <class Call>
  auto fitting(const Context& context, const Batch& batch, const Call& call) const;

  DataShape data_;
  Layout layout_;
};

using Model = BasicModel<float>;
using ModelContext = BasicModelContext<float>;

// A zeroed gradient of the model's size on the device.
template <class Real>
BasicGradient<Real> make_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device);

// Zeroes the row-sparse blocks of a gradient that a collective has filled beyond g.rows, and
// empties g.rows: the gradient may be used for the next batch. Costs a pass over these blocks,
// where gradient() itself clears the touched rows only.
template <class Real>
void clear_rows(const BasicModel<Real>& model, BasicDevice<Real>& device, BasicGradient<Real>& g);

// w <- w - learning_rate * g, touching only g.rows of the row-sparse blocks. Neighbouring dense
// blocks are one call of the device.
template <class Real>
void apply_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device,
                    const BasicGradient<Real>& g, Real learning_rate, Real* w);

}  // namespace hetsgd
