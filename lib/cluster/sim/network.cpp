#include "cluster/sim/network.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/rank_index.hpp"

namespace hetsgd::sim {

namespace {

const NetworkNode kOneWorker;

// Rate of each hop between `members` members of a ring in one of several nodes.
double inner_rate(const InnerNetwork& inside, int members) {
  return inside.bytes_per_s / (inside.shared_bus ? members - 1 : 1);
}

}  // namespace

Network::Node::Node(const NetworkModel& model, const NetworkNode& kind_, int first_, int workers)
    : kind(kind_),
      first(first_),
      latency(kind.latency.value_or(model.latency).count()),
      server_latency(std::max(model.server_latency, kind.latency.value_or(Seconds(0))).count()),
      links(static_cast<std::size_t>(kind_.own_links ? workers : 1),
            Link(kind.bytes_per_s.value_or(model.bytes_per_s), model.shared_bus)) {
  if (!kind.inside) return;
  inside.assign(static_cast<std::size_t>(kind.inside->shared_bus ? 1 : workers),
                Link(kind.inside->bytes_per_s, kind.inside->shared_bus));
}

Network::Network(NetworkModel model, int workers, const Scale& scale,
                 std::optional<double> rows_part_bytes)
    : model_(std::move(model)),
      scale_(scale),
      rows_part_bytes_(rows_part_bytes),
      server_(model_.server_bytes_per_s) {
  const std::span<const NetworkNode> kinds =
      model_.nodes.empty() ? std::span(&kOneWorker, 1) : std::span(std::as_const(model_.nodes));
  std::size_t kind = 0;
  int made = 0;  // nodes of this kind so far
  for (int first = 0; first < workers;) {
    const int here = std::min(kinds[kind].workers, workers - first);
    node_of_.insert(node_of_.end(), static_cast<std::size_t>(here), nodes_.size());
    nodes_.emplace_back(model_, kinds[kind], first, here);
    first += here;
    if (++made < kinds[kind].times || kind + 1 == kinds.size()) continue;
    ++kind;
    made = 0;
  }
}

Network::Route Network::route(int from, int to) {
  Node& a = node(from);
  Node& b = node(to);
  if (&a == &b) return {a.inner(from), a.inner(to), a.kind.inside->latency.count()};
  return {link(from), link(to), std::max(a.latency, b.latency)};
}

// The model has neither names nor nodes.
NetworkModel Network::slowest(const Counts& members) const {
  NetworkModel model = model_;
  model.name.clear();
  model.source.clear();
  model.nodes.clear();
  if (model_.nodes.empty()) return model;
  int size = 0;
  for (const auto& [index, count] : members) size += count;
  if (size == 1) return model;
  model.latency = Seconds(0);
  model.bytes_per_s = std::numeric_limits<double>::infinity();
  const auto take = [&](Seconds latency, double bytes_per_s) {
    model.latency = std::max(model.latency, latency);
    model.bytes_per_s = std::min(model.bytes_per_s, bytes_per_s);
  };
  for (const auto& [index, count] : members) {
    const Node& node = nodes_[index];
    const double rate = node.links.front().bytes_per_s();
    const int sharing = node.kind.own_links ? 1 : count;
    model.server_latency = std::max(model.server_latency, Seconds(node.server_latency));
    model.server_bytes_per_s = std::min(model.server_bytes_per_s, rate * size / sharing);
    if (count < size) take(Seconds(node.latency), rate);
    if (count == 1) continue;
    const InnerNetwork& inside = *node.kind.inside;
    model.shared_bus = count == size && inside.shared_bus;
    take(inside.latency, count == size ? inside.bytes_per_s : inner_rate(inside, count));
  }
  return model;
}

// None: the slowest link stands for all. Rates inside that differ between the nodes would need a
// formula of their own.
std::optional<NodeLevel> Network::inner_level(const Counts& members) const {
  if (members.size() < 2) return std::nullopt;
  const int count = members.begin()->second;
  const Node& first = nodes_[members.begin()->first];
  for (const auto& [index, here] : members) {
    const NetworkNode& kind = nodes_[index].kind;
    if (!kind.own_links || here != count || &kind != &first.kind) return std::nullopt;
    if (kind.inside && kind.inside->shared_bus) return std::nullopt;
  }
  if (!first.kind.inside) return std::nullopt;
  return NodeLevel{count, first.kind.inside->latency, first.kind.inside->bytes_per_s};
}

GroupNetwork Network::group(std::span<const int> workers) {
  Counts members;
  for (const int worker : workers) ++members[node_of_[at(worker)]];
  GroupNetwork group{slowest(members), {}, {}};
  if (workers.size() < 2) return group;
  const double rate = group.model.bytes_per_s;
  if ((group.model.inner = inner_level(members))) {
    const Node& node = nodes_[members.begin()->first];
    group.model.latency = Seconds(node.latency);
    group.model.bytes_per_s = node.links.front().bytes_per_s();
    for (const int worker : workers) {
      group.node_of.push_back(node_of_[at(worker)]);
    }
  }
  std::vector<Hop>& hops = group.hops;
  const bool star = model_.all_reduce == Topology::star;
  if (star) hops.push_back({&server_, 1});
  if (model_.shared_bus) {
    hops.push_back({&nodes_.front().links.front(), 1});
    return group;
  }
  const bool leaves = star || members.size() > 1;  // the nodes
  const auto outer_share = [&](const Link& link) { return star ? 1 : rate / link.bytes_per_s(); };
  const auto inner_share = [&](const Node& node, int count) {
    return members.size() == 1 ? 1 : rate / inner_rate(*node.kind.inside, count);
  };
  for (const auto& [index, count] : members) {
    Node& node = nodes_[index];
    if (leaves && !node.kind.own_links) {
      hops.push_back({&node.links.front(), outer_share(node.links.front())});
    }
    if (!star && count > 1 && node.kind.inside->shared_bus) {
      hops.push_back({&node.inside.front(), inner_share(node, count)});
    }
  }
  for (const int worker : workers) {
    Node& node = this->node(worker);
    const int count = members[node_of_[at(worker)]];
    if (leaves && node.kind.own_links) {
      hops.push_back({&node.link(worker), outer_share(node.link(worker))});
    }
    if (star || count == 1 || node.kind.inside->shared_bus) continue;
    hops.push_back({&node.inner(worker), inner_share(node, count)});
  }
  return group;
}

void Network::fields(Archive& fields) {
  std::vector<double> numbers;
  std::size_t next = 0;
  const auto each = [&](Link& link) {
    for (const std::span<double> state : {link.free_until(), link.taken()}) {
      if (!fields.is_loading()) numbers.insert(numbers.end(), state.begin(), state.end());
      for (double& number : state) number = numbers.at(next++);
    }
  };
  const auto all = [&] {
    for (Node& node : nodes_) {
      for (Link& link : node.links) each(link);
      for (Link& link : node.inside) each(link);
    }
    each(server_);
  };
  if (!fields.is_loading()) all();
  fields("links", numbers);
  if (fields.is_loading()) all();
}

}  // namespace hetsgd::sim
