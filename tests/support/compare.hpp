// Comparing runs of training: to a tolerance, and to the bit.
#pragma once

#include "support/effort.hpp"
#include "support/run.hpp"

namespace hetsgd::test {

// Losses in float32, another order of summation: a few ulp per step, growing with the steps.
// Relative tolerance.
inline void expect_close(const std::vector<double>& a, const std::vector<double>& b,
                         double tolerance, std::size_t least = 20) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GE(a.size(), least);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], tolerance * std::abs(a[i])) << "loss " << i;
  }
}

// The curves of two runs that measure at the same numbers of samples. Relative tolerance.
inline void expect_close_curves(const Record& a, const Record& b, double tolerance,
                                std::size_t least = 3) {
  ASSERT_EQ(a.curve.size(), b.curve.size());
  ASSERT_GE(a.curve.size(), least);
  for (std::size_t i = 0; i < a.curve.size(); ++i) {
    EXPECT_EQ(a.curve[i].samples_count, b.curve[i].samples_count) << "point " << i;
    EXPECT_NEAR(a.curve[i].test_loss(), b.curve[i].test_loss(), tolerance * a.curve[i].test_loss())
        << "point " << i;
  }
}

// A GPU beside a CPU, whose order of summation is another: losses of all steps, and the curves.
inline void expect_alike(const Record& cpu, const Record& gpu) {
  constexpr double kTolerance = 1e-4;
  expect_close(step_losses(cpu), step_losses(gpu), kTolerance, 2);
  expect_close_curves(cpu, gpu, kTolerance, 1);
}

inline void expect_same_bits(const Record& a, const Record& b) {
  EXPECT_EQ(step_losses(a), step_losses(b));
  ASSERT_EQ(a.curve.size(), b.curve.size());
  for (std::size_t i = 0; i < a.curve.size(); ++i) {
    EXPECT_EQ(a.curve[i].samples_count, b.curve[i].samples_count) << "point " << i;
    EXPECT_EQ(a.curve[i].test_loss(), b.curve[i].test_loss()) << "point " << i;
    EXPECT_EQ(metric_of(a.curve[i], "p1"), metric_of(b.curve[i], "p1")) << "point " << i;
  }
}

// Runs `settings`, which have max_samples, on both clusters with 1, 2, 3, 4 and 8 workers. All end
// with finite losses and have learnt (generate:tiny starts below 0.1).
inline void expect_learns_everywhere(Settings settings, double p1 = 0.3) {
  for (auto& [key, value] : settings) {
    if (key == "max_samples") value = learning_samples(std::stoi(value));
  }
  for (const std::string& cluster : learning_clusters()) {
    for (const std::string& workers : learning_sizes()) {
      SCOPED_TRACE(cluster + ", " + workers + " workers");
      const Record run = run_with(settings, {{"cluster", cluster}, {"workers", workers}});
      for (const CurvePoint& point : run.curve) EXPECT_TRUE(std::isfinite(point.test_loss()));
      EXPECT_LT(metric_of(run.curve.front(), "p1").value(), 0.1);
      if (kSanitized) continue;
      EXPECT_GT(metric_of(run.curve.back(), "p1").value(), p1);
      for (const WorkerRecord& worker : run.workers) EXPECT_GT(worker.updates, 0U);
    }
  }
}

}  // namespace hetsgd::test
