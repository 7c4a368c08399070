// dc-asgd: delay-compensated asynchronous SGD. As asgd, but the server corrects each gradient to
// first order for what the parameters have moved since the worker pulled them, with lambda g g^T in
// place of the Hessian, of which only the diagonal is kept.
//
// Paper:      Zheng et al. 2017 (baseline of ESync, section 5), algorithm 2.
// Implements: w <- w - lr (g + lambda g o g o (w - w_bak(m)));  w_bak(m) <- w at m's pull;
//             --dc adaptive: MeanSquare <- m MeanSquare + (1 - m) g o g, m = 0.95, and
//             lambda0 / sqrt(MeanSquare + 1e-7) in place of lambda. o: element-wise.
// Symbols:    lambda, lambda0 --lambda, m the worker.
// Cost:       messages as asgd; an update streams 9 vectors instead of 3 (11 adaptive), and the
//             server keeps a backup per worker.
// Records:    as asgd.
// Deviations: as asgd, of plain SGD alone. --dc-backup server keeps one backup, the parameters
//             before the last update, as some systems do; it compensates for one update only,
//             whatever the staleness. One MeanSquare for all workers, which takes up g before it is
//             used.

#include <cmath>
#include <optional>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/parameter_server.hpp"

namespace hetsgd {
namespace {

enum class Compensation { constant, adaptive };
enum class Backup { worker, server };

struct DcOptions {
  Compensation compensation = Compensation::constant;
  std::optional<double> lambda;  // none: the paper's, 0.04; adaptive 2
  Backup backup = Backup::worker;

  double strength() const {
    return lambda.value_or(compensation == Compensation::adaptive ? 2 : 0.04);
  }
};

constexpr double kMeanSquareDecay = 0.95;

class CompensatingServer final : public ParameterServer {
 public:
  CompensatingServer(const ServerStart& start, const DcOptions& options)
      : ParameterServer(start), o_(options), compensated_(parameters().size()) {
    const auto backups = o_.backup == Backup::server ? 1 : static_cast<std::size_t>(start.workers);
    backup_.assign(backups, {parameters().begin(), parameters().end()});
    if (o_.compensation == Compensation::adaptive) mean_square_.assign(compensated_.size(), 0.0F);
  }

  void fields(Archive& fields) override {
    ParameterServer::fields(fields);
    if (o_.backup == Backup::server) fields("backup", backup_.front());
    fields("mean_square", mean_square_);
  }

 private:
  void pushed(int from, const Push& push, std::span<const float> g,
              Responder<Pull> reply) override {
    std::vector<float>& w_bak =
        backup_[o_.backup == Backup::server ? 0 : static_cast<std::size_t>(from)];
    compensate(g, w_bak);
    if (o_.backup == Backup::server) w_bak.assign(parameters().begin(), parameters().end());
    apply(push, compensated_);
    if (o_.backup == Backup::worker) w_bak.assign(parameters().begin(), parameters().end());
    answer({.version = version(), .applied = version(), .lead = 0}, reply);
  }
  void pulled(int from) override {
    if (o_.backup == Backup::server) return;
    backup_[static_cast<std::size_t>(from)].assign(parameters().begin(), parameters().end());
  }

  double passes() const override { return o_.compensation == Compensation::adaptive ? 11 : 9; }

  // compensated = g + lambda g o g o (w - w_bak).
  void compensate(std::span<const float> g, std::span<const float> w_bak) {
    const std::span<const float> w = parameters();
    const auto strength = static_cast<float>(o_.strength());
    constexpr auto kDecay = static_cast<float>(kMeanSquareDecay);
    constexpr auto kFresh = static_cast<float>(1 - kMeanSquareDecay);
    if (o_.compensation == Compensation::constant) {
      for (std::size_t i = 0; i < g.size(); ++i) {
        compensated_[i] = g[i] + strength * g[i] * g[i] * (w[i] - w_bak[i]);
      }
      return;
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      mean_square_[i] = kDecay * mean_square_[i] + kFresh * g[i] * g[i];
      const float lambda = strength / std::sqrt(mean_square_[i] + 1e-7F);
      compensated_[i] = g[i] + lambda * g[i] * g[i] * (w[i] - w_bak[i]);
    }
  }

  DcOptions o_;
  std::vector<std::vector<float>> backup_;  // by worker, or one
  std::vector<float> mean_square_;
  std::vector<float> compensated_;
};

class DcAsgd final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add_choice("dc", o_.compensation,
                   {{"constant", Compensation::constant}, {"adaptive", Compensation::adaptive}},
                   "How --lambda is used. constant takes it as it is, and adaptive divides it by "
                   "the root of the gradients' mean square.");
    set.add("lambda", o_.lambda,
            "Strength of the compensation. auto: 0.04 with --dc constant, 2 with --dc adaptive.")
        .symbol("lambda")
        .at_least(0);
    set.add_choice(
        "dc_backup", o_.backup, {{"worker", Backup::worker}, {"server", Backup::server}},
        "Parameters from which the server measures how far the model has moved. worker: those of "
        "the worker's last pull. server: those before the server's last update.");
  }

  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    auto server = ParameterClient::open<CompensatingServer>(self, o_);
    Replica replica = server.replica();
    while (self.running()) {
      const double lr = self.learning_rate(b);
      self.gradient(replica, self.batches().next(b));
      server.push_and_pull(lr, replica);
      self.evaluate_here(replica.w);
    }
  }

 private:
  DcOptions o_;
};

const bool dc_asgd_registered = register_algorithm<DcAsgd>({
    .name = "dc-asgd",
    .title = "Delay-compensated ASGD",
    .idea = "The parameter server of asgd corrects each gradient, to first order, for how far the "
            "parameters have moved since the worker pulled them. The gradient's own squares stand "
            "in for the Hessian.",
    .paper = "Zheng et al. 2017, algorithm 2; baseline of ESync (section 5)",
    .cost = "as asgd; the server streams three times as many elements per update",
    .result = "the server's model, as the measuring worker has just received it",
    .identities = "lambda 0 = asgd, to the bit; one worker = sgd (backup per worker), up to "
                  "rounding",
    .synchronous = false,
    .plain_sgd_only = "has an update rule of its own",
    .rate_over_workers = true,
});

}  // namespace
}  // namespace hetsgd
