#include "training/trace_match.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace hetsgd {

namespace {

constexpr std::string_view kServicePrefix = "service ";

class Matcher {
 public:
  explicit Matcher(const std::vector<const TraceLine*>& lines) : lines_(lines) {}

  TraceMatches run() {
    for_each(&Matcher::note_member);
    for (auto& [group, members] : members_) std::sort(members.begin(), members.end());
    for_each(&Matcher::note);
    for (const auto& [call, ranges] : collectives_) match_collective(ranges);
    for (auto& [pair, queue] : messages_) match_messages(queue);
    return std::move(result_);
  }

 private:
  // group, started, number
  using CallKey = std::tuple<std::string, bool, std::uint64_t>;
  // group, from, to, tag
  using PairKey = std::tuple<std::string, int, int, int>;
  struct Queue {
    std::vector<RangeIndex> sent, received;
  };

  template <class Member>
  void for_each(Member member) {
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      for (std::size_t r = 0; r < lines_[l]->ranges.size(); ++r) (this->*member)({l, r});
    }
  }
  const TraceRange& at(RangeIndex i) const { return lines_[i.line]->ranges[i.range]; }
  int worker_of_line(RangeIndex i) const { return lines_[i.line]->rank; }

  // A part's ranks are ordered by key, then by the rank in the group that was split.
  void note_member(RangeIndex i) {
    const CallPlace& place = at(i).place;
    if (!place.is_split || place.color < 0) return;
    const std::string part =
        place.group + "/" + std::to_string(place.number) + ":" + std::to_string(place.color);
    members_[part].emplace_back(place.key, place.rank, worker_of_line(i));
  }

  // -1: not known.
  int worker(const std::string& group, int rank) const {
    if (group.empty() || rank < 0) return rank;
    const auto found = members_.find(group);
    const auto r = static_cast<std::size_t>(rank);
    if (found == members_.end() || r >= found->second.size()) return -1;
    return std::get<2>(found->second[r]);
  }

  void note(RangeIndex i) {
    const TraceRange& range = at(i);
    const CallPlace& place = range.place;
    switch (place.kind) {
      case CallKind::collective:
      case CallKind::started:
        collectives_[{place.group, place.kind == CallKind::started, place.number}].push_back(i);
        break;
      case CallKind::send:
        messages_[{place.group, place.rank, place.peer, place.tag}].sent.push_back(i);
        break;
      case CallKind::receive:
        messages_[{place.group, place.peer, place.rank, place.tag}].received.push_back(i);
        waited(i, worker(place.group, place.peer), range.wait);
        break;
      case CallKind::sendrecv:
        waited(i, worker(place.group, place.peer), range.wait);
        break;
      case CallKind::service:
        if (range.wait > Seconds(0)) {
          const auto name = range.name.find(kServicePrefix) + kServicePrefix.size();
          result_.waits[i] = {-1, range.name.substr(name), range.wait};
        }
        break;
      case CallKind::none:
        break;
    }
  }

  void waited(RangeIndex i, int rank, Seconds time) {
    if (rank >= 0 && time > Seconds(0)) {
      result_.waits[i] = {.rank = rank, .wait = time};
    }
  }

  // When this rank came to the call.
  Seconds arrival(RangeIndex i) const {
    const TraceRange& range = at(i);
    return range.place.kind == CallKind::started ? range.place.since : range.begin;
  }

  void match_collective(const std::vector<RangeIndex>& ranges) {
    const RangeIndex last =
        *std::max_element(ranges.begin(), ranges.end(),
                          [&](RangeIndex a, RangeIndex b) { return arrival(a) < arrival(b); });
    for (const RangeIndex i : ranges) {
      if (worker_of_line(i) == worker_of_line(last)) continue;
      const Seconds blocked = at(i).end - at(i).begin;
      waited(i, worker_of_line(last), std::clamp(arrival(last) - at(i).begin, Seconds(0), blocked));
    }
  }

  // Sent in the order of the calls' begins, received in that of their ends.
  void match_messages(Queue& queue) {
    std::ranges::sort(queue.sent, {}, [&](RangeIndex i) { return at(i).begin; });
    std::ranges::sort(queue.received, {}, [&](RangeIndex i) { return at(i).end; });
    for (std::size_t n = 0; n < std::min(queue.sent.size(), queue.received.size()); ++n) {
      result_.messages.emplace_back(queue.sent[n], queue.received[n]);
    }
  }

  const std::vector<const TraceLine*>& lines_;
  std::map<std::string, std::vector<std::tuple<int, int, int>>> members_;  // key, rank, worker
  std::map<CallKey, std::vector<RangeIndex>> collectives_;
  std::map<PairKey, Queue> messages_;
  TraceMatches result_;
};

}  // namespace

TraceMatches match(const std::vector<const TraceLine*>& lines) { return Matcher(lines).run(); }

void note_waiting(const Trace& trace, Record& record) {
  using Whom = std::pair<int, std::string>;
  const std::vector<const TraceLine*> lines = trace.lines();
  std::vector<std::map<Whom, Seconds>> sums(record.workers.size());
  for (const auto& [i, whom] : match(lines).waits) {
    const TraceLine& line = *lines[i.line];
    if (!line.main) continue;
    sums[static_cast<std::size_t>(line.rank)][{whom.rank, whom.service}] += whom.wait;
  }
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    std::vector<WaitedFor>& mine = record.workers[rank].waited_for.emplace();
    for (const auto& [whom, time] : sums[rank]) mine.push_back({whom.first, whom.second, time});
    std::ranges::stable_sort(mine, std::ranges::greater{}, &WaitedFor::wait);
  }
}

}  // namespace hetsgd
