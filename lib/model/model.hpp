// Models: the loss and gradient of a batch at a flat parameter vector.
//
// Parameters are one contiguous vector of named blocks (layout.hpp), so that every merge rule,
// collective and optimizer is written once. A model is immutable and shared; scratch memory lives
// in a ModelContext, one per concurrent computation. README.md of this folder shows how to add one.
//
// Two ways to learn from a batch (gradients are means over the batch's samples):
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
// w, g.flat and logits are memory of the context's device; a model's calls allocate only what its
// context lacks, so a loop allocates nothing once it has seen its largest batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/non_copyable.hpp"
#include "core/units.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
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
  std::vector<Index> first_category{};  // of each field, and their number; empty: no fields
  ImageShape image{};                   // of the samples; empty: they are none
  Index frame_numbers = 0;              // of a frame of sequences; 0: they are none
  CategoryValues category_values{};     // what initial rows of a table are made of

  static DataShape of(const Dataset& data);
  // That of a training and a test set together.
  static DataShape of(const Dataset& train, const Dataset& test);
  std::size_t fields() const { return first_category.empty() ? 0 : first_category.size() - 1; }
  Index categories() const { return first_category.empty() ? 0 : first_category.back(); }
  // Scores of a sample: one for each label; Task::binary: one.
  std::size_t outputs() const { return task == Task::binary ? 1 : label_count; }
};

struct HashedLabels;  // model/labels/hashed_labels.hpp
struct DeviceRates;   // memory/step_times.hpp
using RatesOfGpu = std::function<DeviceRates(const std::string& gpu)>;

// A gradient as a flat vector in the model's layout. A row-sparse block is zero outside its touched
// rows, so the whole vector is valid as it stands: collectives may sum all of it or only the
// touched rows.
template <class Real>
struct BasicGradient {
  BasicBuffer<Real> flat;  // [parameters]
  // Touched rows, ascending, of each row-sparse block in the layout's order; host memory.
  std::vector<std::vector<Index>> rows;
};
using Gradient = BasicGradient<float>;

// [begin, end), of parts of a gradient or of elements of the flat vector.
struct Extent {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// Where a backward pass puts the gradient: to <- beta to + alpha gradient, dense blocks; to <- to +
// alpha gradient, touched rows of row-sparse ones. A gradient is (g, 1, 0) with row-sparse blocks
// zero before, a step (w, -lr, 1).
template <class Real>
struct Sink {
  Real* to;
  Real alpha;
  Real beta;
};

// Numbers, and of how many training rows they are made; none: there are none.
struct ScoringStatistics {
  std::size_t numbers = 0;
  std::uint64_t samples = 0;
};

// Scratch memory for one computation at a time; grows to the largest batch. A model derives its
// own, which is of use to that model alone.
template <class Real>
class BasicModelContext : NonCopyable {
 public:
  explicit BasicModelContext(BasicDevice<Real>& device) : device_(device) {}
  virtual ~BasicModelContext() = default;

  BasicDevice<Real>& device() const { return device_; }

  // Says which batch the next call will be about (null: not known), so that its way to a GPU hides
  // behind this call's kernels: asked when they have all been launched and the result is not there
  // yet. The batch must live until the next call. A wrong answer costs a copy. Not asked on CPUs.
  std::function<const Batch*()> upcoming;

  // What BasicModel::estimate_statistics() has made of training rows at the parameters that are
  // scored; empty: a model that needs some takes those of the batch at hand.
  std::span<const Real> statistics;

  // --- for models --------------------------------------------------------------------------------
  // Brings the batch to the device, or takes what stage_ahead() has brought if that was this batch:
  // the same data set and the same rows. A CPU device reads the data set in place.
  void stage(const Batch& batch);
  // The upcoming batch, while the device works on this one: all of this call's kernels have been
  // launched.
  void stage_ahead();
  // The batch at hand, as the device reads it.
  const SparseRows<Real>& features() const { return staged_.features; }
  const FieldRows<Real>& fields() const { return staged_.fields; }
  const SparseRows<Real>& labels() const { return staged_.labels; }

  // Made at the first call; all calls of one context have the same count, that of its model's
  // features or categories.
  TouchedRows& touched(Index count);
  BasicBuffer<Real> output;  // [batch x outputs], for a model that has all scores in memory at once

  // Device memory that a smaller batch would need less of.
  virtual std::size_t batch_bytes() const { return output.size() * sizeof(Real); }

 private:
  struct Staged {
    SparseRows<Real> features, labels;
    FieldRows<Real> fields;
  };
  Staged bring(const Batch& batch) const;

  BasicDevice<Real>& device_;
  Staged staged_, ahead_;
  // The batch that was staged ahead, as it was then.
  const Dataset* ahead_data_ = nullptr;  // null: none
  std::vector<Index> ahead_rows_;
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

  // All calls: a GPU without room for the batch is a MemoryError whose hint names a batch size that
  // fits.

  // Mean loss of the batch at w; g <- its gradient. Outside g.rows, the row-sparse blocks of g.flat
  // must have been zero before (as make_gradient, clear_rows and a former call leave them). Rows
  // without labels count in the divisor (the batch size); what else they contribute the objective
  // says. The batch must not be empty, and its data set no wider than the model's data.
  double gradient(Context& context, const Batch& batch, const Real* w,
                  BasicGradient<Real>& g) const;

  // A gradient in parts, so that what is complete can be sent while the rest is computed: the
  // backward pass completes part 0 first. A part is a run of neighbouring blocks, and each block is
  // in one part. Here: one part, everything.
  virtual std::size_t gradient_parts() const { return 1; }
  virtual Extent gradient_part(std::size_t part) const;  // its elements of the flat vector
  // As gradient(), but computes `parts` alone: then these hold what gradient() makes of them, to
  // the bit. Calls go through all parts in order, with the same batch, w and g and no other call of
  // this context between them; who has a part may change it in g meanwhile, since none depends on
  // another. Returns the mean loss with part 0, else 0; g.rows is set with the last part.
  double partial_gradient(Context& context, const Batch& batch, const Real* w,
                          BasicGradient<Real>& g, Extent parts) const;

  // w <- w - learning_rate * gradient; returns the mean loss before the step.
  double step(Context& context, const Batch& batch, Real learning_rate, Real* w) const;

  // gradient() and step() in two halves, for computations side by side (linalg/streams.hpp):
  // start_... launches and does not wait for a GPU, finish() sends the upcoming batch ahead, waits,
  // and returns the mean loss. No other call of the context between the two.
  DeferredSum start_gradient(Context& context, const Batch& batch, const Real* w,
                             BasicGradient<Real>& g) const;
  DeferredSum start_step(Context& context, const Batch& batch, Real learning_rate, Real* w) const;
  double finish(Context& context, const Batch& batch, DeferredSum loss) const;

  // --- embeddings that somebody else has looked up -----------------------------------------------
  // Models with an embedding table, in steps, for tables that lie elsewhere (table/tables.hpp).
  // step() and gradient() go the same way, with a table of their own at both ends:
  //
  //   table --> embedded --forward--> loss --backward--> gradient by embedded --> table
  //
  // The model without its table: of the same kind and options, with a layout that lacks the table's
  // block; its other parameters begin at the same values. Null: the model has no table.
  virtual std::unique_ptr<BasicModel> dense_part() const { return nullptr; }
  // Of the table, also where it lies elsewhere; rows of no numbers: there is none.
  virtual TableShape table_shape() const { return {}; }
  // Numbers of a sample's vector x0.
  virtual std::size_t embedded_width() const { return 0; }

  // Mean loss of the batch at w, whose embeddings the caller has looked up: embedded.x
  // [batch x embedded_width()] and, with weights per category, embedded.u [batch]. Leaves in the
  // context what backward() needs, so that no other call of the context may come between the two.
  double forward(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                 const Real* w) const;
  // After forward() with the same batch, embedded and w: the gradient of the mean loss, that of the
  // parameters into g (as gradient(); a table of the model's own is left out), that by the
  // embeddings into by_embedded.
  void backward(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                const Real* w, BasicGradient<Real>& g, BasicEmbedded<Real>& by_embedded) const;
  // The same, fused: w <- w - learning_rate * gradient, with the bits of step().
  void backward_step(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                     Real learning_rate, Real* w, BasicEmbedded<Real>& by_embedded) const;
  // As scores(context, batch, w, logits).
  double scores(Context& context, const Batch& batch, const BasicEmbedded<Real>& embedded,
                const Real* w, Real* logits) const;
  // Of forward() alone, with the lookup in a table of the model's own; backward() is the rest of
  // gradient_work().
  virtual Work forward_work(const BatchShape& batch) const;

  // rows[s] <- the rows of the s-th row-sparse block that learning from the batch reads and moves,
  // ascending, for all blocks: what BasicGradient::rows holds afterwards.
  void touched_rows(Context& context, const Batch& batch,
                    std::vector<std::vector<Index>>& rows) const;

  // Scores of a batch into device memory logits[batch x outputs()] (bias included); returns the SUM
  // of the losses.
  double scores(Context& context, const Batch& batch, const Real* w, Real* logits) const;

  // Measures a batch: the SUM of the losses, and the k best labels of each sample (as
  // BasicOutputLayerKernels::top_k) into host memory top[batch x k]. Where the device can, the
  // scores are never all in memory. Not for Task::binary.
  double rank(Context& context, const Batch& batch, const Real* w, std::size_t k,
              std::uint32_t* top) const;
  // What scoring needs beside the parameters, made of training rows at these parameters off the
  // clock: the statistics of batch norm.
  virtual ScoringStatistics statistics() const { return {}; }
  // Those of one batch into device memory `statistics`; scoring takes their mean over batches.
  virtual void estimate_statistics(Context& context, const Batch& batch, const Real* w,
                                   Real* statistics) const;

  // Whether rank() has all scores of the batch in memory at once.
  virtual bool ranks_in_memory() const { return true; }

  // Work of one gradient (or fused step; the same model of cost) of a batch: what the simulated
  // clock charges. That of a full-size model is asked for, too (--charge): it depends on the layout
  // alone. Affine in (samples, nonzeros, labels, lookups), of sequences
  // at the same steps.
  virtual Work gradient_work(const BatchShape& batch) const = 0;
  // Of its first `parts` parts, with all that must come before them; of all: gradient_work().
  virtual Work partial_gradient_work(const BatchShape& batch, std::size_t parts) const;
  // Whether the memory of a batch is planned. Then its work depends on the device: work_on() plans,
  // which takes milliseconds, so who charges many batches keeps it by samples and counted_steps().
  virtual bool is_planned() const { return false; }
  // gradient_work() on a device of these rates. Errors: usage, memory in which the batch is not
  // planned.
  virtual Work work_on(const DeviceRates&, const BatchShape& batch) const {
    return gradient_work(batch);
  }
  // Steps that each row of a batch of sequences counts for; 0: the samples are none.
  virtual double counted_steps(const BatchShape&) const { return 0; }
  // From now on contexts plan memory of a GPU by the rates that belong to its name, "cuda:0 (NVIDIA
  // H200)"; before, as of a CPU, whose memory is the host's.
  virtual void plan_by(RatesOfGpu) {}
  // Where the labels of a training sample's softmax are those that hash tables lead to: which
  // tables. Which rows a batch touches is then known after it has been learned from. Null: elsewhere.
  virtual const HashedLabels* hashed_labels() const { return nullptr; }
  // Device memory that grows with a batch, per sample of a batch like this one.
  double sample_bytes(const BatchShape& batch) const;
  // The widths from the features to the scores, as the result shows them.
  virtual std::vector<std::uint64_t> layer_sizes() const;

 protected:
  // In the constructor: blocks follow each other in the order of these calls.
  void add_block(ParameterBlock block) { layout_.add(std::move(block)); }

  // The batch has been checked. Stages it, adds its mean gradient at w to the sink and returns the
  // SUM of its losses. `sink.to` may be `w`: whatever is read of a block is read before it moves.
  virtual DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                            Sink<Real> sink) const = 0;
  // The same of one part, called in the order of parts; the losses with part 0, else 0. Here:
  // learn(). Who has several parts implements learn() by them.
  virtual DeferredSum learn_part(Context& context, const Batch& batch, const Real* w,
                                 Sink<Real> sink, std::size_t part) const;
  // As scores().
  virtual DeferredSum score(Context& context, const Batch& batch, const Real* w,
                            Real* logits) const = 0;
  // As rank(), and calls context.stage_ahead() before it waits for the device. Here: score(), then
  // the k best of them.
  virtual double rank_batch(Context& context, const Batch& batch, const Real* w, std::size_t k,
                            std::uint32_t* top) const;
  // forward(): returns the SUM of the losses; backward(): the gradient goes to the sink. Here: a
  // check failure, the model has no table.
  virtual DeferredSum learn_forward(Context& context, const Batch& batch,
                                    const BasicEmbedded<Real>& embedded, const Real* w) const;
  virtual void learn_backward(Context& context, const Batch& batch,
                              const BasicEmbedded<Real>& embedded, const Real* w, Sink<Real> sink,
                              BasicEmbedded<Real>& by_embedded) const;
  virtual DeferredSum score_embedded(Context& context, const Batch& batch,
                                     const BasicEmbedded<Real>& embedded, const Real* w,
                                     Real* logits) const;
  // rows[s] <- the rows of the s-th row-sparse block that the batch touches, ascending. Here: the
  // batch's features, or its categories, for every block.
  virtual void touch(Context& context, const Batch& batch,
                     std::vector<std::vector<Index>>& rows) const;
  // Elements of scratch per sample on the device, beside scores and the batch itself.
  virtual double sample_scratch() const { return 0; }

 private:
  void check(const Batch& batch) const;
  void check(const Batch& batch, const BasicEmbedded<Real>& embedded) const;
  // Zeroes what the last call has left in the row-sparse blocks.
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
