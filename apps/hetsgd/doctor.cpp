// hetsgd doctor: is this machine fit for measurements? Each check prints what it saw.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "commands.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "data/load.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/device.hpp"
#include "result/environment.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

enum class Verdict { ok, warning, broken };

struct Check {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string text;
};

const char* word(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::warning ? "warning" : "broken";
}

Check check_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) allowed.push_back(core);
    }
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  const bool all = static_cast<long>(allowed.size()) == online;
  return {"cores", all ? Verdict::ok : Verdict::warning,
          fmt::format("{} online, usable: {}", online, format_rank_set(allowed))};
}

Check check_load() {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) return {"load", Verdict::warning, "unknown"};
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return {
      "load", load < 0.5 * cores ? Verdict::ok : Verdict::warning,
      fmt::format("{:.2f} over the last minute; `threads` measures well on an idle machine", load)};
}

Check check_memory() {
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double total = page * static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double free = page * static_cast<double>(::sysconf(_SC_AVPHYS_PAGES));
  return {"memory", total >= 0x1p30 ? Verdict::ok : Verdict::warning,
          fmt::format("{}, {} free", format_bytes(total), format_bytes(free))};
}

// The smallest step that the clock of the cluster `threads` makes, and what reading it costs.
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

// One dense product of n x n: the device works, and how fast.
Check check_device(const std::string& name, Device& device, std::size_t n) {
  Buffer a(device, n * n), b(device, n * n), c(device, n * n);
  device.fill(n * n, 1.0F, a.data());
  device.fill(n * n, 0.5F, b.data());
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    device.gemm(Transpose::no, Transpose::no, n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F,
                c.data(), n);
    device.synchronize();
    const Seconds time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / time.count());
  }
  std::vector<float> product(n * n);
  device.download(product.data(), c.data(), product.size() * sizeof(float));
  const bool right = product.front() == 0.5F * static_cast<float>(n) &&
                     product.back() == 0.5F * static_cast<float>(n);
  return {name, right ? Verdict::ok : Verdict::broken,
          fmt::format("{}: dense product {}, {:.3g} GFLOP/s", device.name(),
                      right ? "right" : "wrong", best / 1e9)};
}

// Each GPU; where there is none, why.
std::vector<Check> check_gpus() {
  const CudaPlatform platform = cuda_platform();
  if (platform.gpus.empty()) return {{"gpus", Verdict::ok, "none: " + platform.problem}};
  std::vector<Check> checks;
  for (const CudaGpu& gpu : platform.gpus) {
    const std::string name = fmt::format("cuda:{}", gpu.ordinal);
    try {
      checks.push_back(check_device(name, *make_cuda_device<float>(gpu.ordinal), 4096));
    } catch (const Error& error) {
      checks.push_back({name, Verdict::broken, fmt::format("{}; {}", error.what(), error.hint())});
    }
  }
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
            .examples = {"hetsgd doctor", "hetsgd doctor --json"}};
  }
  void declare(OptionSet& set) override { set.add("json", json_, "print JSON"); }

  int run(OptionSet&, const std::vector<std::string>&) override {
    std::vector<Check> checks = {check_cores(), check_load(),  check_memory(),
                                 check_clock(), check_cache(), check_clusters()};
    checks.push_back(check_device("cpu device", *make_cpu_device<float>(1), 512));
    for (Check& check : check_gpus()) checks.push_back(std::move(check));
    if (json_) {
      json list = json::array();
      for (const Check& check : checks) {
        list.push_back(
            {{"name", check.name}, {"verdict", word(check.verdict)}, {"text", check.text}});
      }
      fmt::print("{}\n", json{{"checks", list}, {"environment", environment_json()}}.dump(2));
    } else {
      fmt::print("{}\n", version_text());
      for (const Check& check : checks) {
        fmt::print("{:<8} {:<12} {}\n", word(check.verdict), check.name, check.text);
      }
    }
    const bool broken = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
      return check.verdict == Verdict::broken;
    });
    return static_cast<int>(broken ? ExitCode::device : ExitCode::ok);
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace hetsgd
