// Synthetic text whose entropy is known: `generate:language?vocabulary=32&steps=64&copy=0.8`.
//
// Law    : token x_0 is uniform. With a = x_(t-1), the chain M[a, pi_a(r)] ~ (r + 1)^-zipf has a
//          permutation pi_a = Permutation(vocabulary, seed, generator, a) of its own for each token
//          a. Let c be the token that followed the latest earlier a in this row. If there is one,
//          p(x_t) = copy [x_t = c] + (1 - copy) M[a, x_t], else p(x_t) = M[a, x_t].
// Models : a table of pairs of tokens learns the chain. Only a model that looks back in its row
//          finds the copies. language_bounds() says how far each of them gets.
// Rows   : steps inputs and as many targets. With lengths=lognormal a row has round(x) inputs
//          instead, x ~ lognormal(ln median, sigma), cut to 1 .. steps.
// Every row is a pure function of (options, part, row): the same tokens for any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/generator.hpp"
#include "data/zipf.hpp"

namespace hetsgd {

enum class LanguageLengths { fixed, lognormal };

struct LanguageOptions : GeneratedRows {
  LanguageOptions() : GeneratedRows{"language", 20000, 2000} {}

  Index vocabulary = 32;
  std::uint64_t steps = 64;        // inputs of a row; lognormal: of the longest row
  double copy = 0.8, zipf = 1;     // a share and an exponent
  double median = 25, sigma = .6;  // lognormal: of the lengths, in inputs
  LanguageLengths lengths = LanguageLengths::fixed;
};

inline constexpr std::string_view kLanguagePreset = "language";

// Throws Error(usage) naming what is wrong.
LanguageOptions parse_language_spec(std::string_view spec);
inline bool is_language_spec(std::string_view path) {
  return is_generator_spec(path) && generator_parts(path).preset == kLanguagePreset;
}

// The number of inputs of a row, known without making its tokens.
std::uint64_t language_length(const LanguageOptions& options, DataPart part, std::uint64_t row);

// Draws rows. Its methods are const and thread-safe; each thread has a Memory of its own.
class LanguageGenerator {
 public:
  explicit LanguageGenerator(const LanguageOptions& options);

  // The tokens that followed each token in the row that is drawn.
  class Memory {
   public:
    explicit Memory(Index vocabulary) : last_(vocabulary) {}

   private:
    friend class LanguageGenerator;
    struct Followed {
      std::uint64_t row = 0;  // number of the draw; others are of earlier rows
      Index by = 0, rank = 0;
    };
    std::vector<Followed> last_;
    std::uint64_t draws_ = 0;
  };
  Memory memory() const { return Memory(options_.vocabulary); }

  // to[inputs + 1] <- the row's tokens; the last one is only a target. If `probability` is not
  // empty, its [inputs] elements become those of the law for the row's targets.
  void draw(DataPart part, std::uint64_t row, std::span<std::uint16_t> to, Memory& memory,
            std::span<double> probability = {}) const;

  const LanguageOptions& options() const { return options_; }

 private:
  LanguageOptions options_;
  ZipfSampler rank_;
  std::vector<Permutation> follower_;  // pi_a
  std::vector<double> share_;          // [vocabulary] of rank r in the chain
};

// Losses in nats per target that no model goes below.
struct LanguageBounds {
  double truth = 0;               // the mean of -ln p over the test part
  std::array<double, 3> context;  // models that see 0, 1, 2 tokens of context
};

inline constexpr std::uint64_t kBoundTokens = 4'000'000;

// The bounds of context are the conditional entropies of kBoundTokens drawn targets, in sample.
// Works on `threads` threads (none: all cores).
LanguageBounds language_bounds(const LanguageOptions& options, std::optional<int> threads = {});

// Generates one part, on `threads` threads (none: all cores).
ParsedData generate_language(const LanguageOptions& options, DataPart part,
                             std::optional<int> threads = {});

}  // namespace hetsgd
