#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace hetsgd {
namespace {

// Of the budget that will end first; 0 without a budget.
double share_done(const Progress& p) {
  const double samples =
      p.max_samples ? static_cast<double>(p.samples_count) / static_cast<double>(p.max_samples) : 0;
  const double time = p.max_time.count() > 0 ? p.time / p.max_time : 0;
  return std::clamp(std::max(samples, time), 0.0, 1.0);
}

std::string bar_text(double share) {
  constexpr int kCells = 20;
  const int full = static_cast<int>(share * kCells);
  return fmt::format("[{:=<{}}{:{}}] ", "", full, "", kCells - full);
}

std::string metric_text(const CurvePoint& point) {
  for (const char* metric : {"p1", "accuracy"}) {
    if (const auto value = metric_of(point, metric))
      return fmt::format("  {} {:.4f}", metric, *value);
  }
  return fmt::format("  test_loss {:.4g}", point.test_loss);
}

}  // namespace

std::string progress_text(const Progress& p, bool bar) {
  const double share = share_done(p);
  std::string text = bar ? bar_text(share) : "";
  text += fmt::format("{:.0f}%", 100 * share);
  if (share > 0) {
    text += fmt::format("  ETA {}", format_seconds(Seconds(p.host_s * (1 - share) / share)));
  }
  text += fmt::format("  epoch {:.2f}  step {}  samples {}  loss {:.4g}", p.epoch_num, p.updates,
                      format_count(static_cast<double>(p.samples_count)), p.train_loss);
  if (p.last) text += metric_text(*p.last);
  if (p.host_s > 0) {
    text += fmt::format("  {} samples/s",
                        format_count(static_cast<double>(p.samples_count) / p.host_s));
  }
  if (p.slowest_rank != p.fastest_rank) {
    text += fmt::format("  slowest {} ({}/step)  fastest {} ({}/step)", p.slowest_rank,
                        format_seconds(Seconds(p.slowest_step_s)), p.fastest_rank,
                        format_seconds(Seconds(p.fastest_step_s)));
  }
  return text;
}

}  // namespace hetsgd
