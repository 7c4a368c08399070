// slide: an output layer of very many labels. A sample scores and moves only its active labels: the
// true ones, and those that hash tables over the layer's rows find near its activations.
//
// Paper:      Chen, Medini, Farwell, Gobriel, Tai, Shrivastava, "SLIDE: in defense of smart
//             algorithms over hardware acceleration for large-scale deep learning systems", MLSys
//             2020, arXiv 1903.03129; the CPU baseline of Adaptive SGD, section 5.
// Implements: S_i = true labels u retrieved(A_i) u fill;  p_i = softmax over S_i of W_l . A_i +
//             b_l;  gradient (p_il - [l true]/|true|) / b, of the active rows alone;  Adam on the
//             touched rows (optimizer/row_adam.hpp).
// Symbols:    A_i activations of the hidden layer, b --batch-size, lr --learning-rate, K
//             --hash-codes, L --hash-tables, m --bin, N0 --rehash.
// Cost:       no message. A batch costs as much as its pairs of samples and active labels
//             (parts/slide_state.hpp); a rehash a pass over the layer and its N K L codes.
// Records:    histograms of each sample: "active" labels, "retrieved" ones; of each batch: "blind"
//             queries, "staleness" (updates by others between its reading and its writing). Event
//             "rehash" {rehash, rebuilt}. At every evaluation event "recall" {samples, probed: test
//             samples, k 1, 5, 10, recall: share of the k labels with the highest scores that the
//             tables hold, random: the same of as many labels by chance, retrieved; and since the
//             last one, of training: train_recall: share of true labels, train_random,
//             train_retrieved, train_entries: of buckets, train_blind}.
// Deviations: one hidden layer. The program races within a batch; this form has no race (--devices
//             cpu:N, parts/slide_state.hpp). Several workers are Hogwild: model, moments, tables
//             and the count of batches are shared, batches are not; in sim they land whole (bounded
//             delay). The program's Adam moves all rows in every batch (--lazy dense). The loss of
//             a step is that over the active labels. Under --charge a batch is charged for the
//             share of labels that the tables retrieve here, of the full number. A simulated batch
//             takes the time of its operations and bytes, a floor that the program does not reach
//             on real cores (results/slide.md): --efficiency is the share of it.

#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/slide_state.hpp"
#include "algorithm/shared_model.hpp"

namespace hetsgd {
namespace {

// Event "recall", for the probed samples and for the training since the last event.
nlohmann::json recall_event(std::uint64_t samples, std::size_t labels, const ProbedRecall& probed,
                            const Retrieval& learnt) {
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const auto all = static_cast<double>(labels);
  nlohmann::json recall = nlohmann::json::array();
  for (std::size_t c = 0; c < std::size(ProbedRecall::kBest); ++c) {
    recall.push_back(ratio(probed.found[c], probed.best[c]));
  }
  return {{"type", "recall"},
          {"samples", samples},
          {"probed", probed.samples},
          {"k", ProbedRecall::kBest},
          {"recall", recall},
          {"random", ratio(probed.retrieved, probed.samples) / all},
          {"retrieved", ratio(probed.retrieved, probed.samples)},
          {"train_recall", ratio(learnt.found, learnt.labels)},
          {"train_random", ratio(learnt.retrieved, learnt.samples) / all},
          {"train_retrieved", ratio(learnt.retrieved, learnt.samples)},
          {"train_entries", ratio(learnt.probed, learnt.samples)},
          {"train_blind", learnt.blind}};
}

// One worker, with as many cores as its device has.
class SlideWorker {
 public:
  SlideWorker(Worker& self, const SlideOptions& options)
      : self_(self),
        o_(options),
        state_(self.share<SlideState>("slide",
                                      [&] {
                                        return std::make_shared<SlideState>(
                                            self.model(), o_, self.plan().optimizer,
                                            self.plan().seed, self.size(), self.make_monitor());
                                      })),
        shared_(SharedWorker(self).join()),
        pass_(self.model(), self.costs().charged_model(), self.device(), o_.active,
              self.plan().seed),
        rows_(*state_, pass_) {}

  void train() {
    self_.stateless();
    while (self_.running()) {
      if (const auto rehash = state_->begin_rehash()) make_tables(*rehash);
      index_ = state_->index();  // others use the old ones meanwhile
      step();
      evaluate();
    }
  }

 private:
  std::span<float> w() { return shared_->w(); }
  // The work that takes as long at the profile's rates as `work` at the share --efficiency of them.
  Work slowed(const Work& work) const { return work.scaled(1 / o_.efficiency); }

  void make_tables(const SlideState::Rehash& rehash) {
    const SampledShape& shape = pass_.shape();
    const std::span<float> W = w().subspan(shape.weight, shape.labels * shape.hidden);
    std::vector<float> own;
    std::optional<LabelIndex> made;
    index_ = nullptr;  // one set of tables in memory, if no other worker has the old one
    self_.endpoint().compute_in_place(
        slowed(pass_.index_work()), ComputeKind::vector,
        {.in_place = [&] { made = rows_.index_in_place(rehash, w()); },
         .read = [&] { rows_.catch_up_all(w()), own.assign(W.begin(), W.end()); },
         .fn = [&] { made = state_->make_index(rehash, own.data(), pass_.cores()); },
         .write = [] {}});
    state_->publish(std::move(*made));
    self_.record({{"type", "rehash"},
                  {"rehash", rehash.schedule.number + 1},
                  {"rebuilt", rehash.schedule.rebuilt}});
  }

  void step() {
    const std::uint64_t b = self_.plan().batch_size;
    const double lr = self_.learning_rate(b);
    const Batch& batch = self_.batches().next(b);
    const BatchShape shape = self_.costs().charged(batch.shape());
    const Seconds started = self_.now();
    const LabelIndex* const index = index_.get();
    double loss = 0;
    std::uint64_t read = 0, staleness = 0;
    const auto begin = [&] { read = shared_->writes(); };
    const auto land = [&] { staleness = shared_->count_write() - read; };
    self_.endpoint().compute_in_place(
        slowed(pass_.select_work(shape)), ComputeKind::step,
        {.in_place = [&] { begin(), rows_.select_in_place(batch, index, w()); },
         .read = [&] { begin(), rows_.read_features(batch, w()); },
         .fn = [&] { rows_.select(batch, index); },
         .write = [] {}});
    self_.endpoint().compute_in_place(
        slowed(pass_.learn_work(shape)), ComputeKind::part,
        {.in_place = [&] { loss = rows_.learn_in_place(batch, lr, w()), land(); },
         .read = [&] { rows_.read_labels(w()); },
         .fn = [&] { loss = rows_.learn(batch); },
         .write = [&] { rows_.write(lr, w()), land(); }});
    self_.completed(batch, loss, started);
    self_.count_own_update();
    const ActiveSets& sets = pass_.sets();
    state_->count(sets.retrieval());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      self_.observe("active", static_cast<std::int64_t>(sets.active()[i].size()));
      self_.observe("retrieved", static_cast<std::int64_t>(sets.retrieved()[i]));
    }
    self_.observe("blind", static_cast<std::int64_t>(sets.retrieval().blind));
    self_.observe("staleness", static_cast<std::int64_t>(staleness));
  }

  // Rows catch up on the clock; rows that others touch meanwhile catch up off it.
  void evaluate() {
    if (!self_.evaluation_due() || !state_->begin_catch_up()) return;
    const auto catch_up = [&] { rows_.catch_up_all(w()); };
    if (state_->clock.owes()) {
      self_.endpoint().compute_in_place(
          slowed(rows_.catch_up_work()), ComputeKind::vector,
          {.in_place = catch_up, .read = [] {}, .fn = [] {}, .write = catch_up});
    }
    bool is_measured = false;
    self_.evaluate_here([&]() -> std::span<const float> {
      is_measured = true;
      catch_up();
      return w();
    });
    state_->end_catch_up();
    if (!is_measured || o_.active.all) return;
    ProbedRecall probed;
    const Batch samples = self_.test_batch(o_.probe);
    if (!samples.empty()) self_.measure([&] { probed = pass_.probe(samples, w(), *index_); });
    self_.record(
        recall_event(self_.samples(), pass_.shape().labels, probed, state_->take_retrieval()));
  }

  Worker& self_;
  const SlideOptions& o_;
  const std::shared_ptr<SlideState> state_;
  const std::shared_ptr<SharedModel> shared_;
  SampledPass pass_;
  SlideRows rows_;
  std::shared_ptr<const LabelIndex> index_;  // null where all labels are active
};

class Slide final : public Algorithm {
 public:
  void declare(OptionSet& set) override { o_.declare(set); }
  void check_model(const Plan&, const Model& model) const override { SampledShape checked(model); }

  std::vector<std::string> warnings(const Plan&, const Layout& layout) const override {
    const std::size_t labels = layout.blocks.back().size();
    if (o_.active.all || o_.active.least <= labels) return {};
    return {fmt::format("--active-min is {}, but there are {} labels: all of them are active",
                        o_.active.least, labels)};
  }

  void worker(Worker& self) const override { SlideWorker(self, o_).train(); }

  // Vectors: the model and two moments, shared by all workers; layer 0 twice and, in sim, rows of a
  // batch.
  double model_vectors(const Plan& plan) const override { return 1 + 3.0 / plan.workers; }

 private:
  SlideOptions o_;
};

const bool slide_registered = register_algorithm<Slide>({
    .name = "slide",
    .title = "SLIDE",
    .idea = "For each sample, hash tables over the output layer pick a few labels, and only these "
            "are scored and updated. Each worker uses all cores of its device; several workers "
            "share one model as in Hogwild.",
    .paper = "Chen et al. 2020; CPU baseline of Adaptive SGD (section 5)",
    .cost = "no message; a rehash of the output layer every so many batches",
    .result = "the shared model, all rows caught up",
    .identities =
        "one worker with --active all is sgd, up to rounding; with --optimizer adam --lazy "
        "dense, too",
    .synchronous = false,
    .cpu_only = "searches hash tables on the host",
    .one_process_only = "keeps one model in the memory that its workers share",
    .optimizers_only = {"sgd", "adam"},
    .one_hidden_layer_only = "samples the labels above the hidden layer of an mlp",
    .defaults = {{"objective", "hashed"},
                 {"optimizer", "adam"},
                 {"learning_rate", "1e-4"},
                 {"batch_size", "128"}},
    .replicated_tables_only = "trains an mlp, which has no tables",
    .works_alone = true,
});

}  // namespace
}  // namespace hetsgd
