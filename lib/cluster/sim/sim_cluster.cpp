#include "cluster/sim/sim_cluster.hpp"

#include "cluster/sim/node.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace sim {
namespace {

void check_positive(std::string_view option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw usage_error("{}: found {}, expected a number above 0", option, value);
}

class SimCluster final : public Cluster {
 public:
  explicit SimCluster(const ClusterOptions& options)
      : options_(options), devices_(options.workers) {
    for (const double speed : options.speed) check_positive("--speed", speed);
    check_positive("--charge", options.payload_scale);
    check_positive("--charge", options.work_scale);
    // Rates come from profiles, whose readers refuse others.
    HETSGD_CHECK_LT(0.0, options.profile.operations_per_s);
    HETSGD_CHECK_LT(0.0, options.profile.bytes_per_s);
    HETSGD_CHECK_LT(0.0, options.network.bytes_per_s);
    HETSGD_CHECK_LT(0.0, options.network.server_bytes_per_s);
  }

  std::string name() const override { return "sim"; }
  int size() const override { return options_.workers; }
  bool is_virtual() const override { return true; }
  std::string device_name(int rank) const override {
    const std::string name = options_.profile.name.empty() ? "sim" : options_.profile.name;
    const double speed = options_.speed_of(rank);
    return speed == 1 ? name : fmt::format("{} x {}", name, speed);
  }
  ClusterReport run(const std::function<void(Node&)>& worker) override;
  void abort(std::exception_ptr error) override;

 private:
  ClusterOptions options_;
  SimDevices devices_;
  std::mutex mutex_;  // guards the two below
  Engine* engine_ = nullptr;
  std::exception_ptr aborted_;
};

ClusterReport SimCluster::run(const std::function<void(Node&)>& worker) {
  SimRun run(options_, devices_);
  // After the run: fibers are gone before the nodes that they use.
  std::vector<std::unique_ptr<SimNode>> nodes;
  for (int rank = 0; rank < options_.workers; ++rank) {
    nodes.push_back(std::make_unique<SimNode>(run, rank, false));
    SimNode& node = *nodes.back();
    run.world.workers.push_back(&node.ledger());
    run.engine.spawn(rank, "", &node.ledger(), [&worker, &node] { worker(node); });
  }
  {
    const std::lock_guard lock(mutex_);
    engine_ = &run.engine;
    if (aborted_) engine_->abort(aborted_);
  }
  struct Detach {
    SimCluster& self;
    ~Detach() {
      const std::lock_guard lock(self.mutex_);
      self.engine_ = nullptr;
    }
  } detach{*this};

  run.engine.run();

  ClusterReport report;
  for (int rank = 0; rank < options_.workers; ++rank) {
    report.workers.push_back(
        {rank, device_name(rank), nodes[static_cast<std::size_t>(rank)]->ledger()});
  }
  report.elapsed = Seconds(run.engine.now());
  report.fenced = Seconds(run.fenced_s);
  report.events = run.engine.events();
  return report;
}

void SimCluster::abort(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = error;
  if (engine_ != nullptr) engine_->abort(std::move(error));
}

const bool sim_registered =
    register_cluster("sim", "simulated workers on a virtual clock",
                     [](const ClusterOptions& options) { return make_sim_cluster(options); });

}  // namespace
}  // namespace sim

std::unique_ptr<Cluster> make_sim_cluster(const ClusterOptions& options) {
  return std::make_unique<sim::SimCluster>(options);
}

}  // namespace hetsgd
