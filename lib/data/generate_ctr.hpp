// Click data that a model can learn, in the columns of Criteo's files: `generate:criteo`,
// `criteo-terabyte`, and `ctr-tiny` for tests.
//
// Rows   : in the order of time; the first rows_train are the training part. Row i stands at day
//          t = days i / rows.
// Ids    : field f draws a popularity rank r from its law (data/ctr_laws.hpp), by
//          rejection-inversion (data/zipf.hpp). Groups of columns lack values in the same rows.
// Drift  : in fields with at least 1,000 ids, the id behind rank r at day t is (r, generation),
//          with generation floor((t + phase_r) / drift_days) and phase_r uniform in [0,
//          drift_days): each rank gets a new id once in drift_days, at a moment of its own. A law
//          with limited ranks has 1 / (1 + days / drift_days) of them, so that equally many ids
//          occur. drift_days 0: no drift.
// Values : 32 bits of Philox(field, rank, generation), as a file has them.
// Labels : drawn from a teacher (data/ctr_teacher.hpp); `data info` prints the quality that the
//          best model of them reaches.
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
  double drift_days = 14;  // time until every id is replaced; 0: never
  double signal = 2.25;    // variance of the log odds
};

std::vector<std::string> click_preset_names();
// Whether `spec` is generate:PRESET?... of one of these presets.
bool is_click_spec(std::string_view spec);
// Keys: scale, seed, days, drift_days, signal. `spec` must satisfy is_click_spec(). Throws
// Error(usage) naming what is wrong.
ClickOptions parse_click_spec(std::string_view spec);
// A hash in place of the hash of the bytes that a file of this part would have.
std::uint64_t click_hash(const ClickOptions& options, DataPart part);

// The best quality of any model, of one that is linear in the ids and dense features, and of one
// that knows only the ids in a vocabulary. The last one takes a and v of all other ids for 0, their
// mean. It is empty if the vocabulary is hashed, because no id then has a category of its own.
struct ClickCeilings {
  Ceiling all, linear;
  std::optional<Ceiling> vocabulary;
};

// The id behind a popularity rank at a time. Rank 0 means that the value is missing.
struct ClickId {
  std::uint32_t rank = 0, generation = 0;
};

class ClickGenerator {
 public:
  // Draws the rows that the teacher is standardised on, on up to `threads` threads.
  explicit ClickGenerator(const ClickOptions& options, std::optional<int> threads = {});

  // A thread's cache of the ids that it has met, since they come again.
  class Memory;

  struct Row {
    RawClick click;
    TeacherTerms terms;
    std::array<ClickId, kCriteoFields> id;
  };
  // Row i < rows(), counted from the first training row.
  Row row(std::uint64_t i, Memory& memory) const;

  // Generates one part, on up to `threads` threads.
  RawClicks part(DataPart part, std::optional<int> threads) const;
  // The ceilings of the true log odds on the test part, for a vocabulary of the training part
  // (data/vocabulary.hpp).
  ClickCeilings ceilings(const CategoricalFields<View>& vocabulary,
                         std::optional<int> threads) const;

  const ClickOptions& options() const { return options_; }
  const ClickLaws& laws() const { return laws_; }
  const Teacher& teacher() const { return *teacher_; }
  // Whether ids of the field are replaced, and how many ranks its law has.
  bool drifts(std::size_t field) const;
  std::uint64_t ranks(std::size_t field) const;
  // The id of `rank` of `field` at `day`.
  ClickId id_at(std::size_t field, std::uint32_t rank, double day) const;
  std::uint32_t value_of(std::size_t field, ClickId id) const;

 private:
  // Draws everything but the label, and the number that decides about it.
  Row draw(std::uint64_t i, Memory& memory, double& uniform) const;
  // The terms of a drawn row, counting only the values in `known[field]`.
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

// A cache of ids for each thread of the click generator. Nine of ten lookups go to a few thousand
// ids.

// An id and the values derived from it.
struct KnownId {
  std::uint32_t rank = 0, generation = 0;
  std::uint32_t field = 0xFFFFFFFFU;  // no field: the slot is empty
  std::uint32_t value = 0;            // 0 if the value is missing
  double phase = 0;                   // of the rank, in days
  IdEffect effect;
};

// A direct-mapped cache of 3 MiB. It makes an entry again that it has forgotten, so rows do not
// depend on it.
class ClickGenerator::Memory {
 public:
  explicit Memory(const ClickGenerator& generator) : generator_(generator), known_(kSlots) {}

  // The id behind `rank` at `day`. The reference is valid until the next call.
  const KnownId& find(std::size_t field, std::uint32_t rank, double day) {
    KnownId& known =
        known_[(rank * 0x9E3779B1U + static_cast<std::uint32_t>(field) * 0x85EBCA6BU) >>
               (32 - kSlotBits)];
    if (known.field != field || known.rank != rank) {
      known.field = static_cast<std::uint32_t>(field);
      known.rank = rank;
      known.phase = generator_.phase(field, rank);
      learn(known, generator_.generation(field, rank, known.phase, day));
    } else if (const auto now = generator_.generation(field, rank, known.phase, day);
               now != known.generation) {
      learn(known, now);
    }
    return known;
  }

 private:
  static constexpr unsigned kSlotBits = 16;
  static constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;

  void learn(KnownId& known, std::uint32_t generation) const {
    known.generation = generation;
    known.value = known.rank == 0 ? 0 : generator_.value_of(known.field, {known.rank, generation});
    known.effect = effect_of(generator_.options_.seed, known.field, known.rank, generation);
  }

  const ClickGenerator& generator_;
  std::vector<KnownId> known_;
};

// The part of generate:... that the options ask for, as a data set with a vocabulary. Without
// options.vocabulary_of, the test part also uses the vocabulary of the training part.
ParsedData generate_clicks(const std::string& spec, const LoadOptions& options);

}  // namespace hetsgd
