#include "data/generate_language.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "data/labels.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kLanguageChunk = 64;

// The mean of -ln(count of a context and a token / count of the context) over the drawn targets.
// `key` has one element per target: the context above the lowest 16 bits, which are the token. The
// elements are sorted.
double conditional_entropy(std::vector<std::uint64_t>& key) {
  std::sort(key.begin(), key.end());
  double sum = 0;
  for (std::size_t begin = 0; begin < key.size();) {
    const std::uint64_t context = key[begin] >> 16;
    std::size_t end = begin;
    double logs = 0;
    while (end < key.size() && key[end] >> 16 == context) {
      const std::size_t first = end;
      while (end < key.size() && key[end] == key[first]) ++end;
      const auto count = static_cast<double>(end - first);
      logs += count * std::log(count);
    }
    const auto count = static_cast<double>(end - begin);
    sum += count * std::log(count) - logs;
    begin = end;
  }
  return sum / static_cast<double>(key.size());
}

// The tokens of the first rows of the training part's law, enough for kBoundTokens targets.
std::vector<std::vector<std::uint16_t>> bound_rows(const LanguageGenerator& generator,
                                                   std::optional<int> threads) {
  std::vector<std::vector<std::uint16_t>> rows;
  for (std::uint64_t tokens = 0; tokens < kBoundTokens; tokens += rows.back().size() - 1) {
    rows.emplace_back(language_length(generator.options(), DataPart::train, rows.size()) + 1);
  }
  parallel_rows(
      threads, rows.size(), kLanguageChunk, [&] { return generator.memory(); },
      [&](std::uint64_t row, LanguageGenerator::Memory& memory) {
        generator.draw(DataPart::train, row, rows[row], memory);
      });
  return rows;
}

double context_entropy(const std::vector<std::vector<std::uint16_t>>& rows, std::size_t tokens) {
  std::vector<std::uint64_t> key;
  for (const std::vector<std::uint16_t>& row : rows) {
    for (std::size_t t = 1; t < row.size(); ++t) {
      // A context that begins before the row is another one than those inside: the guard bit.
      std::uint64_t seen = 1;
      for (std::size_t back = std::min(tokens, t); back > 0; --back) {
        seen = seen << 16 | row[t - back];
      }
      key.push_back(seen << 16 | row[t]);
    }
  }
  return conditional_entropy(key);
}

// The mean of -ln p over the test part. Sums of rows are added in the order of rows.
double true_loss(const LanguageGenerator& generator, std::optional<int> threads) {
  const LanguageOptions& options = generator.options();
  std::vector<double> loss(options.rows_test);
  std::vector<std::uint64_t> targets(options.rows_test);
  parallel_rows(
      threads, options.rows_test, kLanguageChunk, [&] { return generator.memory(); },
      [&](std::uint64_t row, LanguageGenerator::Memory& memory) {
        targets[row] = language_length(options, DataPart::test, row);
        std::vector<std::uint16_t> tokens(targets[row] + 1);
        std::vector<double> probability(targets[row]);
        generator.draw(DataPart::test, row, tokens, memory, probability);
        for (const double p : probability) loss[row] -= std::log(p);
      });
  return std::accumulate(loss.begin(), loss.end(), 0.0) /
         static_cast<double>(std::accumulate(targets.begin(), targets.end(), std::uint64_t{0}));
}

}  // namespace

LanguageOptions parse_language_spec(std::string_view spec) {
  LanguageOptions options;
  options.name = generator_parts(spec).name;
  OptionSet set;
  set.add("vocabulary", options.vocabulary, "").range(2, static_cast<double>(kMostTokenKinds));
  set.add("steps", options.steps, "").range(1, 1 << 20);
  set.add("copy", options.copy, "").range(0, 1);
  set.add("zipf", options.zipf, "").range(0, 10);
  set.add("rows_train", options.rows_train, "").range(1, kMostGeneratedRows);
  set.add("rows_test", options.rows_test, "").range(1, kMostGeneratedRows);
  set.add("seed", options.seed, "");
  set.add_choice("lengths", options.lengths,
                 {{"fixed", LanguageLengths::fixed}, {"lognormal", LanguageLengths::lognormal}},
                 "");
  set.add("median", options.median, "").range(1, 1 << 20);
  set.add("sigma", options.sigma, "").range(0, 10);
  read_settings(spec, set, "vocabulary=32&steps=64&copy=0.8");
  const LanguageOptions usual;
  if (options.lengths == LanguageLengths::fixed &&
      (options.median != usual.median || options.sigma != usual.sigma)) {
    refuse(fmt::format("{}: median and sigma", spec), "lengths=fixed",
           "lengths=lognormal, whose law they are");
  }
  return options;
}

std::uint64_t language_length(const LanguageOptions& options, DataPart part, std::uint64_t row) {
  if (options.lengths == LanguageLengths::fixed) return options.steps;
  RandomStream stream = row_stream(options, part, row, kLanguageLength);
  const double drawn = std::round(stream.lognormal(std::log(options.median), options.sigma));
  return static_cast<std::uint64_t>(std::clamp(drawn, 1.0, static_cast<double>(options.steps)));
}

LanguageGenerator::LanguageGenerator(const LanguageOptions& options)
    : options_(options),
      rank_(
          [&] {
            std::vector<Index> ranks(options.vocabulary);
            std::iota(ranks.begin(), ranks.end(), Index{0});
            return ranks;
          }(),
          options.zipf) {
  follower_.reserve(options.vocabulary);
  double total = 0;
  for (Index r = 0; r < options.vocabulary; ++r) {
    follower_.emplace_back(options.vocabulary, options.seed, Purpose::generator, r);
    total += share_.emplace_back(std::pow(static_cast<double>(r) + 1, -options.zipf));
  }
  for (double& share : share_) share /= total;
}

void LanguageGenerator::draw(DataPart part, std::uint64_t row, std::span<std::uint16_t> to,
                             Memory& memory, std::span<double> probability) const {
  RandomStream stream = row_stream(options_, part, row, kLanguageRow);
  ++memory.draws_;
  auto before = static_cast<std::uint16_t>(stream.below(options_.vocabulary));
  to[0] = before;
  for (std::size_t t = 1; t < to.size(); ++t) {
    Memory::Followed& last = memory.last_[before];
    const bool known = last.row == memory.draws_;
    const Index copied = last.by;
    if (!known || stream.uniform() >= options_.copy) {
      const std::uint32_t where = stream.next_u32();
      const Index rank = rank_(where, stream.next_u32());
      last = {memory.draws_, static_cast<Index>(follower_[before](rank)), rank};
    }
    if (!probability.empty()) {
      const double chain = share_[last.rank];
      probability[t - 1] =
          known ? (last.by == copied ? options_.copy : 0) + (1 - options_.copy) * chain : chain;
    }
    before = static_cast<std::uint16_t>(last.by);
    to[t] = before;
  }
}

LanguageBounds language_bounds(const LanguageOptions& options, std::optional<int> threads) {
  const LanguageGenerator generator(options);
  const std::vector<std::vector<std::uint16_t>> rows = bound_rows(generator, threads);
  LanguageBounds bounds{.truth = true_loss(generator, threads), .context = {}};
  parallel_tasks(threads, bounds.context.size(), [&](std::size_t tokens) {
    bounds.context[tokens] = context_entropy(rows, tokens);
  });
  return bounds;
}

ParsedData generate_language(const LanguageOptions& o, DataPart part, std::optional<int> threads) {
  constexpr int kVersion = 1;  // raise it when the tokens change
  const std::uint64_t rows = o.rows_of(part);
  constexpr double kPlaces = 2 * sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t);  // of a row
  const auto require = [&](double tokens) {
    require_memory(sizeof(std::uint16_t) * tokens + kPlaces * static_cast<double>(rows), o.name,
                   "the rows of tokens", MemoryLimit::available,
                   "use fewer rows_train or rows_test, or fewer steps");
  };
  require(static_cast<double>(rows));
  DatasetBuilder data;
  data.name = o.name;
  data.task = Task::tokens;
  data.label_count = o.vocabulary;
  data.content_hash =
      generated_hash(part, "language", kVersion, o.rows_train, o.rows_test, o.vocabulary, o.steps,
                     o.copy, o.zipf, static_cast<int>(o.lengths), o.median, o.sigma, o.seed);
  TokenRows<Owned>& tokens = data.tokens;
  tokens.vocabulary = o.vocabulary;
  std::uint64_t place = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    tokens.begin.push_back(place);
    tokens.length.push_back(static_cast<std::uint32_t>(language_length(o, part, row)));
    place += std::uint64_t{tokens.length.back()} + 1;
  }
  require(static_cast<double>(place));
  tokens.bytes.resize(rows);
  data.targets.begin.resize(rows + 1);
  tokens.token.resize(place);
  const LanguageGenerator generator(o);
  parallel_rows(
      threads, rows, kLanguageChunk, [&] { return generator.memory(); },
      [&](std::uint64_t row, LanguageGenerator::Memory& memory) {
        generator.draw(part, row,
                       {tokens.token.data() + tokens.begin[row], tokens.length[row] + 1U}, memory);
      });
  ParsedData parsed;
  parsed.report.label_names = numbered_labels(o.vocabulary);
  parsed.report.format = DataFormat::generated;
  parsed.data = std::move(data).build();
  return parsed;
}

}  // namespace hetsgd
