#include "cluster/calibrate.hpp"

#include "core/random.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

DeviceProfile device(double overhead_s, double operations_per_s, double bytes_per_s) {
  DeviceProfile profile;
  profile.launch_overhead_s = overhead_s;
  profile.operations_per_s = operations_per_s;
  profile.bytes_per_s = bytes_per_s;
  return profile;
}

// Works of the shape that a sweep over batch sizes and widths makes, timed on `profile` with
// relative noise.
std::vector<CalibrationSample> samples_of(const DeviceProfile& profile, double noise = 0) {
  RandomStream random(3, Purpose::test);
  std::vector<CalibrationSample> samples;
  for (const double batch : {16, 64, 256, 1024}) {
    for (const double width : {100, 1000, 10'000, 100'000}) {
      const Work work{.operations = 6 * batch * width * 128,
                      .bytes = 8 * (batch + 3 * 128) * width,
                      .launches = 12};
      samples.push_back({work, profile.seconds(work) * (1 + noise * random.normal())});
    }
  }
  return samples;
}

TEST(Calibrate, RecoversAnExactDevice) {
  const DeviceProfile truth = device(8e-6, 1.1e13, 7.2e11);
  const CalibrationFit fit = fit_device_profile(samples_of(truth));
  EXPECT_NEAR(fit.profile.launch_overhead_s / truth.launch_overhead_s, 1, 1e-9);
  EXPECT_NEAR(fit.profile.operations_per_s / truth.operations_per_s, 1, 1e-9);
  EXPECT_NEAR(fit.profile.bytes_per_s / truth.bytes_per_s, 1, 1e-9);
  EXPECT_LT(fit.max_error, 1e-9);
  const auto samples = samples_of(truth);
  EXPECT_EQ(Seconds(fit.profile.least_step_s.value()),
            std::ranges::min(samples, {}, &CalibrationSample::time).time);
}

// Only operations are faster in BF16; overhead and bytes keep the rates of the fit in FP32.
TEST(Calibrate, FitsTheRateOfBf16ToTheRates) {
  const DeviceProfile truth = device(8e-6, 1.1e11, 2e10), faster = device(8e-6, 7e11, 2e10);
  DeviceProfile profile = fit_device_profile(samples_of(truth)).profile;
  const auto samples = samples_of(faster);
  const FitErrors errors = fit_bf16_rate(samples, profile);
  EXPECT_NEAR(profile.bf16_operations_per_s.value() / 7e11, 1, 1e-9);
  EXPECT_NEAR(profile.operations_per_s / 1.1e11, 1, 1e-9);
  EXPECT_LT(errors.max_error, 1e-9);
  EXPECT_EQ(Seconds(profile.least_step_s.value()),
            std::ranges::min(samples, {}, &CalibrationSample::time).time);
  // Under noise no rate nearby has smaller errors, and slower steps leave the shortest as it is.
  const auto noisy = samples_of(truth, 0.05);
  const double least_s = *profile.least_step_s;
  fit_bf16_rate(noisy, profile);
  EXPECT_EQ(profile.least_step_s, least_s);
  const auto error = [&](double factor) {
    DeviceProfile other = profile;
    *other.bf16_operations_per_s *= factor;
    double sum = 0;
    for (const auto& s : noisy) {
      sum += std::pow(other.seconds(s.work, Precision::bf16) / s.time - 1, 2);
    }
    return sum;
  };
  for (const double factor : {0.9, 0.999, 1.001, 1.1}) EXPECT_GT(error(factor), error(1));
  // The other rates explain more than these times: operations are free.
  fit_bf16_rate(samples_of(device(4e-6, kUnlimitedPerSecond, 4e10)), profile);
  EXPECT_EQ(profile.bf16_operations_per_s, kUnlimitedPerSecond);
  EXPECT_EQ(test::error_of([&] { fit_bf16_rate({}, profile); }, ExitCode::runtime),
            "calibration: found 0 samples, expected at least 3");
}

TEST(Calibrate, IsNearUnderNoiseAndReportsIt) {
  const DeviceProfile truth = device(5e-6, 6e10, 1e10);
  const auto samples = samples_of(truth, 0.02);
  const CalibrationFit fit = fit_device_profile(samples);
  EXPECT_NEAR(fit.profile.operations_per_s / truth.operations_per_s, 1, 0.1);
  EXPECT_NEAR(fit.profile.bytes_per_s / truth.bytes_per_s, 1, 0.2);
  EXPECT_NEAR(fit.profile.launch_overhead_s / truth.launch_overhead_s, 1, 0.1);
  // 16 draws of 2 %: the median is about 0.67 sigma, the largest below 4 sigma, and neither is
  // nothing.
  EXPECT_GT(fit.median_error, 0.003);
  EXPECT_LT(fit.median_error, 0.03);
  EXPECT_GT(fit.max_error, fit.median_error);
  EXPECT_LT(fit.max_error, 0.08);
  ASSERT_EQ(fit.relative_error.size(), samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_DOUBLE_EQ(fit.relative_error[i],
                     fit.profile.seconds(samples[i].work) / samples[i].time - 1);
  }
}

TEST(Calibrate, TheFitIsTheNonNegativeOptimum) {
  // No other non-negative coefficients nearby do better, whichever of them are 0.
  const std::vector<DeviceProfile> truths{device(5e-6, 6e10, 1e10), device(0, 6e10, 1e10),
                                          device(5e-6, 1e18, 1e10), device(0, 6e10, 1e18)};
  for (const DeviceProfile& truth : truths) {
    const auto samples = samples_of(truth, 0.05);
    const auto error = [&](const DeviceProfile& profile) {
      double sum = 0;
      for (const auto& s : samples) sum += std::pow(profile.seconds(s.work) / s.time - 1, 2);
      return sum;
    };
    const DeviceProfile best = fit_device_profile(samples).profile;
    const double least = error(best);
    for (const double a : {0.0, 0.9, 0.99, 1.0, 1.01, 1.1}) {
      for (const double b : {0.9, 0.99, 1.0, 1.01, 1.1}) {
        for (const double c : {0.9, 0.99, 1.0, 1.01, 1.1}) {
          for (const double add : {0.0, 1e-8}) {
            const DeviceProfile other = device(best.launch_overhead_s * a + add,
                                               best.operations_per_s * b, best.bytes_per_s * c);
            EXPECT_GE(error(other), least * (1 - 1e-12));
          }
        }
      }
    }
  }
}

TEST(Calibrate, WhatIsNotNeededIsFree) {
  // Times that fall with the bytes at equal operations would need a negative coefficient.
  std::vector<CalibrationSample> samples;
  for (const double bytes : {1e6, 2e6, 4e6, 8e6}) {
    samples.push_back(
        {{.operations = 1e9, .bytes = bytes, .launches = 0}, Seconds(0.1 - bytes * 1e-9)});
  }
  const CalibrationFit fit = fit_device_profile(samples);
  EXPECT_EQ(fit.profile.bytes_per_s, kUnlimitedPerSecond);
  EXPECT_EQ(fit.profile.launch_overhead_s, 0.0);
  EXPECT_NEAR(fit.profile.operations_per_s, 1e10, 0.1e10);
}

TEST(Calibrate, ProportionalColumnsAreToldApartByNothing) {
  // Operations and bytes always in the same ratio: one of them explains all.
  std::vector<CalibrationSample> samples;
  for (const double n : {1e6, 3e6, 1e7}) {
    samples.push_back({{.operations = 2 * n, .bytes = n, .launches = 1}, Seconds(1e-5 + n * 1e-9)});
  }
  const CalibrationFit fit = fit_device_profile(samples);
  EXPECT_LT(fit.max_error, 1e-9);
  EXPECT_NEAR(fit.profile.launch_overhead_s, 1e-5, 1e-12);
}

TEST(Calibrate, RefusesUselessSamples) {
  const auto samples = samples_of(device(1e-6, 1e10, 1e10));
  const auto message = [](const std::vector<CalibrationSample>& bad) {
    return test::error_of([&] { fit_device_profile(bad); }, ExitCode::runtime);
  };
  EXPECT_EQ(message({samples[0], samples[1]}), "calibration: found 2 samples, expected at least 3");
  auto bad = samples;
  bad[3].time = Seconds(0);
  EXPECT_EQ(message(bad), "calibration: found a time of 0 s, expected one above 0");
  bad = samples;
  bad[3].time = Seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(message(bad), "calibration: found a time of nan s, expected one above 0");
  bad = samples;
  bad[0].work = {.operations = -1, .bytes = 2, .launches = 3};
  EXPECT_EQ(
      message(bad),
      "calibration: found work of 3 launches, -1 operations and 2 bytes, expected none below 0");
}

}  // namespace
}  // namespace hetsgd
