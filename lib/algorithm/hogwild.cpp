// hogwild: one model in the memory of one machine, on which all workers step at the same time
// without a lock; or one model per group of workers, averaged now and then.
//
// Paper:      Niu, Recht, Re, Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
//             gradient descent", NIPS 2011; Adaptive SGD, section 2.3; CROSSBOW, section 6.
//             --models: Zhang, Re, "DimmWitted: a study of main-memory statistical analytics",
//             PVLDB 7(12), 2014.
// Implements: every worker: w <- w - lr g(w), on the w that the others are changing; with several
//             models w_1 .. w_G every --tau steps of worker 0: w_g <- (w_1 + ... + w_G) / G.
// Symbols:    w the model, lr --learning-rate, b --batch-size (every worker's), tau --tau.
// Cost:       no message. With several models 2 G n elements read and written per average. Memory:
//             one model per group; in sim two more per worker (shared_model.hpp).
// Records:    histogram "staleness": updates of the same model by others between a step's reading
//             and its writing.
// Deviations: the paper's steps take one sample and update its features alone; ours take a
//             batch, and dense layers move as a whole. sim models bounded delay with consistent
//             reads, so that nothing is lost and nothing torn there. DimmWitted averages in a
//             thread of its own, as often as it can.

#include <algorithm>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/groups.hpp"
#include "algorithm/shared_model.hpp"

namespace hetsgd {
namespace {

class Hogwild final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add("models", models_,
            "Workers that share a model: all (machine), none (worker), or groups such as 0-3:4-7.");
    set.add("tau", tau_,
            "Number of steps of worker 0 between two averagings of the models. It has an effect if "
            "--models makes several.")
        .symbol("tau")
        .unit("steps")
        .at_least(1);
  }

  void check(const Plan& plan) const override { groups(plan.workers); }
  void check_model(const Plan&, const Model& model) const override { check_shareable(model); }

  void worker(Worker& self) const override {
    SharedWorker sharing(self);
    SharedModel* own = nullptr;
    const std::vector<std::shared_ptr<SharedModel>> models = join_models(self, sharing, own);
    const std::uint64_t b = self.plan().batch_size;
    std::vector<float> mean;
    for (std::uint64_t& step = self.state([] { return Steps{}; }).next; self.running(); ++step) {
      const double lr = self.learning_rate(b);
      sharing.step(self.batches().next(b), lr, *own);
      if (self.rank() == 0 && models.size() > 1 && step % tau_ == 0) sharing.average(models);
      self.evaluate_here([&]() -> std::span<const float> { return result(models, mean); });
    }
  }

  // The shared model; in sim also the elements that a step reads and their new values.
  double model_vectors(const Plan&) const override { return 3; }

 private:
  struct Steps {
    std::uint64_t next = 1;
    void fields(Archive& fields) { fields("next", next); }
  };

  Groups groups(int workers) const {
    if (models_ == "machine") return parse_groups(fmt::format("0-{}", workers - 1), workers);
    if (models_ != "worker") return parse_groups(models_, workers, "--models");
    Groups alone;
    for (int rank = 0; rank < workers; ++rank) alone.push_back({rank});
    return alone;
  }

  // Joins the models of all groups; own <- the model of this worker's group. A worker keeps no list
  // of all workers.
  std::vector<std::shared_ptr<SharedModel>> join_models(Worker& self, SharedWorker& sharing,
                                                        SharedModel*& own) const {
    std::vector<std::shared_ptr<SharedModel>> models;
    for (const std::vector<int>& members : groups(self.plan().workers)) {
      const auto part = std::ranges::find(members, self.id()) - members.begin();
      models.push_back(sharing.join(fmt::format("model {}", models.size()),
                                    static_cast<std::size_t>(part), members.size()));
      if (part < std::ssize(members)) own = models.back().get();
    }
    return models;
  }

  // The measured model: the only one, or the mean of all models.
  static std::span<const float> result(const std::vector<std::shared_ptr<SharedModel>>& models,
                                       std::vector<float>& mean) {
    if (models.size() == 1) return models.front()->w();
    std::vector<std::span<float>> w;
    for (const auto& model : models) w.push_back(model->w());
    mean.resize(w.front().size());
    mean_in_order(w, mean);
    return mean;
  }

  std::string models_ = "machine";
  std::uint64_t tau_ = 100;
};

const bool hogwild_registered = register_algorithm<Hogwild>({
    .name = "hogwild",
    .title = "Hogwild!",
    .idea = "All workers step on one model in the memory that they share, without a lock and "
            "without waiting. Every worker sees the updates of the others at once.",
    .paper = "Niu et al. 2011; Adaptive SGD, section 2.3; CROSSBOW, section 6",
    .cost = "no message; a gradient may miss what others did during its computation",
    .result = "the shared model; of several models their mean",
    .identities = "one worker = sgd to the bit; P equal workers = asgd on an ideal network",
    .synchronous = false,
    .plain_sgd_only = "moves the shared parameters by fused steps, which have no other state",
    .cpu_only = "keeps its model in the host's memory, where steps read and write it in place",
    .one_process_only = "keeps one model in the memory that its workers share",
    .replicated_tables_only = "keeps its tables in the model that its workers share",
    .rate_over_workers = true,
});

}  // namespace
}  // namespace hetsgd
