// A network model by least squares over the messages, collectives and requests of a real run.
#include <algorithm>

#include "cluster/calibrate.hpp"
#include "cluster/trace/trace.hpp"
#include "training/replay/replay_profile.hpp"

namespace hetsgd {
namespace {

// A link of latency and bandwidth, as columns of a fit: how many latencies and bytes a call takes.
class LinkFit {
 public:
  void add(double latencies, double bytes, double seconds) {
    if (seconds <= 0) return;
    latencies_.push_back(latencies);
    bytes_.push_back(bytes);
    seconds_.push_back(seconds);
  }
  // False: there are no calls.
  bool fit(Seconds& latency, double& bytes_per_s) const {
    if (seconds_.size() < 2) return false;
    const std::vector<double> link = fit_times({latencies_, bytes_}, seconds_);
    latency = Seconds(link[0]);
    bytes_per_s = rate_of(link[1]);
    return true;
  }

 private:
  std::vector<double> latencies_, bytes_, seconds_;
};

// A collective on links of latency 1 s and 1 byte/s, apart: its cost is linear in both.
std::optional<Seconds> collective_cost(const NetworkModel& link, const std::string& name,
                                       int members, double bytes) {
  if (name == "all_reduce") return link.all_reduce_cost(members, bytes);
  if (name == "all_gather") return link.all_gather_cost(members, bytes / members);
  if (name == "reduce_scatter") return link.reduce_scatter_cost(members, bytes);
  if (name == "barrier" || name == "split") return link.barrier_cost(members);
  return std::nullopt;
}

}  // namespace

std::optional<NetworkModel> fit_recorded_network(const Timeline& timeline) {
  std::vector<const TraceLine*> lines;
  for (const TraceLine& line : timeline.processes) lines.push_back(&line);
  const auto range = [&](RangeIndex i) -> const RecordedCall& {
    return lines[i.line]->ranges[i.range];
  };
  const TraceMatches matches = match(lines);
  NetworkModel latency_only, bytes_only;
  latency_only.latency = Seconds(1);
  latency_only.bytes_per_s = kUnlimitedPerSecond;
  bytes_only.bytes_per_s = 1;
  LinkFit workers, server;
  for (const auto& members : matches.collectives) {
    Seconds last{0}, end{0};
    for (const RangeIndex i : members) {
      last = std::max(last, range(i).begin);
      end = std::max(end, range(i).end);
    }
    const RecordedCall& first = range(members.front());
    if (first.kind != CallKind::collective || members.size() < 2) continue;
    const int count = static_cast<int>(members.size());
    const double bytes = static_cast<double>(first.bytes);
    const auto latencies = collective_cost(latency_only, first.name, count, 0);
    if (!latencies) continue;
    workers.add(latencies->count(), collective_cost(bytes_only, first.name, count, bytes)->count(),
                (end - last).count());
  }
  for (const auto& [sent, received] : matches.messages) {
    const Seconds begin = std::max(range(sent).begin, range(received).begin);
    workers.add(1, static_cast<double>(range(sent).bytes), (range(received).end - begin).count());
  }
  for (const TraceLine* line : lines) {
    for (const RecordedCall& call : line->ranges) {
      if (call.kind != CallKind::service || call.cause.rank >= 0) continue;
      server.add(2, static_cast<double>(call.bytes), (call.end - call.begin - call.wait).count());
    }
  }
  NetworkModel network{.name = "recorded", .source = timeline.path};
  network.bytes_per_s = network.server_bytes_per_s = kUnlimitedPerSecond;
  const bool has_workers = workers.fit(network.latency, network.bytes_per_s);
  const bool has_server = server.fit(network.server_latency, network.server_bytes_per_s);
  if (!has_workers && !has_server) return std::nullopt;
  if (!has_server) {
    network.server_latency = network.latency;
    network.server_bytes_per_s = network.bytes_per_s;
  }
  if (!has_workers) {
    network.latency = network.server_latency;
    network.bytes_per_s = network.server_bytes_per_s;
  }
  return network;
}

}  // namespace hetsgd
