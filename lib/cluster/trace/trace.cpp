#include "cluster/trace/trace.hpp"

#include <algorithm>
#include <functional>

#include "core/interval_set.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {

namespace {

// The ranges of recorded lines.
std::vector<const TraceLine*> decode(const std::vector<const RecordedLine*>& recorded,
                                     std::deque<TraceLine>& decoded) {
  if (decoded.empty()) {
    for (const RecordedLine* line : recorded) {
      std::deque<RecordedCall>& ranges = decoded.emplace_back(TraceLine{*line}).ranges;
      CallReader calls(line->calls);
      for (RecordedCall range; calls.next(range);) ranges.push_back(std::move(range));
    }
  }
  std::vector<const TraceLine*> all;
  for (const TraceLine& line : decoded) all.push_back(&line);
  return all;
}

}  // namespace

void Trace::begin_segment(bool goes_on) {
  const std::lock_guard lock(mutex_);
  is_set_up_ = !goes_on;
  for (RecordedLine& line : lines_) line.has_ended = true;
}

RecordedLine& Trace::line(int rank, const std::string& background_task, const CallPoint& parent) {
  const std::string name =
      "worker " + std::to_string(rank) + (background_task.empty() ? "" : " " + background_task);
  const std::lock_guard lock(mutex_);
  const auto before = std::ranges::find_if(
      lines_, [&](const RecordedLine& line) { return line.has_ended && line.name == name; });
  if (before != lines_.end()) {
    before->has_ended = false;
    return *before;
  }
  const auto number = std::ranges::count(lines_, rank, &RecordedLine::rank);
  return lines_.emplace_back(
      TracedName{rank, name, background_task.empty(), static_cast<int>(number), parent}, memory_);
}

RecordedLine& Trace::service(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return services_.try_emplace(name, TracedName{.rank = -1, .name = name}, memory_).first->second;
}

std::atomic<std::uint64_t>& Trace::made(int rank, const std::string& kind) {
  const std::lock_guard lock(mutex_);
  return made_[{rank, kind}];
}

std::map<int, std::uint64_t>& Trace::handled(const std::string& service) {
  const std::lock_guard lock(mutex_);
  return handled_[service];
}

RecordedLine& Trace::add(TracedName name) {
  const std::lock_guard lock(mutex_);
  return lines_.emplace_back(std::move(name), memory_);
}

std::vector<const RecordedLine*> Trace::recorded() const {
  const std::lock_guard lock(mutex_);
  std::vector<const RecordedLine*> all;
  for (const RecordedLine& line : lines_) all.push_back(&line);
  std::ranges::sort(all, {},
                    [](const RecordedLine* line) { return std::tie(line->rank, line->name); });
  return all;
}

std::vector<const RecordedLine*> Trace::recorded_services() const {
  const std::lock_guard lock(mutex_);
  std::vector<const RecordedLine*> all;
  for (const auto& [name, line] : services_) all.push_back(&line);
  return all;
}

std::vector<const TraceLine*> Trace::lines() const { return decode(recorded(), decoded_); }

std::vector<const TraceLine*> Trace::services() const {
  return decode(recorded_services(), decoded_services_);
}

namespace {

constexpr std::string_view kServicePrefix = "service ";

// A view of Trace::lines().
class Lines {
 public:
  explicit Lines(const std::vector<const TraceLine*>& lines) : lines_(lines) {}

 protected:
  const TraceLine& line(RangeIndex i) const { return *lines_[i.line]; }
  const RecordedCall& at(RangeIndex i) const { return lines_[i.line]->ranges[i.range]; }

  const std::vector<const TraceLine*>& lines_;
};

class Matcher : Lines {
 public:
  using Lines::Lines;

  TraceMatches run() {
    for_each(&Matcher::note_member);
    for (auto& [group, members] : members_) std::sort(members.begin(), members.end());
    for_each(&Matcher::note);
    for (const auto& [call, ranges] : collectives_) match_collective(ranges);
    for (auto& [pair, queue] : messages_) match_messages(queue);
    for (const auto& [pair, sides] : exchanges_) match_exchanges(pair, sides);
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
  int worker_of_line(RangeIndex i) const { return line(i).rank; }

  // A part's ranks are ordered by key, then by the rank in the group that was split.
  void note_member(RangeIndex i) {
    const RecordedCall& call = at(i);
    if (call.is_split == 0 || call.color < 0) return;
    const std::string part =
        call.group + "/" + std::to_string(call.number) + ":" + std::to_string(call.color);
    members_[part].emplace_back(call.key, call.rank, worker_of_line(i));
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
    const RecordedCall& range = at(i);
    switch (range.kind) {
      case CallKind::collective:
      case CallKind::started:
        collectives_[{range.group, range.kind == CallKind::started, range.number}].push_back(i);
        break;
      case CallKind::send:
        messages_[{range.group, range.rank, range.peer, range.tag}].sent.push_back(i);
        break;
      case CallKind::receive:
        messages_[{range.group, range.peer, range.rank, range.tag}].received.push_back(i);
        if (const int sender = worker(range.group, range.peer); sender != worker_of_line(i)) {
          waited(i, sender, range.wait);
        }
        break;
      case CallKind::sendrecv:
        waited(i, worker(range.group, range.peer), range.wait);
        exchanges_[{range.group, range.rank, range.peer, range.tag}].push_back(i);
        break;
      case CallKind::service:
        if (range.wait > Seconds(0)) {
          const auto name = range.name.find(kServicePrefix) + kServicePrefix.size();
          result_.waits[i] = {-1, range.name.substr(name), range.wait};
        }
        break;
      case CallKind::monitor:
      case CallKind::served:
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
    const RecordedCall& range = at(i);
    return range.kind == CallKind::started ? range.since : range.begin;
  }

  void match_collective(const std::vector<RangeIndex>& ranges) {
    result_.collectives.push_back(ranges);
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
      note_own_task(queue.sent[n], queue.received[n]);
    }
  }

  // The n-th exchange of a rank with another one is the n-th of that one with it.
  void match_exchanges(const PairKey& pair, const std::vector<RangeIndex>& sides) {
    const auto& [group, rank, peer, tag] = pair;
    const auto others = exchanges_.find({group, peer, rank, tag});
    if (rank > peer || others == exchanges_.end()) return;
    for (std::size_t n = 0; n < std::min(sides.size(), others->second.size()); ++n) {
      result_.exchanges.emplace_back(sides[n], others->second[n]);
    }
  }

  // A message from one process of a worker to another one. A task that waits for its own main
  // process waits for nobody.
  void note_own_task(RangeIndex sent, RangeIndex received) {
    const TraceLine& sender = line(sent);
    const Seconds wait = at(received).wait;
    if (sender.rank != worker_of_line(received) || sender.main || wait <= Seconds(0)) return;
    const std::string worker = "worker " + std::to_string(sender.rank) + " ";
    result_.waits[received] = {-1, sender.name.substr(worker.size()), wait};
  }

  std::map<std::string, std::vector<std::tuple<int, int, int>>> members_;  // key, rank, worker
  std::map<CallKey, std::vector<RangeIndex>> collectives_;
  std::map<PairKey, Queue> messages_;
  std::map<PairKey, std::vector<RangeIndex>> exchanges_;  // of one side
  TraceMatches result_;
};

using Whom = std::pair<int, std::string>;

// The workers and services that one worker waited for. `mine`: its lines, by their places in
// Trace::lines().
class Waits : Lines {
 public:
  Waits(const std::vector<const TraceLine*>& lines, std::vector<std::size_t> mine,
        const TraceMatches& matches)
      : Lines(lines), mine_(std::move(mine)), matches_(matches) {}

  std::map<Whom, Seconds> sums(Seconds account_wait) {
    const std::vector<RangeIndex> all = ranges();
    if (mine_.size() > 1) {
      share_out(all, account_wait);
    } else {
      for (const RangeIndex i : all) {
        if (const WaitedFor* const whom = whom_of(i)) add(*whom, whom->wait);
      }
    }
    return std::move(sums_);
  }

 private:
  // The ranges in the order in which they begin.
  std::vector<RangeIndex> ranges() const {
    std::vector<RangeIndex> result;
    for (const std::size_t l : mine_) {
      for (std::size_t r = 0; r < lines_[l]->ranges.size(); ++r) result.push_back({l, r});
    }
    std::ranges::stable_sort(result, {}, [&](RangeIndex i) { return at(i).begin; });
    return result;
  }
  const WaitedFor* whom_of(RangeIndex i) const {
    const auto found = matches_.waits.find(i);
    return found == matches_.waits.end() ? nullptr : &found->second;
  }
  void add(const WaitedFor& whom, Seconds time) { sums_[{whom.rank, whom.service}] += time; }

  // Shares out the waits of a worker with background tasks. If several processes wait at a time,
  // the wait of the main process counts. No wait counts while a process computes or communicates,
  // as in the account. No more than the account's waiting is shared out, since a range does not say
  // when in it the wait was.
  void share_out(const std::vector<RangeIndex>& all, Seconds account_wait) {
    Seconds end{0};  // end of the main process
    IntervalSet busy, blamed;
    for (const RangeIndex i : all) {
      const RecordedCall& range = at(i);
      if (line(i).main) end = std::max(end, range.end);
      const Seconds wait = range.category == "compute" ? Seconds(0) : range.wait;
      busy.add((range.begin + wait).count(), range.end.count());
    }
    Seconds rest = account_wait;
    for (const bool of_main : {true, false}) {
      for (const RangeIndex i : all) {
        const WaitedFor* const whom = whom_of(i);
        if (whom == nullptr || line(i).main != of_main) continue;
        const Seconds begin = at(i).begin;
        busy.each_gap(begin.count(), std::min(begin + whom->wait, end).count(),
                      [&](double from, double to) {
                        const Seconds time = std::min(Seconds(blamed.add(from, to)), rest);
                        if (time <= Seconds(0)) return;
                        add(*whom, time);
                        rest -= time;
                      });
      }
    }
  }

  const std::vector<std::size_t> mine_;
  const TraceMatches& matches_;
  std::map<Whom, Seconds> sums_;
};

}  // namespace

TraceMatches match(const std::vector<const TraceLine*>& lines) { return Matcher(lines).run(); }

std::vector<std::vector<WaitedFor>> waited_for(const Trace& trace,
                                               std::span<const Seconds> account_waits) {
  const std::vector<const TraceLine*> lines = trace.lines();
  std::vector<std::vector<std::size_t>> lines_of(account_waits.size());
  for (std::size_t l = 0; l < lines.size(); ++l) {
    if (lines[l]->name.ends_with(kStartedCalls)) continue;  // no process: the wait is its caller's
    lines_of[at(lines[l]->rank)].push_back(l);
  }
  const TraceMatches matches = match(lines);
  std::vector<std::vector<WaitedFor>> all(account_waits.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto sums = Waits(lines, lines_of[rank], matches).sums(account_waits[rank]);
    for (const auto& [whom, time] : sums) all[rank].push_back({whom.first, whom.second, time});
    std::ranges::stable_sort(all[rank], std::ranges::greater{}, &WaitedFor::wait);
  }
  return all;
}

}  // namespace hetsgd
