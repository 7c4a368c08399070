// Click data that a model can learn, in the columns of Criteo's files: `generate:criteo`,
// `criteo-terabyte`, and `ctr-tiny` for tests.
//
// Rows   : in the order of time; the first rows_train are the training part. Row i stands at day
//          t = days i / rows.
// Ids    : field f draws a popularity rank r from its law (data/ctr_laws.hpp), by rejection-inversion
//          (data/zipf.hpp). Groups of columns lack their values in the same rows.
// Drift  : in fields with at least 1,000 ids, the id behind rank r at day t is (r, generation), with
//          generation floor((t + phase_r) / drift_days) and phase_r uniform in [0, drift_days): each
//          place gets a new id once in drift_days, at a moment of its own. A law of limited ranks has
//          them divided by 1 + days / drift_days, so that as many ids occur. drift_days 0: none.
// Values : 32 bits of Philox(field, rank, generation), as a file has them.
// Labels : drawn from a teacher (data/ctr_teacher.hpp), of which `data info` prints what the best model
//          reaches.
// Every row is a pure function of (options, row): the same on any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/ctr_laws.hpp"
#include "data/ctr_teacher.hpp"
#include "data/fields.hpp"
#include "data/generator.hpp"
#include "data/value_table.hpp"
#include "data/zipf.hpp"

namespace hetsgd {

struct ClickOptions : GeneratedRows {
  std::string preset;
  double days = 7;         // of all rows together
  double drift_days = 14;  // until each id is another; 0: never
  double signal = 2.25;    // variance of the log odds
};

std::vector<std::string> click_preset_names();
// Whether `spec` is generate:PRESET?... of one of these presets.
bool is_click_spec(std::string_view spec);
// Keys: scale, seed, days, drift_days, signal. `spec`: is_click_spec(). Throws Error(usage) naming what
// is wrong.
ClickOptions parse_click_spec(std::string_view spec);
// Stands for the bytes that a file of this part would have.
std::uint64_t click_hash(const ClickOptions& options, DataPart part);

// What is in reach of any model, of one that is linear in the ids and dense features, and of one
// that knows all of the ids in a vocabulary and nothing of the others: it takes their a and v for 0,
// which is their mean. Nothing: the vocabulary is hashed, no id stands for itself.
struct ClickCeilings {
  Ceiling all, linear;
  std::optional<Ceiling> vocabulary;
};

// Who stands behind a popularity rank at a time. Rank 0: nobody, the value is missing.
struct ClickId {
  std::uint32_t rank = 0, generation = 0;
};

class ClickGenerator {
 public:
  // Draws the rows that the teacher is standardised on, on up to `threads` threads.
  explicit ClickGenerator(const ClickOptions& options, std::optional<int> threads = {});

  // What a thread keeps of ids that it has met: they come again.
  class Memory;

  struct Row {
    RawClick click;
    TeacherTerms terms;
    std::array<ClickId, kCriteoFields> id;
  };
  // Row i < rows(), counted from the first training row.
  Row row(std::uint64_t i, Memory& memory) const;

  // One part, on up to `threads` threads.
  RawClicks part(DataPart part, std::optional<int> threads) const;
  // Of the true log odds on the test part. `vocabulary`: of the training part (data/vocabulary.hpp).
  ClickCeilings ceilings(const CategoricalFields<View>& vocabulary,
                         std::optional<int> threads) const;

  const ClickOptions& options() const { return options_; }
  const ClickLaws& laws() const { return laws_; }
  const Teacher& teacher() const { return *teacher_; }
  // Whether ids of the field are replaced, and how many ranks its law has.
  bool drifts(std::size_t field) const;
  std::uint64_t ranks(std::size_t field) const;
  // Of `rank` of `field` at `day`.
  ClickId id_at(std::size_t field, std::uint32_t rank, double day) const;
  std::uint32_t value_of(std::size_t field, ClickId id) const;

 private:
  // All but the label, and the number that decides about it.
  Row draw(std::uint64_t i, Memory& memory, double& uniform) const;
  // The terms of a row that was drawn, of which `known[field]` has the values that count.
  TeacherTerms known_terms(std::uint64_t i, const Row& row, const std::vector<ValueTable>& known,
                           Memory& memory) const;
  double day_of(std::uint64_t i) const;
  double phase(std::size_t field, std::uint32_t rank) const;
  std::uint32_t generation(std::size_t field, std::uint32_t rank, double phase, double day) const;
  // Calls each(i, memory) for i < rows on several threads, each with a memory of its own.
  template <class Each>
  void for_rows(std::uint64_t rows, std::optional<int> threads, Each&& each) const;

  ClickOptions options_;
  ClickLaws laws_;
  std::vector<double> number_weights_;
  std::vector<ZipfLaw> law_;  // per field
  std::optional<Teacher> teacher_;
};

}  // namespace hetsgd
