// hetsgd calibrate network: measures collectives and service calls of a real cluster and fits the
// network model that `sim` charges.
#include "cluster/calibrate_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibration.hpp"
#include "cluster/cluster.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "printer.hpp"
#include "result/result.hpp"
#include "training/oversubscription.hpp"

namespace hetsgd {
namespace {

class CalibrateNetwork final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "calibrate network",
        .summary = "fit a network model for --network to measured collectives and service calls",
        .examples = {
            "hetsgd calibrate network --workers 2 -o threads.json",
            "mpirun -n 4 hetsgd calibrate network -o mpi.json",
            "hetsgd train --profile here.json --network mpi.json --workers 4 --cluster sim"}};
  }

  bool runs_together() const override { return hetsgd::runs_together(cluster_); }

  void declare(OptionSet& set) override {
    set.add("cluster", cluster_, "Cluster to measure: threads, or mpi under mpirun.");
    set.add("workers", wanted_workers_,
            "Number of workers. auto: 2, or under mpirun as many as ranks.")
        .range(1, 4096)
        .or_zero();
    set.add("sizes", sizes_, "Sizes of vectors and payloads, separated by commas, e.g. 4K,1M.")
        .unit("bytes");
    set.add("point_time", point_time_, "Measuring time for each size and kind of call.")
        .unit("s")
        .above(0);
    set.add("name", name_, "Name of the model. Default: the cluster and its number of workers.");
    printer_.declare_output(set, "the model");
  }

  int run(OptionSet&, const std::vector<std::string>&) override {
    if (cluster_kind(cluster_).is_virtual) {
      refuse("--cluster", cluster_ + ", whose network is a model already", "threads or mpi");
    }
    ProcessGroup& processes = processes_of(cluster_);
    workers_ = wanted_workers_.value_or(processes.control() != nullptr ? processes.size() : 2);
    if (workers_ < 2) {
      refuse("--workers", std::to_string(workers_),
             "at least 2, because one worker alone sends nothing");
    }
    ClusterOptions options;
    options.workers = workers_;
    NetworkMeasurement measurement{.sizes_bytes = sizes(), .point_time = point_time_};
    if (processes.is_root() && detect_terminal().terminal) measurement.status = show_status;
    const auto cluster = make_cluster(cluster_, options);
    std::vector<std::string> warnings = oversubscription_warnings(*cluster);
    std::optional<HostLoad> load = host_load(*cluster);
    const auto samples = measure_network(cluster_, options, measurement);
    NetworkModel waits;
    measure_waits(cluster_, options, waits);
    if (!processes.is_root()) return 0;
    show_status("");
    NetworkFit fit = fit_network_model(samples);
    fit.network.wake = waits.wake;
    fit.network.poll = waits.poll;
    fit.network.poll_core_share = waits.poll_core_share;
    describe(fit, samples.size());
    print_samples(samples, fit);
    if (load) warnings.push_back(finish_host_load(processes.place(), *load, "this calibration"));
    for (const std::string& text : warnings) {
      if (!text.empty()) warn("{}", text);
    }
    printer_.print(to_json_text(fit.network), "network");
    return 0;
  }

 private:
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> list;
    for (const std::string_view text : split(sizes_, ',')) {
      const std::uint64_t bytes = parse_bytes("--sizes", std::string(trim(text)));
      if (bytes > (std::uint64_t{1} << 32)) {
        refuse("--sizes", quote(text), "at most 4G");
      }
      list.push_back(bytes / sizeof(float) * sizeof(float));
    }
    if (std::ranges::adjacent_find(list, std::ranges::not_equal_to()) == list.end()) {
      refuse("--sizes", quote(sizes_), "at least two different sizes",
             "a small one shows the latency, a large one the bandwidth");
    }
    return list;
  }

  void describe(NetworkFit& fit, std::size_t points) const {
    fit.network.name = name_.empty() ? fmt::format("{} {} workers", cluster_, workers_) : name_;
    fit.network.source = fmt::format("hetsgd calibrate network --cluster {} --workers {} on {}: {}",
                                     cluster_, workers_, processor_of(environment_json()),
                                     fit_errors(points, fit.median_error, fit.max_error));
  }

  static void print_samples(const std::vector<NetworkSample>& samples, const NetworkFit& fit) {
    Table table({"call", "bytes", "measured_us", "predicted_us", "error"});
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const NetworkSample& sample = samples[i];
      table.add({sample.call == NetworkCall::service ? "service" : "all_reduce",
                 fmt::format("{}", sample.bytes), fmt::format("{:.1f}", 1e6 * sample.time.count()),
                 fmt::format("{:.1f}", 1e6 * predicted(fit.network, sample).count()),
                 fmt::format("{:+.1f} %", 100 * fit.relative_error[i])});
    }
    log_table(table);
    log_info(
        "a thread is woken in {:.1f} us; a rank that waits polls every {:.1f} us, which takes "
        "{:.1f} % of a core",
        1e6 * fit.network.wake.count(), 1e6 * fit.network.poll.count(),
        100 * fit.network.poll_core_share);
    log_info("{}", fit.network.source);
  }

  std::string cluster_ = default_cluster(/*is_virtual=*/false);
  std::optional<int> wanted_workers_;
  int workers_ = 0;  // the resolved number
  std::string sizes_ = "64,4K,64K,1M,4M,16M";
  Seconds point_time_{0.2};
  std::string name_;
  Printer printer_;
};

}  // namespace

const bool calibrate_network_registered =
    register_command<CalibrateNetwork>(CommandGroup::machines, 4);

}  // namespace hetsgd
