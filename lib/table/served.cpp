#include "table/served.hpp"

#include "core/rank_index.hpp"

namespace hetsgd {

namespace {

// Workers and companions share the group of all workers with the algorithm, whose tags are smaller.
constexpr int kMessageTag = 9000, kPlacesTag = 9001, kRowsTag = 9002, kSumsTag = 9003,
              kDoneTag = 9004;

}  // namespace

// Serves one shard; only this process touches it.
class ServedTables::Companion {
 public:
  Companion(Endpoint& endpoint, const TablePlan& plan, Shard& shard, const ServingRules& rules)
      : endpoint_(endpoint),
        comm_(endpoint.comm()),
        plan_(plan),
        shard_(shard),
        rules_(rules),
        kernels_(kernels<TableKernels>(endpoint.device())),
        asked_(at(endpoint.size())) {}

  void run() {
    for (int open = endpoint_.size(); open > 0;) {
      Message message;
      const int from = comm_.receive(kAnySource, kMessageTag, std::span(&message, 1)).source;
      switch (message.what) {
        case What::pull:
          pull(from, message.rows);
          break;
        case What::push:
          push(from, message.learning_rate);
          break;
        case What::drop:
          shard_.settle(asked(from).place, asked(from).samples);
          break;
        case What::close:
          --open;
          break;
      }
    }
  }

 private:
  // The last pull of a worker.
  struct Asked {
    std::vector<Index> place, slot;
    std::vector<SampleCounts> samples;  // under a capacity
    std::uint64_t updates = 0;          // updates of the shard before the pull
  };
  Asked& asked(int worker) { return asked_[at(worker)]; }

  void receive_places(int from, std::size_t rows, Asked& asked) {
    asked.place.resize(rows);
    if (rows == 0) return asked.samples.clear();
    if (!plan_.replacement.capacity) {
      comm_.receive(from, kPlacesTag, std::span(asked.place));
      return;
    }
    asked_rows_.resize(rows);
    comm_.receive(from, kPlacesTag, std::span(asked_rows_));
    asked.samples.resize(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      asked.place[i] = asked_rows_[i].place;
      asked.samples[i] = asked_rows_[i].samples;
    }
  }

  // Without rows there is no work, unless a charge gives a stage a time whatever the rows.
  void compute(const Work& work, const Asked& asked, FunctionRef fn) {
    if (asked.place.empty() && work.given_s == 0) return;
    endpoint_.compute(work, ComputeKind::stage, fn);
  }

  void pull(int from, std::size_t rows) {
    Asked& asked = this->asked(from);
    receive_places(from, rows, asked);
    asked.updates = updates_;
    rows_.reset(endpoint_.device(), shard_.floats(asked.place));
    compute(rules_.gather(shard_.gather_work(asked.place)), asked,
            [&] { shard_.gather(kernels_, asked.place, asked.slot, rows_.data()); });
    comm_.post(from, kRowsTag, rows_.span(), Traffic::rows);
  }

  void push(int from, double learning_rate) {
    Asked& asked = this->asked(from);
    const std::size_t rows = asked.place.size();
    rows_.reset(endpoint_.device(), shard_.floats(asked.place));
    comm_.receive(from, kSumsTag, rows_.span());
    const float one = 1;
    const RowParts<float> part{.parts = 1,
                               .count = &rows,
                               .row = asked.slot.data(),
                               .value = rows_.data(),
                               .scale = plan_.dedup ? nullptr : &one};
    compute(rules_.update(shard_.update_work(asked.place)), asked, [&] {
      if (rows == 0) return;
      shard_.update(kernels_, part, learning_rate);
      shard_.settle(asked.place, asked.samples);
    });
    const std::uint64_t evicted = shard_.evicted();
    const Done done{.staleness = updates_ - asked.updates,
                    .on_device = static_cast<std::uint32_t>(shard_.on_device(asked.place)),
                    .evicted = static_cast<std::uint32_t>(evicted - told_evicted_)};
    told_evicted_ = evicted;
    if (rows > 0) ++updates_;
    comm_.post(from, kDoneTag, std::span(&done, 1));
  }

  Endpoint& endpoint_;
  Comm& comm_;
  const TablePlan& plan_;
  Shard& shard_;
  const ServingRules& rules_;
  TableKernels& kernels_;
  std::vector<Asked> asked_;  // by worker
  std::vector<AskedRow> asked_rows_;
  Buffer rows_;
  std::uint64_t updates_ = 0, told_evicted_ = 0;
};

ServedTables::ServedTables(Endpoint& endpoint, TableStages& stages, const ServingRules& rules)
    : comm_(endpoint.comm()), stages_(stages), rules_(rules), parts_(at(endpoint.size())) {
  // The worker may return before its companion, so the companion uses only its own objects or the
  // run's.
  endpoint.background_task(
      "tables", [&plan = stages.plan(), &shard = stages.shard(), rules](Endpoint& companion) {
        Companion(companion, plan, shard, rules).run();
      });
}

void ServedTables::tell(int to, const Message& message) {
  comm_.post(to, kMessageTag, std::span(&message, 1));
}

template <class Fn>
void ServedTables::for_each_owner(const Fn& fn) {
  for (int n = 1; n <= comm_.size(); ++n) {
    const int owner = (comm_.rank() + n) % comm_.size();
    fn(owner, parts_[at(owner)]);
  }
}

void ServedTables::tell_all(const Message& message) {
  for_each_owner([&](int owner, const OwnerPart&) { tell(owner, message); });
}

void ServedTables::pull(Lookup& lookup) {
  parts_ = stages_.by_owner(lookup);
  for_each_owner([&](int owner, const OwnerPart& part) {
    tell(owner, {.what = What::pull, .rows = static_cast<std::uint32_t>(part.rows)});
    if (part.rows > 0) comm_.post(owner, kPlacesTag, part.asked, Traffic::ids);
  });
  for_each_owner(
      [&](int owner, const OwnerPart& part) { comm_.receive(owner, kRowsTag, part.columns); });
}

void ServedTables::push(Lookup& lookup, double learning_rate, LookupCounts& counts) {
  for_each_owner([&](int owner, const OwnerPart& part) {
    tell(owner, {.what = What::push, .learning_rate = learning_rate});
    comm_.post(owner, kSumsTag, part.columns, Traffic::rows);
  });
  counts.lookups += lookup.lookups();
  counts.entries += lookup.entries();
  for_each_owner([&](int owner, const OwnerPart& part) {
    Done done;
    comm_.receive(owner, kDoneTag, std::span(&done, 1));
    counts.asked += part.rows;
    counts.on_device += done.on_device;
    counts.evicted += done.evicted;
    if (part.rows > 0) rules_.staleness(done.staleness);
  });
}

void ServedTables::drop() { tell_all({.what = What::drop}); }

void ServedTables::close() { tell_all({.what = What::close}); }

}  // namespace hetsgd
