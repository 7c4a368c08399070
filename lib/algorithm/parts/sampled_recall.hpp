// How well hash tables find labels (slide), as an event of the record.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "model/labels/label_tables.hpp"

namespace hetsgd {

// Where the tables lead on samples of a test set.
struct ProbedRecall {
  static constexpr std::size_t kBest[] = {1, 5, 10};
  std::uint64_t samples = 0;
  std::uint64_t retrieved = 0;
  std::uint64_t found[std::size(kBest)] = {};  // of the labels with the k highest scores, retrieved
  std::uint64_t best[std::size(kBest)] = {};   // and their number
};

// Event "recall": of the probed samples, for each k, the share of the best labels that the tables
// hold, beside that of as many labels by chance; and of training since the last one (`learnt`).
nlohmann::json recall_event(std::uint64_t samples, std::size_t labels, const ProbedRecall& probed,
                            const Retrieval& learnt);

}  // namespace hetsgd
