#include "training/target.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "model/metric.hpp"

namespace hetsgd {
namespace {

// More than half of kHoldEvaluations.
constexpr std::ptrdiff_t kEnoughReaching = kHoldEvaluations / 2 + 1;

}  // namespace

std::string Target::text() const {
  return fmt::format("{}{}{}", metric, at_least ? ">=" : "<=", value);
}

void check_value(const Target& target, const std::string& place) {
  if (!higher_is_better(target.metric) || (target.value >= 0 && target.value <= 1)) return;
  const bool percent = target.value > 1 && target.value <= 100;
  refuse(place, quote(target.text()), fmt::format("{} from 0 to 1", target.metric),
         percent ? fmt::format("shares, not percent: {:.6g}?", target.value / 100) : "");
}

Target parse_target(const std::string& text, const std::string& place) {
  const auto at = text.find_first_of("<>");
  if (at == std::string::npos || at + 1 >= text.size() || text[at + 1] != '=') {
    refuse(place, quote(text), "METRIC>=VALUE or METRIC<=VALUE",
           "quote it, because the shell redirects at > and <");
  }
  Target target;
  target.metric = std::string(trim(std::string_view(text).substr(0, at)));
  target.at_least = text[at] == '>';
  target.value = parse_double(place, trim(std::string_view(text).substr(at + 2)));
  for (const auto& name : metric_names()) {
    if (name != target.metric) continue;
    check_value(target, place);
    return target;
  }
  refuse(place, "the metric " + quote(target.metric),
         fmt::format("one of {}", fmt::join(metric_names(), ", ")),
         did_you_mean(target.metric, metric_names()));
}

bool reached(const Target& target, double value) {
  return target.at_least ? value >= target.value : value <= target.value;
}

Hold hold_of(const Target& target, std::span<const double> values) {
  Hold hold;
  for (std::size_t i = 0; i < values.size() && !hold.held; ++i) {
    if (!reached(target, values[i])) continue;
    if (!hold.first_crossing) hold.first_crossing = i;
    const auto window = values.subspan(i, std::min(kHoldEvaluations, values.size() - i));
    // The median reaches the target if more than half of the values do. With four values it is the
    // worse of the two in the middle.
    const auto reaching =
        std::ranges::count_if(window, [&](double value) { return reached(target, value); });
    if (window.size() >= kFewestHoldEvaluations && 2 * reaching > std::ssize(window)) {
      hold.held = i;
      hold.judged_by = window.size();
      hold.certain = reaching >= kEnoughReaching;
    }
  }
  return hold;
}

void HoldWatch::add(double value) {
  last_[next_] = reached(target_, value);
  next_ = (next_ + 1) % last_.size();
  held_ = held_ || std::ranges::count(last_, true) >= kEnoughReaching;
}

}  // namespace hetsgd
