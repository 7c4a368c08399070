// The `sim` cluster: workers are fibers, time is virtual, the mathematics runs for real on all
// cores.
//
// Same options and seed give the same bytes of results, whatever the host's load and number of
// threads. Limits: fibers have stacks of 256 KiB; what needs more belongs into compute or a pause,
// which run on threads' stacks (compute_cancellable may run its function on the fiber's). Devices
// live as long as the cluster.
#include "cluster/cluster.hpp"
#include "cluster/sim/endpoint.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::sim {

namespace {

void check_positive(std::string_view option, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw usage_error("{}: found {}, expected a number above 0", option, value);
}

// The scenario is shared, the other options are copied. Throws Error(usage) for speeds and scales
// that are not above 0, CheckFailure for a profile or a network without rates.
// run() may be called several times, each run from virtual time 0 on the same devices. It blocks
// its thread, which becomes the event loop; abort() comes from any other.
class SimCluster final : public Cluster {
 public:
  explicit SimCluster(const ClusterOptions& options)
      : options_(options), devices_(options.workers, options.precision) {
    for (const double speed : options.speed) check_positive("--speed", speed);
    check_positive("--charge", options.payload_scale);
    check_positive("--charge", options.rows_scale);
    check_positive("--charge", options.ids_scale);
    check_positive("--charge", options.rows_part_bytes.value_or(1));
    check_positive("--charge", options.work_scale);
    // Rates come from profiles, whose readers refuse others.
    HETSGD_CHECK(!options.profiles.empty());
    for (const DeviceProfile& profile : options.profiles) {
      HETSGD_CHECK_LT(0.0, profile.operations_per_s);
      HETSGD_CHECK_LT(0.0, profile.bytes_per_s);
    }
    if (options.server_profile) {
      HETSGD_CHECK_LT(0.0, options.server_profile->operations_per_s);
      HETSGD_CHECK_LT(0.0, options.server_profile->bytes_per_s);
    }
    HETSGD_CHECK(options.host_cores == 0 || !options.recorded_step);
    HETSGD_CHECK_LT(0.0, options.network.bytes_per_s);
    HETSGD_CHECK_LT(0.0, options.network.server_bytes_per_s);
  }

  std::string name() const override { return "sim"; }
  int size() const override { return options_.workers; }
  std::string device_name(int worker) const override {
    const std::string& profile = options_.profile_of(worker).name;
    const std::string name = profile.empty() ? "sim" : profile;
    const double speed = options_.speed_of(worker);
    return speed == 1 ? name : fmt::format("{} x {}", name, speed);
  }
  WorkerReport planned(int worker) const override {
    return {.rank = worker,
            .device = device_name(worker),
            .breakdown = {},
            .profile = options_.profile_of(worker).name};
  }
  ClusterReport run_segment(const std::function<void(Endpoint&)>& worker,
                            Segment& segment) override;
  void abort(std::exception_ptr error) override;

 private:
  ClusterOptions options_;
  SimDevices devices_;
  std::mutex mutex_;  // guards the two below
  // Engine of the current run; null between runs. aborted_ stays: an abort that comes before a
  // run ends it before its first event.
  Engine* engine_ = nullptr;
  std::exception_ptr aborted_;
};

ClusterReport SimCluster::run_segment(const std::function<void(Endpoint&)>& worker,
                                      Segment& segment) {
  SimRun run(options_, devices_, segment);
  // After the run: fibers are gone before the endpoints that they use.
  std::vector<std::unique_ptr<SimEndpoint>> endpoints;
  std::vector<Seconds> ended(at(run.size));
  for (int rank = 0; rank < run.size; ++rank) {
    endpoints.push_back(std::make_unique<SimEndpoint>(run, rank, nullptr));
    SimEndpoint& endpoint = *endpoints.back();
    run.world.workers[at(endpoint.id())] = &endpoint.time_breakdown();
    run.engine.spawn(endpoint.id(), "", &endpoint.time_breakdown(), nullptr,
                     [&worker, &endpoint, &end = ended[at(rank)]] {
                       worker(endpoint);
                       endpoint.close_account();
                       end = endpoint.now();
                     });
  }
  if (!segment.goes_on()) run.schedule_loss(Seconds(0));
  {
    const std::lock_guard lock(mutex_);
    engine_ = &run.engine;
    if (aborted_) engine_->abort(aborted_);
  }
  // Also when the run throws: abort() must not reach an engine that is gone.
  struct Detach {
    SimCluster& self;
    ~Detach() {
      const std::lock_guard lock(self.mutex_);
      self.engine_ = nullptr;
    }
  } detach{*this};

  run.engine.run();

  ClusterReport report;
  for (int rank = 0; rank < run.size; ++rank) {
    WorkerReport& mine = report.workers.emplace_back(planned(segment.id(rank)));
    mine.breakdown = endpoints[at(rank)]->account();
    mine.ended = ended[at(rank)];
    // A worker that waited for a lost one has waited until it knew.
    if (const auto since = run.engine.waits_since(mine.rank)) {
      mine.ended = std::max(Seconds(*since), segment.detected);
      mine.breakdown.wait += mine.ended - Seconds(*since);
    }
  }
  segment.end([&](SavedFields& fields) {
    run.services.save(fields);
    Archive archive = Archive::saving(fields, fields);
    archive("network", run.world.network);
  });
  report.elapsed = Seconds(run.engine.now());
  report.paused = Seconds(run.paused_s);
  report.events = run.engine.events();
  report.server_link_busy = Seconds(run.world.network.server_busy());
  return report;
}

void SimCluster::abort(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = error;
  if (engine_ != nullptr) engine_->abort(std::move(error));
}

const bool sim_registered = register_cluster(
    {.name = "sim",
     .help = "simulated workers on a virtual clock",
     .make = [](const ClusterOptions& options) { return std::make_unique<SimCluster>(options); },
     .is_virtual = true});

}  // namespace

}  // namespace hetsgd::sim
