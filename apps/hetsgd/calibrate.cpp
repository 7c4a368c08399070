// hetsgd calibrate: measures training steps and lookups of rows on a real device, and fits the
// device profile that the simulated clock charges.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibration.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/logging.hpp"
#include "core/median.hpp"
#include "core/options.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "data/generate.hpp"
#include "data/sampler.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/table_kernels.hpp"
#include "model/mlp.hpp"
#include "printer.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kBatches = 8;  // distinct batches, used in turn
constexpr float kLearningRate = 1e-3F;
constexpr const char* kDefaultModel = "mlp";
constexpr double kLeastShare = 0.1;  // smallest share of a measured time that is left to the rows

// Data sets whose steps spend their time in different parts: few labels (sparse layer), many labels
// (dense product, and weights larger than the caches), long rows.
std::vector<GeneratorOptions> shapes(std::uint64_t rows) {
  const auto shape = [rows](const char* name, Index features, Index labels, double nonzeros) {
    GeneratorOptions options;
    options.name = name;
    options.rows_train = rows;
    options.rows_test = 1;
    options.features = features;
    options.labels = labels;
    options.nonzeros_per_sample = nonzeros;
    return options;
  };
  return {shape("small", 1000, 100, 20), shape("wide input", 50000, 1000, 300),
          shape("wide output", 5000, 10000, 50), shape("wide", 20000, 30000, 75)};
}

CalibrationTarget make_target(const std::string& name, Precision precision) {
  const std::string_view number = std::string_view(name).substr(name.find(':') + 1);
  CalibrationTarget target;
  if (name.starts_with("cpu:")) {
    const auto cores = static_cast<int>(parse_integer("--device", number, 1, 4096));
    const nlohmann::json host = environment_json();
    target.device = make_cpu_device<float>(cores, precision);
    target.hardware = processor_of(host);
    target.memory_bytes = host["memory_bytes"].get<double>();
    target.own_core = cores == 1;
  } else if (name.starts_with("cuda:")) {
    const auto ordinal = static_cast<int>(parse_integer("--device", number, 0, 4095));
    target.device = make_cuda_device<float>(ordinal, {.precision = precision});
    const CudaPlatform platform = cuda_platform();
    const CudaGpu& gpu = platform.gpus.at(static_cast<std::size_t>(ordinal));
    target.hardware = gpu.name;
    target.memory_bytes = static_cast<double>(gpu.memory_bytes);
    target.group = kBatches;
  } else {
    refuse("--device", quote(name), "cpu:N or cuda:N");
  }
  return target;
}

// The median time of a fused training step, and the mean work of its batches.
CalibrationPoint measure(const CalibrationTarget& target, const DatasetPtr& data,
                         std::size_t hidden, std::size_t batch_size, Seconds point_time) {
  BasicDevice<float>& device = *target.device;
  const auto model =
      make_mlp<float>({data->feature_count, data->label_count, data->task}, {.hidden = {hidden}});
  require_room(model->layout(), hidden);
  const auto context = model->make_context(device);
  const std::vector<float> initial = initial_parameters<float>(model->layout(), 1);
  Buffer w(device, initial.size());
  device.upload(w.data(), initial.data(), initial.size() * sizeof(float));

  const Sampler sampler(data, {});
  std::vector<Batch> batches(kBatches);
  CalibrationPoint point{data->name, hidden, batch_size, 0, {}};
  for (std::size_t i = 0; i < kBatches; ++i) {
    sampler.fill(0, {i * batch_size, batch_size}, batches[i]);
    const Work work = model->gradient_work(batches[i].shape());
    point.sample.work +=
        Work{work.operations / kBatches, work.bytes / kBatches, work.launches / kBatches};
    model->step(*context, batches[i], kLearningRate, w.data());  // warms up memory and caches
  }
  device.synchronize();
  point.sample.time = Seconds(median_time(point_time, [&] {
    const Seconds start = target.now();
    for (std::size_t i = 0; i < target.group; ++i) {
      model->step(*context, batches[point.steps++ % kBatches], kLearningRate, w.data());
    }
    device.synchronize();
    return (target.now() - start).count() / static_cast<double>(target.group);
  }));
  return point;
}

// Measures the link between host and GPU memory by copies to pinned memory and back, as plans of
// memory and tables make them. The copy of one number takes the latency, and that of many gives the
// bandwidth.
void measure_link(BasicDevice<float>& device, DeviceProfile& profile) {
  constexpr std::size_t kNumbers = std::size_t{16} << 20;
  constexpr double kShortest_s = 1e-9;
  auto& blocks = kernels<BasicHostBlocks<float>>(device);
  const HostBlock host(device, kNumbers);
  Buffer memory(device, kNumbers);
  device.fill(kNumbers, 1.0F, memory.data());
  const auto copy_s = [&](std::size_t numbers) {
    return median_time(Seconds(0.05), [&] {
      device.synchronize();
      const auto start = HostClock::now();
      blocks.copy_out(numbers, memory.data(), host.data());
      blocks.wait(blocks.copy_in(numbers, host.data(), memory.data()));
      device.synchronize();
      return seconds_since(start) / 2;
    });
  };
  const double bytes = kNumbers * sizeof(float);
  profile.host_link_latency_s = copy_s(1);
  const double time_s = copy_s(kNumbers) - *profile.host_link_latency_s;
  profile.host_link_bytes_per_s = bytes / std::max(time_s, kShortest_s);
}

// Bytes per second at which the kernels of sharded tables read rows of D = 16 elements at random
// places of a table larger than the caches. Empty for a device without these kernels. Writing the
// rows contiguously is charged at the profile's bandwidth, so it is subtracted.
std::optional<double> gather_rate(const CalibrationTarget& target, const DeviceProfile& profile,
                                  Seconds point_time) {
  constexpr std::size_t kNumbers = 16, kTableRows = std::size_t{1} << 22, kRows = 1 << 16;
  BasicDevice<float>& device = *target.device;
  auto* const tables = static_cast<TableKernels*>(device.family(typeid(TableKernels)));
  if (!tables) return std::nullopt;
  Buffer table(device, kTableRows * kNumbers), out(device, kRows * kNumbers);
  device.fill(table.size(), 1.0F, table.data());
  RandomStream random(1, Purpose::test);
  std::vector<std::uint32_t> rows(kRows);
  for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(random.below(kTableRows));
  const ShardRows<float> shard{.w = table.data(), .width = kNumbers, .stride = kNumbers};
  const double taken_s = median_time(point_time, [&] {
    device.synchronize();
    const Seconds start = target.now();
    tables->gather(shard, kRows, rows.data(), out.data());  // also sends the places to a GPU
    device.synchronize();
    return (target.now() - start).count();
  });
  const double row_bytes = kRows * kNumbers * sizeof(float);
  const Work rest{.bytes = row_bytes + kRows * sizeof(std::uint32_t), .launches = 1};
  return row_bytes / std::max(taken_s - profile.seconds(rest).count(), kLeastShare * taken_s);
}

// Measures gathers from the device's memory, and from host memory. If the device is a GPU, one host
// core reads the latter.
void measure_gathers(const CalibrationTarget& target, DeviceProfile& profile, Seconds point_time) {
  profile.gather_bytes_per_s = gather_rate(target, profile, point_time);
  if (!target.device->stages_copies()) {
    profile.host_gather_bytes_per_s = profile.gather_bytes_per_s;
    return;
  }
  DeviceProfile host;  // only the rows cost time
  host.operations_per_s = host.bytes_per_s = kUnlimitedPerSecond;
  profile.host_gather_bytes_per_s =
      gather_rate(make_target("cpu:1", Precision::fp32), host, point_time);
}

class Calibrate final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "calibrate",
        .summary = "fit a device profile for --profile to measured training steps",
        .examples = {
            "hetsgd calibrate -o here.json",
            "hetsgd calibrate --device cpu:2 --batch-size 32,128 --point-time 1s -o two.json",
            "hetsgd calibrate --device cuda:0 --hidden 128 --batch-size 64,256,1024 -o gpu.json",
            "hetsgd calibrate --model deepfm --hidden 400 --batch-size 256,1024 -o clicks.json",
            "hetsgd train --profile here.json --cluster sim ..."}};
  }

  void declare(OptionSet& set) override {
    set.add("device", device_,
            "Device to measure: cpu:N is N cores, cuda:N is the GPU with number N.");
    set.add("model", model_,
            "Model whose training steps are measured: mlp on sparse rows, or a click-through model "
            "with two hidden layers. Its forward pass, backward pass and update are measured "
            "separately.");
    set.add("batch_size", batch_sizes_, "Batch sizes to measure, separated by commas.")
        .unit("samples")
        .range(1, kLargestBatch);
    set.add("hidden", hidden_, "Sizes of hidden layers to measure, separated by commas.")
        .unit("units")
        .range(1, 1 << 20);
    set.add("point_time", point_time_,
            "Least measuring time for each combination of data, --hidden and --batch-size. It is "
            "spent twice: with products in fp32 and in bf16.")
        .unit("s")
        .above(0);
    set.add("name", name_, "Name of the profile. Default: the device.");
    printer_.declare_output(set, "the profile");
  }

  int run(OptionSet&, const std::vector<std::string>&) override {
    const CalibrationTarget target = make_target(device_, Precision::fp32);
    const std::vector<CalibrationPoint> points = measure_all(target);
    std::vector<CalibrationPoint> bf16_points = measure_all(make_target(device_, Precision::bf16));
    std::erase_if(bf16_points, [](const CalibrationPoint& point) { return !point.is_step; });
    CalibrationFit fit = fit_device_profile(samples_of(points));
    const FitErrors bf16 = fit_bf16_rate(samples_of(bf16_points), fit.profile);
    if (target.device->stages_copies()) measure_link(*target.device, fit.profile);
    measure_gathers(target, fit.profile, point_time_);
    fit.profile.name = name_.empty() ? device_ : name_;
    fit.profile.memory_bytes = target.memory_bytes;
    fit.profile.source =
        fmt::format("hetsgd calibrate --device {}{} on {}: {}; bf16: {}", device_,
                    model_ == kDefaultModel ? "" : " --model " + model_, target.hardware,
                    fit_errors(points.size(), fit.median_error, fit.max_error),
                    fit_errors(bf16_points.size(), bf16.median_error, bf16.max_error));
    Table table(
        {"precision", "data", "hidden", "batch", "steps", "measured_ms", "predicted_ms", "error"});
    add_points(points, fit.profile, Precision::fp32, table);
    add_points(bf16_points, fit.profile, Precision::bf16, table);
    log_table(table);
    log_info("{}", fit.profile.source);
    printer_.print(to_json_text(fit.profile), "profile");
    return 0;
  }

 private:
  static std::vector<CalibrationSample> samples_of(const std::vector<CalibrationPoint>& points) {
    std::vector<CalibrationSample> samples;
    for (const CalibrationPoint& point : points) samples.push_back(point.sample);
    return samples;
  }

  std::vector<CalibrationPoint> measure_all(const CalibrationTarget& target) const {
    const RegisteredModel& model = find_model(model_);
    if (model.info.reads_fields) return measure_clicks(target, model);
    if (model_ == kDefaultModel) return measure_sparse(target);
    refuse("--model", model_, "mlp or a click-through model", "hetsgd models lists all models");
  }

  // Calls points_of(hidden, batch_size) for all combinations of the options.
  template <class PointsOf>
  void for_each_size(const std::string& what, PointsOf points_of) const {
    for (const std::uint64_t hidden : hidden_) {
      for (const std::uint64_t batch_size : batch_sizes_) {
        if (detect_terminal().terminal) {
          show_status(
              fmt::format("{}: {}, hidden {}, batch {}", device_, what, hidden, batch_size));
        }
        points_of(hidden, batch_size);
      }
    }
    show_status("");
  }

  std::vector<CalibrationPoint> measure_clicks(const CalibrationTarget& target,
                                               const RegisteredModel& model) const {
    std::vector<CalibrationPoint> points;
    for_each_size(model_, [&](std::uint64_t hidden, std::uint64_t batch_size) {
      std::ranges::move(click_points(target, model, hidden, batch_size, point_time_),
                        std::back_inserter(points));
    });
    return points;
  }

  std::vector<CalibrationPoint> measure_sparse(const CalibrationTarget& target) const {
    std::vector<CalibrationPoint> points;
    for (const GeneratorOptions& options : shapes(kBatches * std::ranges::max(batch_sizes_))) {
      const DatasetPtr data = generate_part(options, DataPart::train);
      for_each_size(options.name, [&](std::uint64_t hidden, std::uint64_t batch_size) {
        points.push_back(measure(target, data, hidden, batch_size, point_time_));
      });
    }
    return points;
  }

  static void add_points(const std::vector<CalibrationPoint>& points, const DeviceProfile& profile,
                         Precision precision, Table& table) {
    for (const CalibrationPoint& point : points) {
      const Seconds measured = point.sample.time;
      const Seconds predicted = profile.seconds(point.sample.work, precision);
      table.add({precision == Precision::bf16 ? "bf16" : "fp32", point.data,
                 fmt::format("{}", point.hidden), fmt::format("{}", point.batch_size),
                 fmt::format("{}", point.steps), fmt::format("{:.3f}", 1e3 * measured.count()),
                 fmt::format("{:.3f}", 1e3 * predicted.count()),
                 fmt::format("{:+.1f} %", 100 * (predicted / measured - 1))});
    }
  }

  std::string device_ = "cpu:1";
  std::string model_ = kDefaultModel;
  std::vector<std::uint64_t> batch_sizes_{16, 64, 256};
  std::vector<std::uint64_t> hidden_{32, 128};
  Seconds point_time_{0.4};
  std::string name_;
  Printer printer_;
};

}  // namespace

double median_time(Seconds point_time, const std::function<double()>& once) {
  std::vector<double> times;
  const auto start = HostClock::now();
  while (times.size() < kFewestCalibrationTimes || seconds_since(start) < point_time.count()) {
    times.push_back(once());
  }
  return median(times);
}

std::string fit_errors(std::size_t points, double median_error, double max_error) {
  return fmt::format("{} points, error {:.1f} % in the median, {:.1f} % at most", points,
                     100 * median_error, 100 * max_error);
}

std::string processor_of(const nlohmann::json& environment) {
  const nlohmann::json& model = environment["cpu_model"];
  return model.is_string() ? model.get<std::string>() : "an unknown processor";
}

Seconds CalibrationTarget::now() const {
  timespec time{};
  ::clock_gettime(own_core ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

const bool calibrate_registered = register_command<Calibrate>(CommandGroup::machines, 3);

}  // namespace hetsgd
