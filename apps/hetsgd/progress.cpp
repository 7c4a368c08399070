#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace hetsgd {
namespace {

std::string bar_text(double share) {
  constexpr int kCells = 20;
  const int full = static_cast<int>(share * kCells);
  return fmt::format("[{:=<{}}{:{}}] ", "", full, "", kCells - full);
}

// The metric that says most.
std::string metric_text(const CurvePoint& point) {
  if (const auto value = accuracy_of(point)) {
    return fmt::format("  {} {:.4f}", point.metrics.front().metric->key(), *value);
  }
  return fmt::format("  {} {:.4g}", kTestLoss, point.test_loss());
}

}  // namespace

std::string progress_text(const Progress& p, bool bar) {
  const double share = p.share_done();
  std::string text = bar ? bar_text(share) : "";
  text += fmt::format("{:.0f}%", 100 * share);
  if (p.measuring_s > 0) text += "  measuring";
  if (const auto remaining = p.remaining()) {
    text += fmt::format("  ETA {}", format_seconds(*remaining));
  }
  text += fmt::format("  epoch {:.2f}  step {}  samples {}", p.epoch_num, p.updates,
                      format_count(static_cast<double>(p.samples_count)));
  if (p.samples_count > 0) text += fmt::format("  loss {:.4g}", p.train_loss);
  if (p.last) text += metric_text(*p.last);
  if (p.time.count() > 0) {
    text += fmt::format("  {} samples/s", format_count(p.samples_per_s()));
  }
  if (p.slowest_rank != p.fastest_rank) {
    text += fmt::format("  slowest {} ({}/step)  fastest {} ({}/step)", p.slowest_rank,
                        format_seconds(Seconds(p.slowest_step_s)), p.fastest_rank,
                        format_seconds(Seconds(p.fastest_step_s)));
  }
  return text;
}

}  // namespace hetsgd
