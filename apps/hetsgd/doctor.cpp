// hetsgd doctor checks whether this machine is fit for measurements. Each check prints its
// observation.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/devices.hpp"
#include "command.hpp"
#include "core/core_map.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "data/load.hpp"
#include "linalg/cuda/cuda_details.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/device.hpp"
#include "printer.hpp"
#include "ranks.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

enum class Verdict { ok, warning, broken };

struct Check {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string text;
};

// mpirun hetsgd doctor: the MPI library, and every rank with its host, its cores and the device
// that --devices gives it. Empty if no launcher started this process. Collective. Throws
// Error(usage) or Error(device) as `train` does.
std::vector<Check> check_ranks(const std::vector<std::string>& devices) {
  if (!launched()) return {};
  const std::string name = default_cluster(/*is_virtual=*/false);
  ProcessGroup& processes = processes_of(name);
  ClusterOptions options;
  options.workers = processes.size();
  options.devices = devices;
  const auto cluster = make_cluster(name, options);
  std::vector<Check> checks = {
      {name, Verdict::ok,
       fmt::format("{}; MPI_THREAD_MULTIPLE; {} pointers to GPU memory", processes.library(),
                   processes.takes_gpu_memory() ? "takes" : "takes no")}};
  for (const ProcessPlace& rank : processes.places()) {
    checks.push_back(
        {fmt::format("rank {}", rank.rank), Verdict::ok,
         fmt::format("{}, local rank {} of {}, process {}, may use cores {} of {}; computes on {}",
                     rank.host, rank.local_rank, rank.local_size, rank.pid,
                     format_rank_set(rank.cores), rank.host_cores,
                     cluster->planned(rank.rank).device)});
  }
  return checks;
}

const char* word(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::warning ? "warning" : "broken";
}

Check check_cores() {
  const std::vector<int> allowed = available_cores();
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const bool all = static_cast<long>(allowed.size()) == online;
  return {"cores", all ? Verdict::ok : Verdict::warning,
          fmt::format("{} online, usable: {}", online, format_rank_set(allowed))};
}

Check check_topology() {
  const HostTopology& topology = machine_cores().topology();
  return {"topology", topology.cores > 0 ? Verdict::ok : Verdict::warning, topology_text(topology)};
}

Check check_load() {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) return {"load", Verdict::warning, "unknown"};
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return {
      "load", load < 0.5 * cores ? Verdict::ok : Verdict::warning,
      fmt::format("{:.2f} over the last minute; --cluster threads needs an idle machine", load)};
}

Check check_memory() {
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double total = page * static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double free = page * static_cast<double>(::sysconf(_SC_AVPHYS_PAGES));
  return {"memory", total >= 0x1p30 ? Verdict::ok : Verdict::warning,
          fmt::format("{}, {} free", format_bytes(total), format_bytes(free))};
}

// The resolution of the clock of the cluster `threads`, and the cost of reading it.
Check check_clock() {
  using Clock = std::chrono::steady_clock;
  constexpr int kReads = 100000;
  Clock::duration smallest = Clock::duration::max();
  const auto start = Clock::now();
  auto before = start;
  for (int i = 0; i < kReads; ++i) {
    const auto now = Clock::now();
    if (now > before) smallest = std::min(smallest, now - before);
    before = now;
  }
  const Seconds step = smallest, read = (before - start) / double{kReads};
  return {"clock", step < Seconds(1e-5) ? Verdict::ok : Verdict::warning,
          fmt::format("steps of {}, {} per reading", format_seconds(step), format_seconds(read))};
}

Check check_cache() {
  const std::string folder = default_cache_directory();
  if (folder.empty()) {
    return {"data cache", Verdict::warning, "none: neither HOME nor HETSGD_CACHE_DIR is set"};
  }
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::string probe = folder + "/doctor-XXXXXX";
  const int file = failed ? -1 : ::mkstemp(probe.data());
  if (file < 0) {
    return {"data cache", Verdict::warning,
            fmt::format("{} is not writable ({}): every run parses its data again", folder,
                        failed ? failed.message() : std::strerror(errno))};
  }
  ::close(file);
  ::unlink(probe.c_str());
  const auto space = std::filesystem::space(folder, failed);
  return {"data cache", Verdict::ok,
          fmt::format("{}, {} free", folder, format_bytes(static_cast<double>(space.available)))};
}

// The time of the fastest of five dense products of n x n. Sets `right` to whether the result is
// correct.
Seconds time_product(Device& device, std::size_t n, bool& right) {
  Buffer a(device, n * n), b(device, n * n), c(device, n * n);
  device.fill(n * n, 1.0F, a.data());
  device.fill(n * n, 0.5F, b.data());
  Seconds best = Seconds::max();
  for (int repetition = 0; repetition < 5; ++repetition) {
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    device.gemm(Transpose::no, Transpose::no, n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F,
                c.data(), n);
    device.synchronize();
    best = std::min<Seconds>(best, std::chrono::steady_clock::now() - start);
  }
  std::vector<float> product(n * n);
  device.download(product.data(), c.data(), product.size() * sizeof(float));
  right = product.front() == 0.5F * static_cast<float>(n) &&
          product.back() == 0.5F * static_cast<float>(n);
  return best;
}

// Checks that the device works, and measures its speed by a dense product that is large enough to
// keep a GPU busy.
Check check_device(const std::string& name, Device& device) {
  std::size_t n = 512;
  bool right = false;
  Seconds time = time_product(device, n, right);
  while (right && time < Seconds(2e-3) && n < 4096) {
    n *= 2;
    time = time_product(device, n, right);
  }
  const double operations = 2.0 * static_cast<double>(n * n * n);
  return {name, right ? Verdict::ok : Verdict::broken,
          fmt::format("{}: matrix product {}, {:.3g} GFLOP/s", device.name(),
                      right ? "right" : "wrong", operations / time.count() / 1e9)};
}

// The current and the highest clock. A GPU below its highest clock gives longer times.
std::string clock_text(const CudaGpuDetails& details) {
  if (details.sm.now_mhz <= 0) return "";
  return fmt::format("; SM clock {:.0f} of {:.0f} MHz", details.sm.now_mhz, details.sm.most_mhz);
}

// GPUs without direct access to each other exchange through host memory.
Check check_peers(const CudaPlatform& platform, const std::vector<CudaGpuDetails>& details) {
  std::string missing;
  for (std::size_t i = 0; i < details.size(); ++i) {
    for (const CudaGpu& other : platform.gpus) {
      const int ordinal = platform.gpus[i].ordinal;
      if (other.ordinal == ordinal) continue;
      if (std::ranges::count(details[i].peers, other.ordinal) > 0) continue;
      missing +=
          fmt::format("{}cuda:{} to cuda:{}", missing.empty() ? "" : ", ", ordinal, other.ordinal);
    }
  }
  if (missing.empty()) return {"gpu peers", Verdict::ok, "every GPU reaches the others' memory"};
  return {"gpu peers", Verdict::warning,
          "copies between these GPUs go through the host: " + missing};
}

Check check_library(const CudaLibrary& library) {
  if (!library.file.empty()) return {library.name, Verdict::ok, library.file};
  return {library.name, library.needed ? Verdict::broken : Verdict::warning,
          fmt::format("not found; it is used for {}: {}", library.purpose, library.problem)};
}

// Checks each GPU and its requirements. Without a GPU it tells the reason.
std::vector<Check> check_gpus() {
  const CudaPlatform platform = cuda_platform();
  if (platform.gpus.empty()) return {{"gpus", Verdict::ok, "none: " + platform.problem}};
  std::vector<Check> checks;
  const std::vector<CudaGpuDetails> details = cuda_gpu_details(platform);
  for (std::size_t i = 0; i < details.size(); ++i) {
    const int ordinal = platform.gpus[i].ordinal;
    const std::string name = fmt::format("cuda:{}", ordinal);
    try {
      checks.push_back(check_device(name, *make_cuda_device<float>(ordinal)));
      checks.back().text += clock_text(details[i]);
    } catch (const Error& error) {
      checks.push_back({name, Verdict::broken, fmt::format("{}; {}", error.what(), error.hint())});
    }
  }
  if (details.size() > 1) checks.push_back(check_peers(platform, details));
  for (const CudaLibrary& library : cuda_libraries()) checks.push_back(check_library(library));
  return checks;
}

Check check_clusters() {
  std::string text = fmt::format("{}", fmt::join(cluster_names(), ", "));
  if (!version_json()["features"]["mpi"].get<bool>()) text += "; built without MPI";
  return {"clusters", Verdict::ok, text};
}

class Doctor final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "doctor",
            .summary = "check this machine and this binary; exit code 5 if something is broken",
            .examples = {"hetsgd doctor", "hetsgd doctor --json",
                         "mpirun -n 4 hetsgd doctor --devices cpu:auto"}};
  }
  void declare(OptionSet& set) override {
    printer_.declare_json(set);
    set.add("devices", devices_,
            "Devices of the ranks, as --devices of train. It has an effect only under mpirun.");
  }
  bool runs_together() const override { return launched(); }

  int run(OptionSet&, const std::vector<std::string>&) override {
    std::vector<Check> checks = {check_cores(), check_topology(), check_load(),    check_memory(),
                                 check_clock(), check_cache(),    check_clusters()};
    checks.push_back(check_device("cpu device", *make_cpu_device<float>(1)));
    checks.push_back({"products", Verdict::ok, products_text()});
    std::ranges::move(check_gpus(), std::back_inserter(checks));
    std::ranges::move(check_ranks(devices_), std::back_inserter(checks));
    const auto broken = std::ranges::find(checks, Verdict::broken, &Check::verdict);
    const ExitCode code = broken == checks.end() ? ExitCode::ok : ExitCode::device;
    ProcessGroup& processes = join_launched_processes();
    if (processes.is_root()) print(checks);
    // Rank 0 has printed its own checks. A failed check on another rank is an error.
    return processes.agree([&] {
      if (code != ExitCode::ok && !processes.is_root()) {
        throw device_error("{}: {}", broken->name, broken->text);
      }
      return static_cast<int>(code);
    });
  }

 private:
  void print(const std::vector<Check>& checks) const {
    std::vector<Row> rows;
    for (const Check& check : checks) {
      rows.emplace_back()
          .both("verdict", "verdict", std::string(word(check.verdict)))
          .both("check", "name", check.name)
          .both("what it saw", "text", check.text);
    }
    if (printer_.json()) {
      printer_.print({{"checks", json_of(rows)}, {"environment", environment_json()}});
    } else {
      printer_.print(version_text() + "\n" + table_of(rows).format(OutputFormat::text));
    }
  }

  std::vector<std::string> devices_;
  Printer printer_;
};

}  // namespace

const bool doctor_registered = register_command<Doctor>(CommandGroup::machines, 7);

}  // namespace hetsgd
