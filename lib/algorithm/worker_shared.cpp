// Worker's calls on memory that workers share.

#include <algorithm>

#include "algorithm/worker.hpp"

namespace hetsgd {

double Worker::shared_step(const Batch& batch, double lr, SharedModel& shared) {
  double loss = 0;
  std::uint64_t read = 0, staleness = 0;
  const auto rate = static_cast<float>(lr);
  const auto land = [&] { staleness = shared.count_write() - read; };
  const Seconds started = now();
  endpoint_.compute_in_place(run_.gradient_work(batch.shape()), ComputeKind::step,
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
