// The passes of click models that hetsgd calibrate measures.
#include <fmt/format.h>

#include <numeric>

#include "calibration.hpp"
#include "core/host.hpp"
#include "core/median.hpp"
#include "core/random.hpp"
#include "data/batch.hpp"
#include "data/source.hpp"

namespace hetsgd {
namespace {

constexpr float kClickRate = -1e-3F;

// Data in the shape of Criteo's. Every field has a single category, since no table is read here.
DatasetPtr criteo_shaped(std::size_t rows) {
  constexpr Index kDense = 13, kFields = 26;
  DatasetBuilder builder;
  builder.task = Task::binary;
  builder.label_count = 1;
  builder.dense.columns = kDense;
  for (Index field = 0; field <= kFields; ++field) builder.fields.first.push_back(field);
  RandomStream random(1, Purpose::test);
  for (std::size_t row = 0; row < rows; ++row) {
    for (Index k = 0; k < kDense; ++k) {
      builder.dense.value.push_back(static_cast<float>(random.uniform()));
    }
    for (Index field = 0; field < kFields; ++field) builder.fields.category.push_back(field);
    if (row % 4 == 0) builder.targets.index.push_back(0);
    builder.targets.begin.push_back(builder.targets.index.size());
  }
  return std::move(builder).share();
}

Batch all_rows(const Dataset& data) {
  std::vector<Index> rows(data.rows());
  std::iota(rows.begin(), rows.end(), Index{0});
  return {data, std::move(rows)};
}

void fill_randomly(BasicDevice<float>& device, Buffer& buffer) {
  RandomStream random(2, Purpose::test);
  std::vector<float> numbers(buffer.size());
  for (float& number : numbers) number = static_cast<float>(random.uniform(-0.1, 0.1));
  device.upload(buffer.data(), numbers.data(), numbers.size() * sizeof(float));
}

}  // namespace

void require_room(const Layout& layout, std::size_t hidden) {
  require_memory(2 * sizeof(float) * layout.real_size, fmt::format("--hidden {}", hidden),
                 "the model with its gradient", MemoryLimit::available, "use fewer hidden units");
}

std::vector<CalibrationPoint> click_points(const CalibrationTarget& target,
                                           const RegisteredModel& registered, std::size_t hidden,
                                           std::size_t batch_size, Seconds point_time) {
  BasicDevice<float>& device = *target.device;
  const auto factory = registered.make();
  OptionSet options;
  factory->declare(options);
  options.set("hidden", {fmt::format("{0},{0}", hidden)}, OptionSource::flag, "--hidden");
  const DatasetPtr data = criteo_shaped(batch_size);
  const auto model = factory->make(DataShape::of(*data))->dense_part();
  require_room(model->layout(), hidden);
  const auto context = model->make_context(device);
  const Batch batch = all_rows(*data);
  Embedded embedded, by_embedded;
  embedded.reset(device, batch_size, model->embedded_width());
  by_embedded.reset(device, batch_size, model->embedded_width());
  fill_randomly(device, embedded.x);
  fill_randomly(device, embedded.u);
  Gradient gradient;
  gradient.flat.reset(device, model->parameters());
  Buffer w(device, model->parameters());
  const std::vector<float> initial = initial_parameters<float>(model->layout(), 1);
  device.upload(w.data(), initial.data(), initial.size() * sizeof(float));

  std::vector<double> forward_s, backward_s, update_s;
  const auto end = HostClock::now() + std::chrono::duration_cast<HostClock::duration>(point_time);
  // The first step allocates the buffers and is not timed.
  for (bool warm = false; HostClock::now() < end || forward_s.size() < kFewestCalibrationTimes;
       warm = true) {
    device.synchronize();
    const Seconds start = target.now();
    model->forward(*context, batch, embedded, w.data());
    device.synchronize();
    const Seconds middle = target.now();
    model->backward(*context, batch, embedded, w.data(), gradient, by_embedded);
    device.synchronize();
    const Seconds learnt = target.now();
    device.axpby(w.size(), kClickRate, gradient.flat.data(), 1.0F, w.data());
    device.synchronize();
    if (!warm) continue;
    forward_s.push_back((middle - start).count());
    backward_s.push_back((learnt - middle).count());
    update_s.push_back((target.now() - learnt).count());
  }
  const Work forward = model->forward_work(batch.shape());
  const auto point = [&](const char* pass, const Work& work, std::vector<double>& times_s) {
    return CalibrationPoint{.data = registered.info.name + pass,
                            .hidden = hidden,
                            .batch_size = batch_size,
                            .steps = times_s.size(),
                            .sample = {.work = work, .time = Seconds(median(times_s))}};
  };
  // Two numbers are read and one is written (optimizer/sgd.cpp).
  const double moved = 3 * static_cast<double>(w.size());
  const Work work{.operations = moved, .bytes = sizeof(float) * moved, .launches = 1};
  CalibrationPoint update = point(" update", work, update_s);
  update.is_step = false;
  return {point(" forward", forward, forward_s),
          point(" backward", model->gradient_work(batch.shape()) - forward, backward_s), update};
}

}  // namespace hetsgd
