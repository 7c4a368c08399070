// hetsgd bench all_reduce, all_gather, reduce_scatter, broadcast, all_to_all: time and bandwidth of
// a collective by size, and for all_reduce and all_to_all also by operator. Columns and size flags
// are those of nccl-tests.
#include <fmt/format.h>

#include <algorithm>

#include "bench_command.hpp"
#include "cluster/cluster.hpp"
#include "cluster/cuda/gpu_group.hpp"
#include "cluster/devices.hpp"
#include "cluster/profile.hpp"
#include "collective_bench.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/logging.hpp"
#include "core/median.hpp"
#include "core/text.hpp"
#include "data/source.hpp"

namespace hetsgd {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;

class CollectiveCommand final : public BenchCommand {
 public:
  explicit CollectiveCommand(const BenchCollective& collective)
      : BenchCommand(collective.name, 20, 5), collective_(collective) {}

  CommandInfo info() const override {
    const std::string called = "hetsgd bench " + name();
    CommandInfo info{
        .name = "bench " + name(),
        .summary = "time and bandwidth by size: " + collective_.summary,
        .examples = {called + " -b 4K -e 64M -f 4", called + " --devices cuda:all -b 1M -e 256M",
                     "mpirun -n 4 " + called, called + " -n 100 --format json -o bench.json",
                     called + " --cluster sim --workers 64 --network ethernet-1g"}};
    if (!has_operators()) return info;
    if (collective_.option == "op") {
      info.examples.push_back(called + " --op sum,adasum");
      info.examples.push_back("mpirun -n 8 " + called + " --devices cuda:auto");
    } else {
      info.examples.push_back(called +
                              " --exchange blocking,scatter --workers 4 --straggler "
                              "'kind=uniform,worker=0,min=1ms,max=2ms'");
    }
    return info;
  }

  bool runs_together() const override { return hetsgd::runs_together(cluster_); }

 protected:
  void declare_own(OptionSet& set) override {
    if (has_operators()) declare_operators(set);
    set.add("min_bytes", min_bytes_,
            "Smallest buffer of one worker, e.g. 4K. For all_gather it is the gathered buffer.")
        .unit("bytes");
    set.add("max_bytes", max_bytes_,
            "Largest buffer of one worker, e.g. 64M. For all_gather it is the gathered buffer.")
        .unit("bytes");
    set.add("factor", factor_, "Factor between one buffer size and the next.").at_least(2);
    set.add("check", check_, "Compare the results with a computation in one process.");
    set.add("workers", wanted_workers_,
            "Number of workers. auto: as many as MPI ranks, or else as --devices, at least 2.")
        .symbol("P")
        .range(1, 1 << 16)
        .or_zero();
    set.add(
        "cluster", cluster_,
        "Where the workers run: threads (real time), sim (virtual time) or mpi (a process each, "
        "the default under mpirun).");
    set.add("devices", devices_,
            "Device of each worker, e.g. cpu:1, cuda:0,cuda:1 or cuda:all. The last one repeats. "
            "It has an effect with --cluster threads and mpi.");
    set.add("profile", profile_,
            "Device profile of simulated workers: a built-in name, a JSON file, or a list of them, "
            "one per worker. It has an effect with --cluster sim.")
        .reads_file(device_profile_names);
    set.add("network", network_,
            "Network model: a built-in name or a JSON file. It has an effect with --cluster sim.")
        .reads_file();
    set.add("straggler", stragglers_,
            "Delay of workers before each call, e.g. 'kind=uniform,worker=0,min=0ms,max=2ms'. "
            "Repeat the option to combine several delays.")
        .reads_file(straggler_files)
        .absent("none");
  }

  Report measure() override {
    resolve();
    const std::vector<const BenchOperator*> ops = operators();
    const std::vector<std::size_t> all_sizes = sizes();
    const CollectiveBench bench(cluster_, cluster_options(), iterations(), warmup());
    announce(all_sizes.back());
    Report report{.list = "results", .facts = facts(), .notes = notes(), .is_root = is_root_};
    for (const std::size_t bytes : all_sizes) measure(bench, bytes, ops, report);
    return report;
  }

 private:
  bool has_operators() const { return collective_.operators.size() > 1; }

  void declare_operators(OptionSet& set) {
    std::vector<std::string> names;
    for (const BenchOperator& op : collective_.operators) {
      names.push_back(op.name + ": " + op.help);
    }
    set.add(collective_.option, ops_,
            fmt::format("Operators to time, separated by commas. Default: {}, and under MPI also "
                        "its own. {}.",
                        collective_.default_operators, fmt::join(names, "; ")));
  }

  // Sets the members that follow from the devices and the launcher.
  void resolve() {
    for (const std::string& device : split_devices({devices_})) {
      list_.push_back(device);
      gpus_ = gpus_ && device.starts_with("cuda");
      cores_ = cores_ && !device.starts_with("cuda");
    }
    ProcessGroup& processes = processes_of(cluster_);
    ranks_ = processes.control() != nullptr;
    is_root_ = processes.is_root();
    real_ = !cluster_kind(cluster_).is_virtual;
    if (!real_) {
      cores_ = true;  // in virtual time --devices has no effect
      gpus_ = false;
    }
    workers_ = wanted_workers_.value_or(ranks_ ? processes.size()
                                               : std::max(2, static_cast<int>(list_.size())));
  }

  std::string default_operators() const {
    if (collective_.option == "exchange") return ranks_ && cores_ ? "blocking,mpi" : "blocking";
    if (ranks_) {
      return cores_                                      ? "sum,mpi,adasum"
             : !gpus_                                    ? "sum,adasum"
             : processes_of(cluster_).takes_gpu_memory() ? "sum,gpu-mpi,gpu-host,adasum"
                                                         : "sum,gpu-host,adasum";
    }
    if (!gpus_) return "sum,adasum";
    std::vector<int> gpus;  // by worker, for the check of NCCL
    for (const std::string& device : list_) {
      gpus.push_back(static_cast<int>(
          parse_integer("--devices cuda:N", std::string_view(device).substr(5), 0, 1024)));
    }
    gpus.resize(static_cast<std::size_t>(std::max(workers_, 1)), gpus.back());
    const std::string problem = cuda::nccl_problem(gpus);
    if (!problem.empty()) log_info("without nccl: {}", problem);
    return (problem.empty() ? std::string("nccl,") : std::string()) +
           "gpu-ring,gpu-tree,gpu-host,adasum";
  }

  std::vector<const BenchOperator*> operators() const {
    if (!has_operators()) return {&collective_.operators.front()};
    std::vector<const BenchOperator*> list;
    const std::string ops = ops_.empty() ? default_operators() : ops_;
    for (const std::string_view name : split(ops, ',')) {
      const BenchOperator& op =
          find_bench_operator(collective_, "--" + collective_.option, std::string(trim(name)));
      check_place(op);
      list.push_back(&op);
    }
    return list;
  }

  void check_place(const BenchOperator& op) const {
    const auto needs = [&](bool there, std::string_view where, std::string hint) {
      if (there) return;
      refuse("--" + collective_.option, op.name, fmt::format("it only with {}", where),
             std::move(hint));
    };
    constexpr const char* kRanks = "start it with mpirun -n 4";
    switch (op.place) {
      case BenchPlace::anywhere:
        return;
      case BenchPlace::host:
        return needs(cores_, "workers on cores", "use --devices cpu:1");
      case BenchPlace::gpus:
        needs(gpus_, "workers on GPUs", "use --devices cuda:0,cuda:1");
        if (op.method == AllReduce::ring || op.method == AllReduce::tree) {
          needs(!ranks_, "GPUs of one process", "use --cluster threads");
        }
        return needs(op.method != AllReduce::mpi || ranks_, "--cluster mpi", kRanks);
      case BenchPlace::mpi:
        return needs(ranks_ && cores_, "--cluster mpi with workers on cores", kRanks);
    }
  }

  // The sizes from --min-bytes times --factor up to --max-bytes, in whole elements of float32. For
  // a collective in parts they are multiples of the number of workers.
  std::vector<std::size_t> sizes() const {
    const std::uint64_t first = parse_bytes("--min-bytes", min_bytes_);
    const std::uint64_t last = parse_bytes("--max-bytes", max_bytes_);
    if (first < sizeof(float)) {
      refuse("--min-bytes", quote(min_bytes_), "at least one element of 4 bytes");
    }
    if (last < first || last > kLargest) {
      refuse("--max-bytes", quote(max_bytes_),
             fmt::format("between --min-bytes {} and 1T", min_bytes_),
             "sizes have binary suffixes: 64K is 65,536 bytes");
    }
    std::vector<std::size_t> list;
    const std::uint64_t granule =
        sizeof(float) * (collective_.in_parts ? static_cast<std::uint64_t>(workers_) : 1);
    for (std::uint64_t bytes = first;; bytes *= factor_) {
      const std::uint64_t size = std::max(bytes / granule, std::uint64_t{1}) * granule;
      if (list.empty() || list.back() != size) list.push_back(size);
      if (bytes > last / factor_) break;
    }
    return list;
  }

  ClusterOptions cluster_options() const {
    ClusterOptions options;
    options.workers = workers_;
    options.profiles = load_device_profiles(profile_, workers_);
    options.network = load_network_model(network_);
    options.devices = list_;
    if (!stragglers_.empty()) {
      options.scenario = std::make_shared<const Scenario>(stragglers_, workers_, options.seed);
    }
    return options;
  }

  // Checks that the buffers fit into memory, and warns of a long run. One process moves the bytes
  // of all workers, also in virtual time. In parts, buffers grow with the workers, so the total
  // grows with their square.
  void announce(std::size_t largest) const {
    constexpr double kMuch = 1 << 30;
    if (gpus_) return;
    // A worker has its input, its buffer, a copy of the result, and the expected result.
    const int here = ranks_ ? 1 : workers_;
    const double all = (check_ ? 4.0 : 3.0) * here * static_cast<double>(largest);
    require_memory(all, "--max-bytes " + max_bytes_, fmt::format("the buffers of {} workers", here),
                   MemoryLimit::available, "reduce --max-bytes or --workers");
    if (ranks_ || all < kMuch) return;
    warn(
        "this process fills, moves and compares the buffers of all {} workers, {} of memory, {} "
        "times per size; that can take minutes{}",
        workers_, format_bytes(all), iterations() + warmup(),
        check_ ? "; --no-check skips the comparison" : "");
  }

  // The lower limits for collectives of a size, on real clusters.
  struct Floor {
    double time_s = 0;                            // median
    std::optional<double> peer_bytes_per_s = {};  // GPUs: rate of exchanges in pairs
  };

  void measure(const CollectiveBench& bench, std::size_t bytes,
               const std::vector<const BenchOperator*>& ops, Report& report) const {
    const std::size_t count = bytes / sizeof(float);
    const auto status = [&](const std::string& what) {
      if (!is_root_ || !detect_terminal().terminal) return;
      show_status(fmt::format("{}, {}", format_bytes(static_cast<double>(bytes)), what));
    };
    status("floor");
    const std::optional<Floor> floor = real_ ? std::optional(floor_of(bench, count)) : std::nullopt;
    for (const BenchOperator* op : ops) {
      status(op->name);
      const BenchTimes times = bench.measure(collective_, *op, count, check_);
      report.rows.push_back(row_of(bytes, op->name, floor, times));
      report.wrong += times.wrong;
    }
  }

  Floor floor_of(const CollectiveBench& bench, std::size_t count) const {
    if (cores_) return {.time_s = median(bench.floor(count).time_s)};
    const double exchange_s = median(bench.sendrecv(count).time_s);
    return {.time_s = exchange_s * collective_.bus_factor(workers_),
            .peer_bytes_per_s = static_cast<double>(count * sizeof(float)) / exchange_s};
  }

  // The columns of nccl-tests: bytes over time, and the share of it that every link must carry at
  // least.
  Row row_of(std::size_t bytes, const std::string& op, const std::optional<Floor>& floor,
             const BenchTimes& times) const {
    const double time_s = median(times.time_s), in_call_s = median(times.in_call_s);
    const auto [least, most] = std::ranges::minmax_element(times.time_s);
    const double algbw = time_s > 0 ? static_cast<double>(bytes) / time_s : 0;
    Row row;
    row.both("size(B)", "size_bytes", bytes)
        .both("count", "count", bytes / sizeof(float))
        .both("type", "type", std::string("float"))
        .both("redop", "redop", op)
        .show("time(us)", fmt::format("{:.2f}", 1e6 * time_s))
        .keep("time_s", {{"median", time_s}, {"min", *least}, {"max", *most}})
        .both("algbw(GB/s)", "algbw_bytes_per_s", algbw, "{:.3f}", 1e-9)
        .both("busbw(GB/s)", "busbw_bytes_per_s", algbw * collective_.bus_factor(workers_),
              "{:.3f}", 1e-9)
        .both("#wrong", "wrong", check_ ? std::optional(times.wrong) : std::nullopt)
        .keep("peer_bytes_per_s", nullptr)
        .keep("floor_s", nullptr)
        .keep("in_call_s", in_call_s);
    if (floor) {
      row.both("floor(us)", "floor_s", floor->time_s, "{:.2f}", 1e6)
          .show("time/floor", fmt::format("{:.2f}", time_s / floor->time_s));
      if (floor->peer_bytes_per_s) row.keep("peer_bytes_per_s", *floor->peer_bytes_per_s);
    }
    if (!stragglers_.empty()) row.show("in call(us)", fmt::format("{:.2f}", 1e6 * in_call_s));
    return row;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> texts;
    if (!stragglers_.empty()) {
      texts.emplace_back(
          "time: from the barrier to the return of the last worker, including the delays; in call: "
          "from a worker's arrival to its return, mean over the workers");
    }
    if (real_ && gpus_) {
      texts.emplace_back(
          "floor: time to send the bytes that every GPU must send (size x busbw/algbw) at the rate "
          "at which pairs of GPUs exchange buffers of this size");
    } else if (real_) {
      texts.emplace_back(
          "floor: time in which all workers together add 1 to every element of their buffers, one "
          "read and one write each");
    }
    return texts;
  }

  nlohmann::json facts() const {
    nlohmann::json facts = {{"cluster", cluster_}, {"workers", workers_}, {"devices", list_}};
    if (!real_) facts.update({{"profile", profile_}, {"network", network_}});
    if (!stragglers_.empty()) facts["stragglers"] = stragglers_;
    return facts;
  }

  const BenchCollective& collective_;
  std::string ops_;
  std::string min_bytes_ = "4K", max_bytes_ = "64M";
  std::uint64_t factor_ = 2;
  bool check_ = true;
  std::optional<int> wanted_workers_;
  int workers_ = 0;  // the resolved number
  std::string cluster_ = default_cluster(/*is_virtual=*/false);
  std::string devices_ = "cpu:1";
  std::string profile_ = "v100", network_ = "pcie3";
  std::vector<std::string> stragglers_;

  std::vector<std::string> list_;    // devices by worker
  bool gpus_ = true, cores_ = true;  // all workers have a GPU; no worker has one
  bool real_ = false;                // the cluster runs in real time
  bool ranks_ = false;               // workers are processes of their own
  bool is_root_ = true;              // this process prints
};

}  // namespace

// One command for each collective.
const bool benches_registered = register_commands(CommandGroup::machines, 5, [] {
  Commands benches;
  for (const BenchCollective& collective : bench_collectives()) {
    benches.push_back(std::make_unique<CollectiveCommand>(collective));
  }
  return benches;
});

}  // namespace hetsgd
