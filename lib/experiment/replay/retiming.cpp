#include "experiment/replay/retiming.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <tuple>

#include "core/error.hpp"

namespace hetsgd {
namespace {

constexpr std::string_view kServiceCall = "service ";

std::string service_of(const RecordedCall& range) {
  return range.name.substr(range.name.find(kServiceCall) + kServiceCall.size());
}

}  // namespace

// Makes the moments of a timeline, and what they depend on.
class Retiming::Build {
 public:
  explicit Build(Retiming& result)
      : result_(result),
        timeline_(result.timeline_),
        slack_s_(10 * timeline_.clock_resolution.count()) {
    for (const TraceLine& line : timeline_.processes) lines_.push_back(&line);
  }

  void run() {
    make_calls();
    const TraceMatches matches = match(lines_);
    for (const auto& members : matches.collectives) collective(members);
    for (const auto& [sent, received] : matches.messages) {
      depend(node(received).end, node(sent).end);
    }
    for (const auto& [a, b] : matches.exchanges) {
      depend(node(a).end, node(b).begin);
      depend(node(b).end, node(a).begin);
    }
    for (std::size_t s = 0; s < timeline_.services.size(); ++s) service(s);
    monitors();
    finish();
  }

 private:
  const RecordedCall& at(RangeIndex i) const { return lines_[i.line]->ranges[i.range]; }
  CallNodes& node(RangeIndex i) { return result_.calls_[i.line][i.range]; }

  NodeIndex add(Seconds time, bool is_gap = false) {
    result_.nodes_.push_back({.time = time.count(), .is_gap = is_gap});
    return static_cast<NodeIndex>(result_.nodes_.size() - 1);
  }
  void depend(NodeIndex effect, NodeIndex cause) {
    if (effect != kNone && cause != kNone && effect != cause) pairs_.emplace_back(effect, cause);
  }

  // The begin and the end of every call, in the order of each process. A process that was started
  // by another one begins there.
  void make_calls() {
    std::vector<NodeIndex> starts;
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      const TraceLine& line = *lines_[l];
      line_of_[{line.rank, line.number}] = l;
      NodeIndex before = add(line.parent.rank < 0 ? Seconds(0) : line.parent.time);
      starts_.push_back(before);
      auto& calls = result_.calls_.emplace_back();
      for (const RecordedCall& range : line.ranges) {
        CallNodes nodes{.begin = add(range.begin, true), .end = add(range.end)};
        nodes.own = nodes.end;
        depend(nodes.begin, before);
        depend(nodes.end, nodes.begin);
        before = nodes.end;
        calls.push_back(nodes);
      }
      result_.members_.emplace_back(line.ranges.size(), 1);
    }
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      depend(starts_[l], point(lines_[l]->parent));
    }
  }

  // The moment of a point; kNone if there is none.
  NodeIndex point(const CallPoint& point) {
    const auto line = line_of_.find({point.rank, point.line});
    if (point.rank < 0 || line == line_of_.end()) return kNone;
    const auto& calls = result_.calls_[line->second];
    const std::size_t before = std::min<std::size_t>(point.calls, calls.size());
    const NodeIndex result = add(point.time, true);
    depend(result, before == 0 ? starts_[line->second] : calls[before - 1].end);
    return result;
  }

  // A started call could go on since it was started and the one before it was complete.
  NodeIndex arrival(RangeIndex i) {
    const RecordedCall& call = at(i);
    if (call.kind != CallKind::started) return node(i).begin;
    const NodeIndex since = add(call.since);
    depend(since, point(at(i).cause));
    const std::tuple key(lines_[i.line]->rank, call.group, call.number);
    if (call.number > 0) {
      const auto before = complete_.find({std::get<0>(key), call.group, call.number - 1});
      if (before != complete_.end()) depend(since, before->second);
    }
    node(i).own = complete_[key] = add(call.until);
    depend(node(i).end, node(i).own);
    return since;
  }

  void collective(const std::vector<RangeIndex>& members) {
    std::vector<NodeIndex> arrivals;
    for (const RangeIndex i : members) {
      arrivals.push_back(arrival(i));
      result_.members_[i.line][i.range] = static_cast<int>(members.size());
    }
    double latest = 0;
    for (const NodeIndex each : arrivals) latest = std::max(latest, result_.nodes_[each].time);
    const NodeIndex last = add(Seconds(latest));
    for (const NodeIndex each : arrivals) depend(last, each);
    for (std::size_t m = 0; m < members.size(); ++m) {
      const NodeIndex complete = node(members[m]).own;
      const bool waited = result_.nodes_[complete].time >= latest - slack_s_;
      depend(complete, waited ? last : arrivals[m]);
    }
  }

  // A request to a service: when it was sent, and the moment at which its answer was there.
  struct Request {
    RangeIndex call;
    NodeIndex sent = kNone;
  };

  std::map<std::pair<int, std::uint64_t>, Request> requests_to(const std::string& name) {
    std::map<std::pair<int, std::uint64_t>, Request> requests;
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      for (std::size_t r = 0; r < lines_[l]->ranges.size(); ++r) {
        const RecordedCall& range = lines_[l]->ranges[r];
        if (range.kind != CallKind::service || service_of(range) != name) continue;
        Request& request = requests[{lines_[l]->rank, range.number}];
        request = {{l, r}, node({l, r}).begin};
        if (range.cause.rank < 0) continue;
        request.sent = point(range.cause);
        node({l, r}).own = add(range.until);
        depend(node({l, r}).end, node({l, r}).own);
      }
    }
    return requests;
  }

  void service(std::size_t s) {
    const TraceLine& line = timeline_.services[s];
    const auto requests = requests_to(line.name);
    std::vector<NodeIndex> ends;
    for (const RecordedCall& range : line.ranges) ends.push_back(add(range.end));
    const std::map<int, double> ways = shortest_ways(line, requests);
    double latest_arrival = 0;
    for (std::size_t n = 0; n < line.ranges.size(); ++n) {
      const RecordedCall& range = line.ranges[n];
      const double before = n == 0 ? 0 : line.ranges[n - 1].end.count();
      double arrived = range.begin.count();
      const auto request = requests.find({range.peer, range.number});
      if (request != requests.end() && arrived <= before) {
        const double sent = result_.nodes_[request->second.sent].time;
        arrived = std::min(arrived, sent + ways.at(range.peer));
      }
      arrived = latest_arrival = std::max(arrived, latest_arrival);  // the order of service
      const NodeIndex arrival = add(Seconds(arrived));
      result_.nodes_[arrival].served = ends[n];
      result_.nodes_[arrival].service = static_cast<int>(s);
      depend(ends[n], arrival);
      result_.nodes_[ends[n]].latest = before;  // the request before it, in the recorded order
      if (request == requests.end()) continue;
      depend(arrival, request->second.sent);
      if (range.cause.rank < 0) continue;  // never answered
      const NodeIndex answered = add(range.cause.time);
      depend(answered, ends[n]);
      if (range.cause.calls < ends.size()) depend(answered, ends[range.cause.calls]);
      depend(node(request->second.call).own, answered);
    }
  }

  // For each rank, the shortest time from the sending of a request to its handling, of those that
  // found the service idle. A rank whose requests all had to queue has the shortest of all ranks.
  std::map<int, double> shortest_ways(
      const TraceLine& line,
      const std::map<std::pair<int, std::uint64_t>, Request>& requests) const {
    std::map<int, double> ways, queued;
    Seconds before{0};
    for (const RecordedCall& range : line.ranges) {
      const auto request = requests.find({range.peer, range.number});
      if (request != requests.end()) {
        const double way = range.begin.count() - result_.nodes_[request->second.sent].time;
        auto& those = range.begin > before ? ways : queued;
        const auto [known, is_new] = those.emplace(range.peer, way);
        if (!is_new) known->second = std::min(known->second, way);
      }
      before = range.end;
    }
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto& [rank, way] : ways) shortest = std::min(shortest, way);
    for (const auto& [rank, way] : queued) ways.emplace(rank, std::min(way, shortest));
    return ways;
  }

  void monitors() {
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      for (std::size_t r = 0; r < lines_[l]->ranges.size(); ++r) {
        const RecordedCall& range = lines_[l]->ranges[r];
        if (range.kind == CallKind::monitor) depend(node({l, r}).end, point(range.cause));
      }
    }
  }

  void finish() {
    std::vector<Node>& nodes = result_.nodes_;
    for (const auto& [effect, cause] : pairs_) {
      nodes[effect].latest = std::max(nodes[effect].latest, nodes[cause].time);
    }
    for (const Node& each : nodes) {
      if (each.is_gap && each.time < each.latest - slack_s_) ++result_.negative_gaps_;
    }
    result_.causes_ = links(nodes.size(), pairs_);
    for (auto& [effect, cause] : pairs_) std::swap(effect, cause);
    result_.effects_ = links(nodes.size(), pairs_);
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      auto& own = result_.own_.emplace_back();
      for (std::size_t r = 0; r < lines_[l]->ranges.size(); ++r) {
        const RecordedCall& range = at({l, r});
        const Node& end = nodes[node({l, r}).own];
        const double wait = range.category == "compute" ? range.wait.count() : 0;
        own.push_back(end.time - end.latest - wait);
      }
    }
  }

  Retiming& result_;
  const Timeline& timeline_;
  const double slack_s_;
  std::vector<const TraceLine*> lines_;
  std::map<std::pair<int, int>, std::size_t> line_of_;                         // by rank and number
  std::vector<NodeIndex> starts_;                                              // of the processes
  std::map<std::tuple<int, std::string, std::uint64_t>, NodeIndex> complete_;  // started calls
  std::vector<std::pair<NodeIndex, NodeIndex>> pairs_;                         // effect, cause
};

// One run: moments are resolved when all that they depend on have come, and come in the order of
// their times, so that services meet their requests in that order.
class Retiming::Run {
 public:
  explicit Run(const Retiming& all, const PerCall& own)
      : all_(all),
        times_(all.nodes_.size()),
        changes_(all.nodes_.size(), 0.0),
        decisive_(all.nodes_.size(), kNone),
        open_(all.nodes_.size()),
        served_until_(all.timeline_.services.size(), kNone) {
    for (std::size_t l = 0; l < own.size(); ++l) {
      for (std::size_t r = 0; r < own[l].size(); ++r) {
        changes_[all.calls_[l][r].own] = own[l][r] - all.own_[l][r];
      }
    }
  }

  RetimedRun run(bool with_calls) {
    for (NodeIndex n = 0; n < all_.nodes_.size(); ++n) {
      open_[n] = static_cast<std::uint32_t>(all_.causes_.first[n + 1] - all_.causes_.first[n]);
      if (open_[n] == 0) resolve(n);
    }
    std::size_t came = 0;
    while (!due_.empty()) {
      const NodeIndex n = due_.top().second;
      due_.pop();
      ++came;
      for (std::size_t e = all_.effects_.first[n]; e < all_.effects_.first[n + 1]; ++e) {
        if (--open_[all_.effects_.all[e]] == 0) resolve(all_.effects_.all[e]);
      }
    }
    if (came < all_.nodes_.size()) fail_circle();
    return result(with_calls);
  }

 private:
  void resolve(NodeIndex n) {
    const Node& node = all_.nodes_[n];
    double latest = 0;
    const auto consider = [&](NodeIndex cause) {
      if (decisive_[n] != kNone && times_[cause] <= latest) return;
      latest = std::max(latest, times_[cause]);
      decisive_[n] = cause;
    };
    for (std::size_t c = all_.causes_.first[n]; c < all_.causes_.first[n + 1]; ++c) {
      const NodeIndex cause = all_.causes_.all[c];
      consider(cause);
      if (all_.nodes_[cause].served != n) continue;
      NodeIndex& before = served_until_[static_cast<std::size_t>(all_.nodes_[cause].service)];
      if (before != kNone) consider(before);
      before = n;
    }
    // Not latest + (time - latest): an unmodified run has exactly its own times.
    times_[n] = node.time + (latest - node.latest) + changes_[n];
    due_.emplace(times_[n], n);
  }

  RetimedRun result(bool with_calls) const {
    RetimedRun run;
    NodeIndex last = kNone;
    for (const auto& line : all_.calls_) {
      auto& calls = run.calls.emplace_back();
      for (const CallNodes& nodes : line) {
        if (with_calls) calls.push_back({times_[nodes.begin], times_[nodes.end]});
        if (last == kNone || times_[nodes.end] > times_[last]) last = nodes.end;
      }
    }
    if (last == kNone) return run;
    run.total = Seconds(times_[last]);
    double gaps = 0;
    for (NodeIndex n = last; decisive_[n] != kNone; n = decisive_[n]) {
      if (all_.nodes_[n].is_gap) gaps += times_[n] - times_[decisive_[n]];
    }
    if (times_[last] > 0) run.gap_share = gaps / times_[last];
    return run;
  }

  [[noreturn]] void fail_circle() const {
    for (std::size_t l = 0; l < all_.calls_.size(); ++l) {
      for (std::size_t r = 0; r < all_.calls_[l].size(); ++r) {
        if (open_[all_.calls_[l][r].end] == 0) continue;
        const TraceLine& line = all_.timeline_.processes[l];
        throw data_error(
            "{}: found calls that wait for each other in a circle, among them {} of {} at {} s, "
            "expected that each waits for earlier ones",
            all_.timeline_.path, line.ranges[r].name, line.name, line.ranges[r].begin.count());
      }
    }
    throw data_error("{}: found requests that wait for each other in a circle",
                     all_.timeline_.path);
  }

  using Due = std::pair<double, NodeIndex>;

  const Retiming& all_;
  std::vector<double> times_, changes_;
  std::vector<NodeIndex> decisive_;      // the latest moment that each depends on
  std::vector<std::uint32_t> open_;      // moments that have not come yet, of those it depends on
  std::vector<NodeIndex> served_until_;  // by service: the end of the request served last
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

Retiming::Links Retiming::links(std::size_t nodes,
                                const std::vector<std::pair<NodeIndex, NodeIndex>>& pairs) {
  Links result;
  result.first.assign(nodes + 1, 0);
  for (const auto& [of, other] : pairs) ++result.first[of + 1];
  for (std::size_t n = 0; n < nodes; ++n) result.first[n + 1] += result.first[n];
  std::vector<std::size_t> next(result.first.begin(), result.first.end() - 1);
  result.all.resize(pairs.size());
  for (const auto& [of, other] : pairs) result.all[next[of]++] = other;
  return result;
}

// After a loss the ranks of a group are those of other workers, and calls may have no other side.
Retiming::Retiming(const Timeline& timeline) : timeline_(timeline) {
  if (timeline.lost_workers > 0) {
    throw with_hint(data_error("{}: found a run that has lost workers {} times, expected one "
                               "without losses",
                               timeline.path, timeline.lost_workers),
                    "hetsgd fit and train --replay take the step times of such a run");
  }
  Build(*this).run();
}

RetimedRun Retiming::run(const PerCall& own, bool with_calls) const {
  return Run(*this, own).run(with_calls);
}

}  // namespace hetsgd
