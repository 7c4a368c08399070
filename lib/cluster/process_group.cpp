#include "cluster/process_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "cluster/devices.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

const std::vector<ProcessPlace>& ProcessGroup::places() const {
  static const std::vector<ProcessPlace> alone = {
      {.pid = ::getpid(),
       .cores = available_cores(),
       .host_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
       .order = machine_cores().in_order(available_cores())}};
  return alone;
}

void ProcessGroup::call_the_roll(const std::vector<Fact>&, Seconds) {}
void ProcessGroup::compare(const std::vector<Fact>&) {}
void ProcessGroup::library_all_reduce(std::span<float>) {}
void ProcessGroup::library_all_to_all(std::span<const float>, std::span<float>) {}
void ProcessGroup::agree_on(const std::function<void()>& prepare, std::span<std::byte>) {
  prepare();
}

bool launched() {
  // Open MPI's mpirun; MPICH's and Intel's Hydra, srun with PMI-1 or PMI-2; PMIx (srun --mpi=pmix,
  // prterun).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name)) return true;
  }
  // Inside of a job srun sets a step with a number of tasks; the batch script itself runs in a step
  // of its own, in which SLURM_STEP_NUM_TASKS is not set.
  return std::getenv("SLURM_PROCID") && std::getenv("SLURM_STEP_NUM_TASKS");
}

int launched_rank() {
  for (const char* name : kRankVariables) {
    const char* const text = std::getenv(name);
    int rank = 0;
    if (text && std::from_chars(text, text + std::strlen(text), rank).ec == std::errc())
      return rank;
  }
  return 0;
}

namespace {

constexpr std::size_t kMostShown = 4;
constexpr std::size_t kLongestValue = 120;

const Fact* find(const std::vector<Fact>& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? nullptr : &*found;
}

std::string shown(const std::string& value) {
  if (value.empty()) return "empty";
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

// "--hidden is 8 on rank 0, 9 on ranks 1-2"; empty: the same everywhere.
std::string difference_in(const std::string& name, const std::vector<std::vector<Fact>>& by_rank) {
  std::vector<std::string> values;  // in the order of the ranks
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Fact* const fact = find(by_rank[rank], name);
    const std::string value = fact ? shown(fact->value) : "unknown";
    if (!ranks.contains(value)) values.push_back(value);
    ranks[value].push_back(static_cast<int>(rank));
  }
  if (values.size() < 2) return "";
  std::string text = name + " is ";
  for (const std::string& value : values) {
    if (&value != values.data()) text += ", ";
    const std::vector<int>& of = ranks[value];
    text += fmt::format("{} on rank{} {}", value, of.size() > 1 ? "s" : "", format_rank_set(of));
  }
  return text;
}

}  // namespace

std::string difference(const std::vector<std::vector<Fact>>& by_rank) {
  std::string text;
  std::size_t found = 0;
  for (const Fact& fact : by_rank.front()) {
    const std::string one = difference_in(fact.name, by_rank);
    if (one.empty()) continue;
    if (++found <= kMostShown) text += (text.empty() ? "" : "; ") + one;
    if (fact.decides_others) break;
  }
  if (found > kMostShown) text += fmt::format("; and {} more", found - kMostShown);
  return text;
}

}  // namespace hetsgd
