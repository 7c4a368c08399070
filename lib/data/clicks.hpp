// From click data, as a text or the generator gives them, to a data set with a vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/fields.hpp"
#include "data/generate_ctr.hpp"
#include "data/load.hpp"

namespace hetsgd {

// The data set of the clicks, with the vocabulary of options.vocabulary_of. If that is null, the
// vocabulary is made from these rows without the held-out ones. `path` names them in messages.
// Throws Error(data).
ParsedData with_vocabulary(RawClicks&& clicks, const std::string& path, const LoadOptions& options);

// The part of generate:... (data/generate_ctr.hpp) that the options ask for. Without
// options.vocabulary_of, the test part also uses the vocabulary of the training part.
ParsedData generate_clicks(const std::string& spec, const LoadOptions& options);

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

}  // namespace hetsgd
