// Worker's calls on memory that workers share.

#include <algorithm>
#include <cmath>

#include "algorithm/worker.hpp"

namespace hetsgd {

double Worker::shared_step(const Batch& batch, double lr, SharedModel& shared) {
  double loss = 0;
  std::uint64_t read = 0, staleness = 0;
  const auto rate = static_cast<float>(lr);
  const auto land = [&] { staleness = shared.count_write() - read; };
  const Seconds started = now();
  endpoint_.compute_in_place(run_.gradient_work(rank(), batch.shape()), ComputeKind::step,
                             {.in_place =
                                  [&] {
                                    read = shared.writes();
                                    loss = racy::step(model(), *context_, batch, rate, shared.w());
                                    land();
                                  },
                              .read =
                                  [&] {
                                    if (!snapshot_) snapshot_.emplace(model(), device());
                                    read = shared.writes();
                                    snapshot_->read(*context_, batch, shared.w());
                                  },
                              .fn = [&] { loss = snapshot_->step(*context_, batch, rate); },
                              .write =
                                  [&] {
                                    snapshot_->write(shared.w());
                                    land();
                                  }});
  observe("staleness", static_cast<std::int64_t>(staleness));
  completed(batch, loss, started);
  count_own_update();
  return loss;
}

PulledReplica Worker::pulled_replica() {
  PulledReplica mine;
  mine.replica = replica();
  mine.pulled.resize(mine.replica.w.size());
  return mine;
}

std::uint64_t Worker::transferred_bytes() const {
  return static_cast<std::uint64_t>(std::llround(charged_bytes(model().parameters())));
}

void Worker::transfer(const InPlaceComputation& how) {
  const Work work{.host_link_bytes = charged_bytes(model().parameters())};
  endpoint_.compute_in_place(work, ComputeKind::transfer, how);
}

void Worker::pull(SharedModel& shared, PulledReplica& mine) {
  const auto upload = [&] {
    device().upload(mine.replica.w.data(), mine.pulled.data(), mine.pulled.size() * sizeof(float));
  };
  const auto read = [&] {
    mine.writes = shared.writes();
    racy::pull(shared.w(), mine.pulled);
  };
  transfer({.in_place =
                [&] {
                  read();
                  upload();
                },
            .read = read,
            .fn = upload,
            .write = [] {}});
  endpoint_.time_breakdown().bytes_received[static_cast<std::size_t>(Traffic::parameters)] +=
      transferred_bytes();
}

void Worker::bring_back(PulledReplica& mine, SharedModel& shared, LandMove land) {
  std::span<const float> moved;
  std::uint64_t staleness = 0;
  const auto download = [&] {
    moved = HostView(&device(), mine.replica.w.span(), mine.moved).floats();
  };
  const auto write = [&] {
    land(moved, mine.pulled, shared.w());
    staleness = shared.count_write() - mine.writes;
  };
  transfer({.in_place =
                [&] {
                  download();
                  write();
                },
            .read = [] {},
            .fn = download,
            .write = write});
  endpoint_.time_breakdown().bytes_sent[static_cast<std::size_t>(Traffic::gradients)] +=
      transferred_bytes();
  observe("staleness", static_cast<std::int64_t>(staleness));
}

void Worker::add_move(PulledReplica& mine, SharedModel& shared) {
  bring_back(mine, shared, racy::add);
}

void Worker::overwrite(PulledReplica& mine, SharedModel& shared) {
  bring_back(mine, shared, [](auto moved, auto, auto w) { racy::overwrite(moved, w); });
}

void Worker::average_shared(std::span<const std::shared_ptr<SharedModel>> models) {
  std::vector<std::span<float>> w;
  for (const auto& shared : models) w.push_back(shared->w());
  SharedAverage average(w);
  const double numbers =
      2 * static_cast<double>(models.size()) * static_cast<double>(model().parameters());
  const Work work{.operations = numbers, .bytes = 4 * numbers, .launches = 1};
  endpoint_.compute_in_place(work, ComputeKind::vector,
                             {.in_place = [&] { racy::average(w); },
                              .read = [&] { average.read(); },
                              .fn = [&] { average.compute(); },
                              .write = [&] { average.write(); }});
}

std::shared_ptr<SharedModel> Worker::shared_model(const std::string& name,
                                                  std::span<const int> members) {
  auto shared = share<SharedModel>(name, [&] {
    return std::make_shared<SharedModel>(model().parameters(), size(), make_monitor());
  });
  const auto place = std::ranges::find(members, rank());
  const bool is_last = shared->join(static_cast<std::size_t>(place - members.begin()),
                                    members.size(), run_.initial_parameters());
  // The last one need not wait: in sim the others, who came first, go on first.
  if (is_last) endpoint_.sleep(Seconds(0));
  return shared;
}

}  // namespace hetsgd
