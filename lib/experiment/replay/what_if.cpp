#include "experiment/replay/what_if.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "cluster/profile.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "result/statistics.hpp"

namespace hetsgd {
namespace {

constexpr std::string_view kCommunicate = "communicate", kCompute = "compute";
constexpr std::array<std::string_view, 6> kFixedDecisions = {"sgd",       "ssgd", "elastic",
                                                             "local-sgd", "sma",  "easgd"};

std::string_view bare_name(const TraceRange& range) {
  constexpr std::string_view kWait = "wait for ";
  const std::string_view name = range.name;
  return name.starts_with(kWait) ? name.substr(kWait.size()) : name;
}

// The cost of a call on a network, by the name of its collective; a message otherwise.
double cost_of(const NetworkModel& network, const TraceRange& range, int members) {
  const double bytes = static_cast<double>(range.bytes);
  const std::string_view name = bare_name(range);
  if (name == "all_reduce") return network.all_reduce_cost(members, bytes).count();
  if (name == "broadcast") return network.broadcast_cost(members, bytes).count();
  if (name == "all_gather") return network.all_gather_cost(members, bytes / members).count();
  if (name == "reduce_scatter") return network.reduce_scatter_cost(members, bytes).count();
  if (name == "all_to_all") return network.all_to_all_cost(members, bytes / 2).count();
  if (name == "barrier" || name == "split") return network.barrier_cost(members).count();
  return (network.latency + Seconds(bytes / network.bytes_per_s)).count();
}

}  // namespace

std::string kind_of_call(const TraceRange& range) {
  if (range.category == kCompute) return range.name == "sleep" ? "" : range.name;
  if (range.category == kCommunicate || range.category == "service") return range.category;
  return "";
}

template <class Fn>
void WhatIf::each_call(Fn fn) const {
  for (std::size_t l = 0; l < timeline_.processes.size(); ++l) {
    const TraceLine& line = timeline_.processes[l];
    for (std::size_t r = 0; r < line.ranges.size(); ++r) fn(line, line.ranges[r], l, r);
  }
}

WhatIf::WhatIf(const Retiming& retiming)
    : retiming_(retiming), timeline_(retiming.timeline()), ideal_(retiming.own()) {
  each_call([&](const TraceLine&, const TraceRange& range, std::size_t, std::size_t) {
    const std::string kind = kind_of_call(range);
    if (!kind.empty() && std::ranges::find(kinds_, kind) == kinds_.end()) kinds_.push_back(kind);
  });
  make_ideal_computations();
  make_ideal_calls();
}

void WhatIf::make_ideal_computations() {
  const WorkTimes work(timeline_);
  struct Sum {
    double seconds = 0, units = 0;
  };
  std::map<std::string, Sum> sums;
  // The unit is the same for all workers, so it is that of one device.
  const auto units = [&](const TraceRange& range) {
    return work.seconds(0, range.name, range.work);
  };
  each_call([&](const TraceLine&, const TraceRange& range, std::size_t l, std::size_t r) {
    if (range.category != kCompute || kind_of_call(range).empty()) return;
    Sum& sum = sums[range.name];
    sum.seconds += retiming_.own()[l][r];
    sum.units += units(range);
  });
  each_call([&](const TraceLine&, const TraceRange& range, std::size_t l, std::size_t r) {
    if (range.category != kCompute || kind_of_call(range).empty()) return;
    const Sum& sum = sums[range.name];
    ideal_[l][r] = sum.seconds / sum.units * units(range);
  });
}

void WhatIf::make_ideal_calls() {
  using Key = std::tuple<std::string, CallKind, std::uint64_t, int>;
  std::map<Key, std::vector<double>> times;
  const auto key = [&](const TraceRange& range, std::size_t l, std::size_t r) {
    return Key(bare_name(range), range.place.kind, range.bytes, retiming_.members()[l][r]);
  };
  const auto each_other = [&](auto fn) {
    each_call([&](const TraceLine&, const TraceRange& range, std::size_t l, std::size_t r) {
      if (range.category != kCompute && !kind_of_call(range).empty()) fn(key(range, l, r), l, r);
    });
  };
  each_other([&](const Key& k, std::size_t l, std::size_t r) {
    times[k].push_back(retiming_.own()[l][r]);
  });
  std::map<Key, double> medians;
  for (const auto& [k, all] : times) medians[k] = median(all);
  each_other([&](const Key& k, std::size_t l, std::size_t r) { ideal_[l][r] = medians.at(k); });
}

template <class Takes>
PerCall WhatIf::mixed(const PerCall& some, const PerCall& others, Takes takes) const {
  PerCall result = others;
  each_call([&](const TraceLine& line, const TraceRange& range, std::size_t l, std::size_t r) {
    if (takes(line, range)) result[l][r] = some[l][r];
  });
  return result;
}

PerCall WhatIf::of_worker(int rank, const PerCall& some, const PerCall& others) const {
  return mixed(some, others,
               [&](const TraceLine& line, const TraceRange&) { return line.rank == rank; });
}

PerCall WhatIf::of_kind(const std::string& kind, const PerCall& some, const PerCall& others) const {
  return mixed(some, others, [&](const TraceLine&, const TraceRange& range) {
    return kind_of_call(range) == kind || (kind == kCompute && range.category == kCompute);
  });
}

void WhatIf::leave_out(const std::string& what, PerCall& times) const {
  constexpr std::string_view kWorker = "worker=", kKind = "kind=";
  if (what == "stragglers") {
    times = ideal_;
  } else if (what == "injected") {
    each_call([&](const TraceLine&, const TraceRange& range, std::size_t l, std::size_t r) {
      if (range.category == kCompute) times[l][r] -= range.delay.count();
    });
  } else if (what.starts_with(kWorker)) {
    const std::string_view text = std::string_view(what).substr(kWorker.size());
    const auto rank = parse_integer("--without worker", text, 0, timeline_.workers - 1);
    times = of_worker(static_cast<int>(rank), ideal_, times);
  } else if (what.starts_with(kKind)) {
    const std::string kind = what.substr(kKind.size());
    if (kind != kCompute && std::ranges::find(kinds_, kind) == kinds_.end()) {
      refuse("--without", quote(what), "kind= and one of " + alternatives(kinds_),
             did_you_mean(kind, kinds_));
    }
    times = of_kind(kind, ideal_, times);
  } else {
    refuse("--without", quote(what), "injected, stragglers, worker=N or kind=K",
           did_you_mean(what, std::array<std::string, 2>{"injected", "stragglers"}));
  }
}

void WhatIf::change_speed(const std::vector<double>& speed, PerCall& times) const {
  if (speed.empty()) return;
  each_call([&](const TraceLine& line, const TraceRange& range, std::size_t l, std::size_t r) {
    if (range.category != kCompute || kind_of_call(range).empty()) return;
    const double delay = std::min(range.delay.count(), times[l][r]);
    times[l][r] = (times[l][r] - delay) / speed[std::min(at(line.rank), speed.size() - 1)] + delay;
  });
}

void WhatIf::change_network(const std::string& name_or_path, PerCall& times) const {
  if (name_or_path.empty()) return;
  if (timeline_.network.is_null()) {
    refuse("--network", name_or_path, "a record with a network, of a run with --cluster sim");
  }
  const NetworkModel after = load_network_model(name_or_path);
  const NetworkModel before = read_network_model(JsonFields(std::make_shared<const JsonDocument>(
      JsonDocument{.path = timeline_.path + ": network", .tree = timeline_.network})));
  each_call([&](const TraceLine&, const TraceRange& range, std::size_t l, std::size_t r) {
    if (range.category != kCommunicate || range.place.kind == CallKind::none) return;
    const int members = retiming_.members()[l][r];
    const double old_cost = cost_of(before, range, members);
    const double new_cost = cost_of(after, range, members);
    times[l][r] = old_cost > 0 ? times[l][r] * (new_cost / old_cost) : new_cost;
  });
}

bool keeps_decisions(const std::string& algorithm) {
  return algorithm.empty() ||
         std::ranges::find(kFixedDecisions, algorithm) != kFixedDecisions.end();
}

Attribution attribute(const Retiming& retiming, const WhatIf& what_if) {
  const PerCall &recorded = what_if.recorded(), &ideal = what_if.ideal();
  const RetimedRun run = retiming.run(recorded);
  Attribution result{.total = run.total,
                     .ideal = retiming.run(ideal).total,
                     .gap_share = run.gap_share,
                     .negative_gaps = retiming.negative_gaps(),
                     .decisions_frozen = !keeps_decisions(retiming.timeline().algorithm())};
  const Seconds lost = result.total - result.ideal;
  const auto part = [&](int rank, std::string name, auto mix) {
    Attribution::Part each{.rank = rank, .name = std::move(name)};
    each.slowdown = retiming.run(mix(recorded, ideal)).total / result.ideal;
    // Less than rounding is no loss.
    if (lost > 1e-9 * result.total) {
      each.share = (result.total - retiming.run(mix(ideal, recorded)).total) / lost;
    }
    return each;
  };
  for (int rank = 0; rank < retiming.timeline().workers; ++rank) {
    result.workers.push_back(
        part(rank, fmt::format("worker {}", rank), [&](const PerCall& some, const PerCall& others) {
          return what_if.of_worker(rank, some, others);
        }));
  }
  for (const std::string& kind : what_if.kinds()) {
    result.kinds.push_back(part(-1, kind, [&](const PerCall& some, const PerCall& others) {
      return what_if.of_kind(kind, some, others);
    }));
  }
  for (auto* parts : {&result.workers, &result.kinds}) {
    std::ranges::stable_sort(*parts, std::greater{}, &Attribution::Part::slowdown);
  }
  return result;
}

}  // namespace hetsgd
