#include "algorithm/shared_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "core/error.hpp"
#include "data/huge_pages.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

float* untouched_pages(std::size_t n) {
  const std::size_t bytes = (n * sizeof(float) + kLargePage - 1) / kLargePage * kLargePage;
  void* const memory = std::aligned_alloc(kLargePage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  advise_huge_pages(memory, bytes);
  return static_cast<float*>(memory);
}

// An element that no other worker has moved takes the new value itself: w + (own - seen) would
// round.
void land(std::size_t count, const float* own, const float* seen, float* w) {
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = w[i] == seen[i] ? own[i] : w[i] + (own[i] - seen[i]);
  }
}

}  // namespace

void check_shareable(const Model& model) {
  if (model.hashed_labels() == nullptr) return;
  refuse("--objective", "hashed", "full or sampled where workers share one model",
         "--algorithm slide shares the model and its hash tables");
}

void SharedModel::Release::operator()(float* memory) const noexcept { std::free(memory); }

SharedModel::SharedModel(std::size_t n, int workers, std::unique_ptr<Monitor> monitor)
    : n_(n), workers_(workers), w_(untouched_pages(n)), monitor_(std::move(monitor)) {}

void SharedModel::fields(Archive& fields) {
  std::uint64_t writes = writes_;
  fields("writes", writes);
  writes_ = writes;
  fields.bytes(
      "w", n_ * sizeof(float),
      [&](std::span<std::byte> to) { std::memcpy(to.data(), w_.get(), to.size()); },
      [&](std::span<const std::byte> from) { std::memcpy(w_.get(), from.data(), from.size()); });
}

bool SharedModel::join(std::size_t part, std::size_t parts, std::span<const float> initial) {
  HETSGD_CHECK_LE(part, parts);
  const std::size_t begin = n_ * part / parts;
  const std::size_t end = std::min(n_, n_ * (part + 1) / parts);
  if (!initial.empty()) {
    HETSGD_CHECK_EQ(initial.size(), n_);
    std::ranges::copy(initial.subspan(begin, end - begin), w_.get() + begin);
  }
  const std::lock_guard lock(*monitor_);
  const bool is_last = ++joined_ == workers_;
  monitor_->notify_all();
  monitor_->wait([this] { return joined_ == workers_; }, "the other workers of a shared model");
  return is_last;
}

SharedSnapshot::SharedSnapshot(const Model& model, Device& device)
    : model_(model),
      own_(device, model.parameters()),
      seen_(device, model.parameters()),
      rows_(model.layout().sparse) {}

template <class Fn>
void SharedSnapshot::for_each_run(const Fn& fn) const {
  std::size_t s = 0;
  for (const ParameterBlock& block : model_.layout().blocks) {
    if (!block.row_sparse()) {
      fn(block.offset, block.size());
      continue;
    }
    for (const Index row : rows_[s]) fn(block.offset + row * block.cols, block.cols);
    ++s;
  }
}

void SharedSnapshot::read(ModelContext& context, const Batch& batch, std::span<const float> w) {
  model_.touched_rows(context, batch, rows_);
  for_each_run([&](std::size_t begin, std::size_t count) {
    std::copy_n(w.data() + begin, count, own_.data() + begin);
    std::copy_n(w.data() + begin, count, seen_.data() + begin);
  });
}

double SharedSnapshot::step(ModelContext& context, const Batch& batch, float learning_rate) {
  return model_.step(context, batch, learning_rate, own_.data());
}

void SharedSnapshot::write(std::span<float> w) const {
  for_each_run([&](std::size_t begin, std::size_t count) {
    land(count, own_.data() + begin, seen_.data() + begin, w.data() + begin);
  });
}

void land_move(std::span<const float> moved, std::span<const float> pulled, std::span<float> w) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t begin = 0; begin < w.size(); begin += kLine) {
    const std::size_t count = std::min(kLine, w.size() - begin);
    const float *const to = moved.data() + begin, *const from = pulled.data() + begin;
    if (!std::equal(to, to + count, from)) land(count, to, from, w.data() + begin);
  }
}

void SharedAverage::read() {
  seen_.clear();
  for (const std::span<float> w : models_) seen_.emplace_back(w.begin(), w.end());
}

void SharedAverage::compute() {
  std::vector<std::span<float>> seen(seen_.begin(), seen_.end());
  mean_.resize(seen.front().size());
  mean_in_order(seen, mean_);
}

void SharedAverage::write() const {
  for (std::size_t g = 0; g < models_.size(); ++g) {
    land(mean_.size(), mean_.data(), seen_[g].data(), models_[g].data());
  }
}

void mean_in_order(std::span<const std::span<float>> models, std::span<float> mean) {
  const auto count = static_cast<float>(models.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    float sum = 0;
    for (const std::span<float> w : models) sum += w[i];
    mean[i] = sum / count;
  }
}

std::shared_ptr<SharedModel> SharedWorker::join(const std::string& name, std::size_t part,
                                                std::size_t parts) {
  auto shared = self_.share<SharedModel>(name, [&] {
    return std::make_shared<SharedModel>(self_.model().parameters(), self_.size(),
                                         self_.make_monitor());
  });
  // The last one need not wait; in sim this lets the others, which came first, continue first.
  const std::span<const float> loaded;
  if (shared->join(part, parts, self_.goes_on() ? loaded : self_.initial_on_host()))
    self_.endpoint().sleep(Seconds(0));
  return shared;
}

double SharedWorker::step(const Batch& batch, double lr, SharedModel& shared) {
  double loss = 0;
  std::uint64_t read = 0, staleness = 0;
  const auto rate = static_cast<float>(lr);
  const auto land = [&] { staleness = shared.count_write() - read; };
  const auto in_place = [&] {
    read = shared.writes();
    loss = racy::step(self_.model(), *context_, batch, rate, shared.w());
    land();
  };
  const auto read_snapshot = [&] {
    if (!snapshot_) snapshot_.emplace(self_.model(), self_.device());
    read = shared.writes();
    snapshot_->read(*context_, batch, shared.w());
  };
  const auto write_snapshot = [&] {
    snapshot_->write(shared.w());
    land();
  };
  const Seconds started = self_.now();
  self_.endpoint().compute_in_place(self_.costs().gradient_work(self_.id(), batch.shape()),
                                    ComputeKind::step,
                                    {.in_place = in_place,
                                     .read = read_snapshot,
                                     .fn = [&] { loss = snapshot_->step(*context_, batch, rate); },
                                     .write = write_snapshot});
  self_.observe("staleness", static_cast<std::int64_t>(staleness));
  self_.completed(batch, loss, started);
  self_.count_own_update();
  return loss;
}

PulledReplica SharedWorker::pulled_replica() {
  PulledReplica mine;
  mine.replica = self_.replica();
  mine.pulled.resize(mine.replica.w.size());
  return mine;
}

double SharedWorker::charged_bytes() const {
  return self_.costs().charged_bytes(self_.model().parameters());
}

void SharedWorker::transfer(const InPlaceComputation& how) {
  self_.endpoint().compute_in_place({.host_link_bytes = charged_bytes()}, ComputeKind::transfer,
                                    how);
}

void SharedWorker::pull(SharedModel& shared, PulledReplica& mine) {
  const auto upload = [&] {
    self_.device().upload(mine.replica.w.data(), mine.pulled.data(),
                          mine.pulled.size() * sizeof(float));
  };
  const auto read = [&] {
    mine.writes = shared.writes();
    racy::pull(shared.w(), mine.pulled);
  };
  transfer({.in_place = [&] { read(), upload(); }, .read = read, .fn = upload, .write = [] {}});
  self_.endpoint().time_breakdown().bytes_received[static_cast<std::size_t>(Traffic::parameters)] +=
      static_cast<std::uint64_t>(std::llround(charged_bytes()));
}

void SharedWorker::bring_back(PulledReplica& mine, SharedModel& shared, LandMove land) {
  std::span<const float> moved;
  std::uint64_t staleness = 0;
  const auto download = [&] {
    moved = HostView(&self_.device(), mine.replica.w.span(), mine.moved).floats();
  };
  const auto write = [&] {
    land(moved, mine.pulled, shared.w());
    staleness = shared.count_write() - mine.writes;
  };
  transfer(
      {.in_place = [&] { download(), write(); }, .read = [] {}, .fn = download, .write = write});
  self_.endpoint().time_breakdown().bytes_sent[static_cast<std::size_t>(Traffic::gradients)] +=
      static_cast<std::uint64_t>(std::llround(charged_bytes()));
  self_.observe("staleness", static_cast<std::int64_t>(staleness));
}

void SharedWorker::add_move(PulledReplica& mine, SharedModel& shared) {
  bring_back(mine, shared, racy::add);
}

void SharedWorker::overwrite(PulledReplica& mine, SharedModel& shared) {
  bring_back(mine, shared, [](auto moved, auto, auto w) { racy::overwrite(moved, w); });
}

void SharedWorker::average(std::span<const std::shared_ptr<SharedModel>> models) {
  std::vector<std::span<float>> w;
  for (const auto& shared : models) w.push_back(shared->w());
  SharedAverage average(w);
  const double numbers =
      2 * static_cast<double>(models.size()) * static_cast<double>(self_.model().parameters());
  const Work work{.operations = numbers, .bytes = 4 * numbers, .launches = 1};
  self_.endpoint().compute_in_place(work, ComputeKind::vector,
                                    {.in_place = [&] { racy::average(w); },
                                     .read = [&] { average.read(); },
                                     .fn = [&] { average.compute(); },
                                     .write = [&] { average.write(); }});
}

}  // namespace hetsgd
