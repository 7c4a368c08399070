#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "linalg/output_layer_kernels.hpp"

namespace hetsgd {

namespace {

std::uint32_t longest_row(const TokenRows<View>& tokens) {
  return tokens.rows() == 0 ? 0 : *std::ranges::max_element(tokens.length);
}

}  // namespace

DataShape DataShape::of(const Dataset& data) { return of(data, data); }

DataShape DataShape::of(const Dataset& train, const Dataset& test) {
  return {.feature_count = train.feature_count,
          .label_count = train.label_count,
          .task = train.task,
          .dense_columns = train.dense.columns,
          .first_category = {train.fields.first.begin(), train.fields.first.end()},
          .image = train.images.shape(),
          .frame_numbers = train.sequences.numbers,
          .token_kinds = train.tokens.vocabulary,
          .token_steps = std::max(longest_row(train.tokens), longest_row(test.tokens)),
          .category_values = {train.fields.value, train.owner}};
}

template <class Real>
typename BasicModelContext<Real>::Staged BasicModelContext<Real>::bring(const Batch& batch) const {
  const Dataset& d = batch.data();
  const Index* const rows = batch.rows().data();
  Staged staged;
  if (d.fields.count() > 0) {
    staged.fields = device_.stage(FieldRows<Real>{batch.size(), d.dense.columns, d.fields.count(),
                                                  d.fields.first.back(), rows, d.dense.value.data(),
                                                  d.fields.category.data()});
  } else if (d.images.size() == 0 && !d.has_lengths()) {
    staged.features =
        device_.stage(SparseRows<Real>{batch.size(), d.feature_count, rows, d.sparse.begin.data(),
                                       d.sparse.index.data(), d.sparse.value.data()});
  }
  staged.labels = device_.stage(SparseRows<Real>{
      batch.size(), d.label_count, rows, d.targets.begin.data(), d.targets.index.data(), nullptr});
  return staged;
}

template <class Real>
void BasicModelContext<Real>::stage(const Batch& batch) {
  staged_ = ahead_rows_.are_of(batch) ? ahead_ : bring(batch);
  ahead_rows_.forget();
}

// Copies the upcoming batch into buffers of its own, so the memory that running kernels read stays
// valid until they end.
template <class Real>
void BasicModelContext<Real>::stage_ahead() {
  if (!upcoming || !device_.stages_copies()) return;
  const Batch* const next = upcoming();
  if (next == nullptr || next->empty()) return;
  ahead_ = bring(*next);
  ahead_rows_.keep(*next);
}

template <class Real>
TouchedRows& BasicModelContext<Real>::touched(Index count) {
  if (!touched_) touched_.emplace(count);
  return *touched_;
}

template <class Real>
BasicModel<Real>::BasicModel(const DataShape& data) : data_(data) {
  HETSGD_CHECK(data.feature_count > 0 || data.fields() > 0 || data.image.size() > 0 ||
               data.frame_numbers > 0 || data.token_kinds > 0);
  HETSGD_CHECK(data.outputs() > 0);
}

template <class Real>
std::unique_ptr<BasicModelContext<Real>> BasicModel<Real>::make_context(
    BasicDevice<Real>& device) const {
  return std::make_unique<Context>(device);
}

template <class Real>
void BasicModel<Real>::check(const Batch& batch) const {
  HETSGD_CHECK(!batch.empty());
  HETSGD_CHECK_LE(batch.data().feature_count, data_.feature_count);
  HETSGD_CHECK(std::ranges::equal(batch.data().fields.first, data_.first_category));
  HETSGD_CHECK_EQ(batch.data().dense.columns, data_.dense_columns);
  HETSGD_CHECK(batch.data().images.shape() == data_.image);
  HETSGD_CHECK_EQ(batch.data().sequences.numbers, data_.frame_numbers);
  HETSGD_CHECK_LE(batch.data().tokens.vocabulary, data_.token_kinds);
  HETSGD_CHECK(data_.task == Task::binary || batch.data().label_count <= data_.label_count);
}

// Runs call(). If the device has no room for it, the error names a batch size that fits.
template <class Real>
template <class Call>
auto BasicModel<Real>::fitting(const Context& context, const Batch& batch, const Call& call) const {
  try {
    return call();
  } catch (const MemoryError& error) {
    const auto available = static_cast<double>(error.available() + context.batch_bytes());
    // Buffers take a quarter more than they need, and allocations leave gaps: hence the factor 1.5.
    const double fits = std::floor(available / (1.5 * sample_bytes(batch.shape())));
    if (fits >= static_cast<double>(batch.size())) throw;
    const std::string what =
        fmt::format("{} (in a batch of {} samples)", error.what(), batch.size());
    throw MemoryError(what,
                      fits < 1 ? "not even one sample fits beside the model; use a larger GPU, "
                                 "fewer workers on this one, or fewer hidden units"
                               : fmt::format("--batch-size {:.0f} fits", fits),
                      error.available());
  }
}

template <class Real>
double BasicModel<Real>::gradient(Context& context, const Batch& batch, const Real* w,
                                  BasicGradient<Real>& g) const {
  return partial_gradient(context, batch, w, g, {0, gradient_parts()});
}

template <class Real>
double BasicModel<Real>::partial_gradient(Context& context, const Batch& batch, const Real* w,
                                          BasicGradient<Real>& g, Extent parts) const {
  const DeferredSum loss = start_parts(context, batch, w, g, parts);
  if (parts.end == gradient_parts()) return finish(context, batch, loss);
  return loss / static_cast<double>(losses(batch));
}

template <class Real>
DeferredSum BasicModel<Real>::start_gradient(Context& context, const Batch& batch, const Real* w,
                                             BasicGradient<Real>& g) const {
  return start_parts(context, batch, w, g, {0, gradient_parts()});
}

template <class Real>
DeferredSum BasicModel<Real>::start_parts(Context& context, const Batch& batch, const Real* w,
                                          BasicGradient<Real>& g, Extent parts) const {
  check(batch);
  HETSGD_CHECK_EQ(g.flat.size(), layout_.size);
  HETSGD_CHECK_EQ(g.rows.size(), layout_.sparse);
  HETSGD_CHECK_LT(parts.begin, parts.end);
  HETSGD_CHECK_LE(parts.end, gradient_parts());
  return fitting(context, batch, [&] {
    if (parts.begin == 0) clear_touched_rows(context.device(), g);
    const Sink<Real> sink{g.flat.data(), Real(1), Real(0)};
    const DeferredSum loss = learn_part(context, batch, w, sink, parts.begin);
    for (std::size_t part = parts.begin + 1; part < parts.end; ++part) {
      learn_part(context, batch, w, sink, part);
    }
    if (parts.end == gradient_parts()) touch(context, batch, g.rows);
    return loss;
  });
}

// The loss is read last, because reading it waits for the device.
template <class Real>
double BasicModel<Real>::finish(Context& context, const Batch& batch, DeferredSum loss) const {
  return fitting(context, batch, [&] {
    context.stage_ahead();
    return loss / static_cast<double>(losses(batch));
  });
}

template <class Real>
void BasicModel<Real>::clear_touched_rows(BasicDevice<Real>& device, BasicGradient<Real>& g) const {
  std::size_t s = 0;
  for (const ParameterBlock& block : layout_.blocks) {
    if (!block.row_sparse()) continue;
    device.apply_rows(g.rows[s++], block.cols, rule::Fill<Real>{0}, g.flat.data() + block.offset);
  }
}

template <class Real>
Extent BasicModel<Real>::gradient_part(std::size_t part) const {
  HETSGD_CHECK_EQ(part, 0U);
  return {0, layout_.size};
}

template <class Real>
Work BasicModel<Real>::partial_gradient_work(const BatchShape& batch, std::size_t parts) const {
  HETSGD_CHECK_EQ(parts, 1U);
  return gradient_work(batch);
}

template <class Real>
DeferredSum BasicModel<Real>::learn_part(Context& context, const Batch& batch, const Real* w,
                                         Sink<Real> sink, std::size_t part) const {
  HETSGD_CHECK_EQ(part, 0U);
  return learn(context, batch, w, sink);
}

template <class Real>
double BasicModel<Real>::step(Context& context, const Batch& batch, Real learning_rate,
                              Real* w) const {
  return finish(context, batch, start_step(context, batch, learning_rate, w));
}

template <class Real>
DeferredSum BasicModel<Real>::start_step(Context& context, const Batch& batch, Real learning_rate,
                                         Real* w) const {
  check(batch);
  return fitting(context, batch, [&] {
    return learn(context, batch, w, {w, -learning_rate, Real(1)});
  });
}

template <class Real>
void BasicModel<Real>::check(const Batch& batch, const BasicEmbedded<Real>& embedded) const {
  check(batch);
  HETSGD_CHECK_EQ(embedded.x.size(), batch.size() * embedded_width());
  HETSGD_CHECK_EQ(embedded.u.size(), batch.size());
}

template <class Real>
double BasicModel<Real>::forward(Context& context, const Batch& batch,
                                 const BasicEmbedded<Real>& embedded, const Real* w) const {
  check(batch, embedded);
  return fitting(context, batch, [&] {
    return learn_forward(context, batch, embedded, w) / static_cast<double>(batch.size());
  });
}

template <class Real>
void BasicModel<Real>::backward(Context& context, const Batch& batch,
                                const BasicEmbedded<Real>& embedded, const Real* w,
                                BasicGradient<Real>& g, BasicEmbedded<Real>& by_embedded) const {
  check(batch, embedded);
  HETSGD_CHECK_EQ(g.flat.size(), layout_.size);
  fitting(context, batch, [&] {
    const Sink<Real> sink{g.flat.data(), Real(1), Real(0)};
    learn_backward(context, batch, embedded, w, sink, by_embedded);
  });
}

template <class Real>
void BasicModel<Real>::backward_step(Context& context, const Batch& batch,
                                     const BasicEmbedded<Real>& embedded, Real learning_rate,
                                     Real* w, BasicEmbedded<Real>& by_embedded) const {
  check(batch, embedded);
  fitting(context, batch, [&] {
    learn_backward(context, batch, embedded, w, {w, -learning_rate, Real(1)}, by_embedded);
  });
}

template <class Real>
double BasicModel<Real>::scores(Context& context, const Batch& batch,
                                const BasicEmbedded<Real>& embedded, const Real* w,
                                Real* logits) const {
  check(batch, embedded);
  return fitting(context, batch,
                 [&] { return double{score_embedded(context, batch, embedded, w, logits)}; });
}

template <class Real>
DeferredSum BasicModel<Real>::learn_forward(Context&, const Batch&, const BasicEmbedded<Real>&,
                                            const Real*) const {
  throw CheckFailure("this model has no embedding table that others could look up");
}

template <class Real>
void BasicModel<Real>::learn_backward(Context&, const Batch&, const BasicEmbedded<Real>&,
                                      const Real*, Sink<Real>, BasicEmbedded<Real>&) const {
  throw CheckFailure("this model has no embedding table that others could look up");
}

template <class Real>
DeferredSum BasicModel<Real>::score_embedded(Context&, const Batch&, const BasicEmbedded<Real>&,
                                             const Real*, Real*) const {
  throw CheckFailure("this model has no embedding table that others could look up");
}

template <class Real>
Work BasicModel<Real>::forward_work(const BatchShape&) const {
  throw CheckFailure("this model has no embedding table that others could look up");
}

template <class Real>
void BasicModel<Real>::touched_rows(Context& context, const Batch& batch,
                                    std::vector<std::vector<Index>>& rows) const {
  check(batch);
  rows.resize(layout_.sparse);
  touch(context, batch, rows);
}

template <class Real>
double BasicModel<Real>::scores(Context& context, const Batch& batch, const Real* w,
                                Real* logits) const {
  check(batch);
  return fitting(context, batch, [&] {
    const DeferredSum loss = score(context, batch, w, logits);
    context.stage_ahead();
    return double{loss};
  });
}

template <class Real>
void BasicModel<Real>::estimate_statistics(Context&, const Batch&, const Real*, Real*) const {
  HETSGD_CHECK_EQ(statistics().numbers, 0U);
}

template <class Real>
double BasicModel<Real>::rank(Context& context, const Batch& batch, const Real* w, std::size_t k,
                              std::uint32_t* top) const {
  check(batch);
  HETSGD_CHECK(data_.task != Task::binary);
  return fitting(context, batch, [&] { return rank_batch(context, batch, w, k, top); });
}

template <class Real>
double BasicModel<Real>::rank_batch(Context& context, const Batch& batch, const Real* w,
                                    std::size_t k, std::uint32_t* top) const {
  context.output.reset(context.device(), batch.size() * outputs());
  const DeferredSum loss = score(context, batch, w, context.output.data());
  context.stage_ahead();
  kernels<BasicOutputLayerKernels<Real>>(context.device())
      .top_k(batch.size(), outputs(), context.output.data(), k, top);
  return loss;
}

template <class Real>
void BasicModel<Real>::touch(Context& context, const Batch& batch,
                             std::vector<std::vector<Index>>& rows) const {
  if (rows.empty()) return;
  const Index count = data_.fields() > 0 ? data_.categories() : data_.feature_count;
  context.touched(count).collect(batch, rows.front());
  for (std::size_t s = 1; s < rows.size(); ++s) rows[s] = rows.front();
}

template <class Real>
double BasicModel<Real>::sample_bytes(const BatchShape& batch) const {
  // Two copies of index and value; sorted: number, row and value twice, and as much to work with.
  constexpr double kNonzero = 2 * 8 + 4 + 2 * 8 + 12, kLabel = 2 * 4, kOffsets = 2 * 2 * 8;
  // Numbers of categories twice, sorted as nonzeros; dense columns twice.
  constexpr double kLookup = 2 * 4 + 2 * 8 + 2 * 4 + 12, kElement = 4;
  return kOffsets + 2 * kElement * data_.dense_columns +
         (kNonzero * batch.nonzeros + kLabel * batch.labels + kLookup * batch.lookups) /
             batch.samples +
         kElement * (sample_scratch() + static_cast<double>(outputs()));
}

template <class Real>
std::vector<std::uint64_t> BasicModel<Real>::layer_sizes() const {
  return {data_.feature_count, outputs()};
}

template <class Real>
BasicGradient<Real> make_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device) {
  BasicGradient<Real> g;
  g.flat.reset(device, model.parameters());
  device.fill(model.parameters(), Real(0), g.flat.data());
  g.rows.resize(model.layout().sparse);
  return g;
}

template <class Real>
void clear_rows(const BasicModel<Real>& model, BasicDevice<Real>& device, BasicGradient<Real>& g) {
  for (const ParameterBlock& block : model.layout().blocks) {
    if (block.row_sparse()) device.fill(block.size(), Real(0), g.flat.data() + block.offset);
  }
  for (std::vector<Index>& rows : g.rows) rows.clear();
}

template <class Real>
void apply_gradient(const BasicModel<Real>& model, BasicDevice<Real>& device,
                    const BasicGradient<Real>& g, Real learning_rate, Real* w) {
  const Layout& layout = model.layout();
  std::size_t begin = 0;  // of a run of neighbouring dense blocks, which is one call
  const auto add_dense = [&](std::size_t end) {
    if (begin == end) return;
    device.axpby(end - begin, -learning_rate, g.flat.data() + begin, Real(1), w + begin);
  };
  std::size_t s = 0;
  for (const ParameterBlock& block : layout.blocks) {
    if (!block.row_sparse()) continue;
    add_dense(block.offset);
    device.apply_rows(g.rows[s++], block.cols, rule::AddScaled<Real>{-learning_rate},
                      g.flat.data() + block.offset, w + block.offset);
    begin = block.offset + block.size();
  }
  add_dense(layout.size);
}

#define HETSGD_INSTANTIATE(Real)                                                                 \
  template class BasicModelContext<Real>;                                                        \
  template class BasicModel<Real>;                                                               \
  template BasicGradient<Real> make_gradient<Real>(const BasicModel<Real>&, BasicDevice<Real>&); \
  template void clear_rows<Real>(const BasicModel<Real>&, BasicDevice<Real>&,                    \
                                 BasicGradient<Real>&);                                          \
  template void apply_gradient<Real>(const BasicModel<Real>&, BasicDevice<Real>&,                \
                                     const BasicGradient<Real>&, Real, Real*);
HETSGD_INSTANTIATE(float)
HETSGD_INSTANTIATE(double)
#undef HETSGD_INSTANTIATE

}  // namespace hetsgd
