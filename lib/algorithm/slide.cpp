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
//             --hash-codes, L --hash-tables, m --bin, N0 --rehash, lambda --rehash-decay.
// Cost:       no message. A batch costs as much as its pairs of samples and active labels
//             (parts/sampled_mlp.hpp); a rehash a pass over the layer and its N K L codes.
// Records:    histogram "active_labels" (of each sample); event "rehash" {rehash, rebuilt}; event
//             "recall" {samples, recall: share of true labels that the tables led to, random: the
//             same of as many labels by chance, retrieved, probed, blind} of the time since the last.
// Deviations: one worker on several cores (--devices cpu:N), one hidden layer. The program races
//             within a batch; this form has no race (parts/sampled_mlp.hpp). Its Adam moves all
//             rows in every batch (--lazy dense). The loss of a step is that over the active labels.
//             Before an evaluation rows catch up off the clock. The optimizer is --optimizer, adam
//             or sgd: the paper's is adam with a rate of 1e-4. Under --charge this method is charged
//             for the data that it is given.

#include <nlohmann/json.hpp>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/sampled_mlp.hpp"

namespace hetsgd {
namespace {

class Slide final : public Algorithm {
 public:
  void declare(OptionSet& set) override { o_.declare(set); }
  void check(const Plan&) const override { o_.check(); }

  std::vector<std::string> warnings(const Plan&, const Layout& layout) const override {
    const std::size_t labels = layout.blocks.back().size();
    if (o_.active.all || o_.active.least <= labels) return {};
    return {fmt::format("--active-min is {}, but there are {} labels: all of them are active",
                        o_.active.least, labels)};
  }

  void worker(Worker& self) const override {
    Replica replica = self.replica();
    float* const w = replica.w.data();
    SampledMlp mlp(self.model(), self.device(), o_, self.plan().optimizer, self.plan().seed);
    const std::uint64_t b = self.plan().batch_size;
    while (self.running()) {
      const double lr = self.learning_rate(b);
      if (mlp.rehash_due()) rehash(self, mlp, w);
      const Batch& batch = self.batches().next(b);
      const Seconds started = self.now();
      double loss = 0;
      self.endpoint().compute(mlp.select_work(batch.shape()), ComputeKind::step,
                              [&] { mlp.select(batch, w); });
      self.endpoint().compute(mlp.learn_work(batch.shape()), ComputeKind::part,
                              [&] { loss = mlp.learn(batch, lr, w); });
      self.completed(batch, loss, started);
      self.count_own_update();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        self.observe("active_labels", static_cast<std::int64_t>(mlp.active(i).size()));
      }
      self.evaluate_here([&]() -> std::span<const float> {
        mlp.catch_up_all(w);
        return replica.w.span();
      });
    }
    record_recall(self, mlp);
  }

  // The model, two moments, and layer 0's gradient; tables are L numbers per label.
  double model_vectors(const Plan&) const override { return 4; }

 private:
  static void rehash(Worker& self, SampledMlp& mlp, float* w) {
    record_recall(self, mlp);
    self.endpoint().compute(mlp.rehash_work(), ComputeKind::vector, [&] { mlp.rehash(w); });
    self.record({{"type", "rehash"}, {"rehash", mlp.rehashes()}, {"rebuilt", mlp.rebuilt()}});
  }

  static void record_recall(Worker& self, SampledMlp& mlp) {
    const Retrieval r = mlp.take_retrieval();
    if (r.samples == 0 || r.labels == 0 || r.probed == 0) return;
    const auto samples = static_cast<double>(r.samples);
    const double retrieved = static_cast<double>(r.retrieved) / samples;
    self.record({{"type", "recall"},
                 {"samples", self.samples()},
                 {"recall", static_cast<double>(r.found) / static_cast<double>(r.labels)},
                 {"random", retrieved / static_cast<double>(self.model().outputs())},
                 {"retrieved", retrieved},
                 {"probed", static_cast<double>(r.probed) / samples},
                 {"blind", r.blind}});
  }

  SampledOptions o_;
};

const bool slide_registered = register_algorithm<Slide>({
    .name = "slide",
    .title = "SLIDE",
    .idea = "A sample scores only the labels that hash tables over the output layer lead to, and "
            "only these move. One worker, on as many cores as its device has.",
    .paper = "Chen et al. 2020; CPU baseline of 000 section 5",
    .cost = "no message; a rehash of the output layer every so many batches",
    .result = "the worker's model, all rows caught up",
    .identities = "--active all is sgd; with --optimizer adam --lazy dense, too",
    .max_workers = 1,
    .cpu_only = "walks hash tables with the host's code",
    .optimizers_only = {"sgd", "adam"},
    .one_hidden_layer_only = "samples the labels above the hidden layer of an mlp",
});

}  // namespace
}  // namespace hetsgd
