// slide: an output layer of very many labels, of which a sample scores and moves the active ones
// alone: the true ones, and those that hash tables over the layer's rows hold near its activations.
//
// Paper:      Chen, Medini, Farwell, Gobriel, Tai, Shrivastava, "SLIDE: in defense of smart
//             algorithms over hardware acceleration for large-scale deep learning systems", MLSys
//             2020, arXiv 1903.03129; the CPU baseline of 000 section 5.
// Implements: S_i = true labels u retrieved(A_i) u fill;  p_i = softmax over S_i of W_l . A_i + b_l;
//             gradient (p_il - [l true]/|true|) / b, of the rows that are active alone;  Adam on the
//             touched rows (parts/row_adam.hpp).
// Symbols:    A_i activations of the hidden layer, b --batch-size, lr --learning-rate, K
//             --hash-codes, L --hash-tables, m --bin, N0 --rehash.
// Cost:       no message. A batch costs as much as its pairs of samples and active labels
//             (parts/sampled_mlp.hpp); a rehash a pass over the layer and its N K L codes.
// Records:    histograms of each sample: "active" labels, "retrieved" ones; of each batch: "blind"
//             queries, "staleness" (updates by others between its reading and its writing). Event
//             "rehash" {rehash, rebuilt}. At every evaluation event "recall" {samples, probed: test
//             samples, k 1, 5, 10, recall: share of the k labels with the highest scores that the
//             tables hold, random: the same of as many labels by chance, retrieved; and since the
//             last one, of training: train_recall: share of true labels, train_random,
//             train_retrieved, train_entries: of buckets, train_blind}.
// Deviations: one hidden layer. The program races within a batch; this form has no race (--devices
//             cpu:N, parts/sampled_mlp.hpp). Several workers are Hogwild: model, moments, tables and
//             the count of batches are shared, batches are not; in sim they land whole (bounded
//             delay). The program's Adam moves all rows in every batch (--lazy dense). The loss of a
//             step is that over the active labels. Under --charge a batch is charged for the
//             share of labels that the tables lead to here, of the full number.

#include <nlohmann/json.hpp>
#include <numeric>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/sampled_mlp.hpp"

namespace hetsgd {
namespace {

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

  void worker(Worker& self) const override {
    const auto state = self.share<SampledState>("slide", [&] {
      return std::make_shared<SampledState>(self.model(), o_, self.plan().optimizer,
                                            self.plan().seed, self.size(), self.make_monitor());
    });
    const std::shared_ptr<SharedModel> shared = join_model(self);
    SampledMlp mlp(self.model(), self.charged_model(), self.device(), *state);
    while (self.running()) {
      const auto rehash = state->begin_rehash();
      if (rehash) make_tables(self, *rehash, mlp, *state, *shared);
      mlp.take(state->index());  // others go on with the old ones meanwhile
      step(self, mlp, *state, *shared);
      evaluate(self, mlp, *state, *shared);
    }
  }

  // The model and two moments, of all workers; layer 0 twice and, in sim, rows of a batch.
  double model_vectors(const Plan& plan) const override { return 1 + 3.0 / plan.workers; }

 private:
  // A worker keeps no list of all workers.
  static std::shared_ptr<SharedModel> join_model(Worker& self) {
    std::vector<int> all(static_cast<std::size_t>(self.size()));
    std::iota(all.begin(), all.end(), 0);
    return self.shared_model("model", all);
  }

  static void make_tables(Worker& self, const SampledState::Rehash& rehash, SampledMlp& mlp,
                          SampledState& state, SharedModel& shared) {
    std::optional<LabelTables> tables;
    mlp.take(nullptr);  // one set of tables in memory, if nobody else has the old one
    self.endpoint().compute_in_place(
        mlp.index_work(), ComputeKind::vector,
        {.in_place = [&] { tables = mlp.index_in_place(rehash, shared.w()); },
         .read = [&] { mlp.read_index(shared.w()); },
         .fn = [&] { tables = mlp.index(rehash); },
         .write = [] {}});
    state.publish(rehash, std::move(*tables));
    self.record({{"type", "rehash"}, {"rehash", rehash.number + 1}, {"rebuilt", rehash.rebuilt}});
  }

  static void step(Worker& self, SampledMlp& mlp, SampledState& state, SharedModel& shared) {
    const std::uint64_t b = self.plan().batch_size;
    const double lr = self.learning_rate(b);
    const Batch& batch = self.batches().next(b);
    const BatchShape shape = self.charged(batch.shape());
    const Seconds started = self.now();
    const std::span<float> w = shared.w();
    double loss = 0;
    std::uint64_t read = 0, staleness = 0;
    const auto begin = [&] { read = shared.writes(); };
    const auto land = [&] { staleness = shared.count_write() - read; };
    self.endpoint().compute_in_place(mlp.select_work(shape), ComputeKind::step,
                                     {.in_place = [&] { begin(), mlp.select_in_place(batch, w); },
                                      .read = [&] { begin(), mlp.read_features(batch, w); },
                                      .fn = [&] { mlp.select(batch); },
                                      .write = [] {}});
    self.endpoint().compute_in_place(
        mlp.learn_work(shape), ComputeKind::part,
        {.in_place = [&] { loss = mlp.learn_in_place(batch, lr, w), land(); },
         .read = [&] { mlp.read_labels(w); },
         .fn = [&] { loss = mlp.learn(batch); },
         .write = [&] { mlp.write(lr, w), land(); }});
    self.completed(batch, loss, started);
    self.count_own_update();
    state.count(mlp.retrieval());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      self.observe("active", static_cast<std::int64_t>(mlp.active(i)));
      self.observe("retrieved", static_cast<std::int64_t>(mlp.retrieved(i)));
    }
    self.observe("blind", static_cast<std::int64_t>(mlp.retrieval().blind));
    self.observe("staleness", static_cast<std::int64_t>(staleness));
  }

  // Rows catch up on the clock; those that others touch meanwhile, off it.
  void evaluate(Worker& self, SampledMlp& mlp, SampledState& state, SharedModel& shared) const {
    if (!self.evaluation_due() || !state.begin_catch_up()) return;
    if (state.clock.owes()) {
      self.endpoint().compute_in_place(mlp.catch_up_work(), ComputeKind::vector,
                                       {.in_place = [&] { mlp.catch_up_all(shared.w()); },
                                        .read = [] {},
                                        .fn = [] {},
                                        .write = [&] { mlp.catch_up_all(shared.w()); }});
    }
    bool is_measured = false;
    self.evaluate_here([&]() -> std::span<const float> {
      is_measured = true;
      mlp.catch_up_all(shared.w());
      return shared.w();
    });
    state.end_catch_up();
    if (!is_measured || o_.active.all) return;
    ProbedRecall probed;
    const Batch samples = self.test_batch(o_.probe);
    if (!samples.empty()) self.measure([&] { probed = mlp.probe(samples, shared.w()); });
    self.record(
        recall_event(self.samples(), self.model().outputs(), probed, state.take_retrieval()));
  }

  SampledOptions o_;
};

const bool slide_registered = register_algorithm<Slide>({
    .name = "slide",
    .title = "SLIDE",
    .idea = "A sample scores only the labels that hash tables over the output layer lead to, and "
            "only these move. A worker has as many cores as its device; several share the model "
            "as Hogwild's do.",
    .paper = "Chen et al. 2020; CPU baseline of 000 section 5",
    .cost = "no message; a rehash of the output layer every so many batches",
    .result = "the shared model, all rows caught up",
    .identities =
        "one worker with --active all is sgd, up to rounding; with --optimizer adam --lazy "
        "dense, too",
    .synchronous = false,
    .cpu_only = "walks hash tables with the host's code",
    .one_process_only = "keeps one model in the memory that its workers share",
    .optimizers_only = {"sgd", "adam"},
    .one_hidden_layer_only = "samples the labels above the hidden layer of an mlp",
    .defaults = {{"objective", "hashed"},
                 {"optimizer", "adam"},
                 {"learning_rate", "1e-4"},
                 {"batch_size", "128"}},
    .replicated_tables_only = "trains an mlp, which has no tables",
});

}  // namespace
}  // namespace hetsgd
