#include "algorithm/parts/sampled_recall.hpp"

#include <iterator>
#include <nlohmann/json.hpp>

namespace hetsgd {

nlohmann::json recall_event(std::uint64_t samples, std::size_t labels, const ProbedRecall& probed,
                            const Retrieval& learnt) {
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  const auto all = static_cast<double>(labels);
  nlohmann::json recall = nlohmann::json::array();
  for (std::size_t c = 0; c < std::size(ProbedRecall::kBest); ++c) {
    recall.push_back(ratio(probed.found[c], probed.best[c]));
  }
  return {{"type", "recall"},
          {"samples", samples},
          {"probed", probed.samples},
          {"k", ProbedRecall::kBest},
          {"recall", recall},
          {"random", ratio(probed.retrieved, probed.samples) / all},
          {"retrieved", ratio(probed.retrieved, probed.samples)},
          {"train_recall", ratio(learnt.found, learnt.labels)},
          {"train_random", ratio(learnt.retrieved, learnt.samples) / all},
          {"train_retrieved", ratio(learnt.retrieved, learnt.samples)},
          {"train_entries", ratio(learnt.probed, learnt.samples)},
          {"train_blind", learnt.blind}};
}

}  // namespace hetsgd
