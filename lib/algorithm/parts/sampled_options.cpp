#include "algorithm/parts/sampled_options.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

void SampledOptions::declare(OptionSet& set) {
  declare_active(set);
  set.add_choice("lazy", lazy,
                 {{"catch_up", Lazy::catch_up}, {"touched", Lazy::touched}, {"dense", Lazy::dense}},
                 "what adam does to rows without a gradient: moves them when they are next read, "
                 "nothing, moves them in every batch");
  set.add("probe", probe,
          "test samples whose best labels are looked for in the tables at every evaluation, off "
          "the clock")
      .unit("samples")
      .range(0, 1e6);
}

void SampledOptions::declare_active(OptionSet& set) {
  set.add_choice("active", active.all, {{"tables", false}, {"all", true}},
                 "labels that a sample scores: those that tables lead to, or all");
  set.add("active_min", active.least, "active labels of a sample at least, filled at random")
      .unit("labels")
      .range(0, 4e9);
  set.add_choice("fill", active.fill, {{"batch", LabelFill::batch}, {"sample", LabelFill::sample}},
                 "random labels are drawn once for a batch, or for each sample");
}

}  // namespace hetsgd
