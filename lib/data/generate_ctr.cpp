#include "data/generate_ctr.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "data/clicks.hpp"
#include "data/ctr_laws.hpp"
#include "data/parallel.hpp"
#include "data/vocabulary.hpp"

namespace hetsgd {

namespace {

constexpr std::uint64_t kOpenRanks = std::uint64_t{1} << 31;
constexpr std::uint64_t kDriftingIds = 1000;  // fields with fewer ids do not drift
constexpr std::uint64_t kChunkOfClicks = 4096;

// Draws the missing columns of a row: the columns of each group in `share` of all rows.
std::uint32_t draw_missing(const std::vector<MissingGroup>& groups, RandomStream& random) {
  std::uint32_t mask = 0;
  for (const MissingGroup& group : groups) {
    if (random.uniform() < group.share) mask |= group.columns;
  }
  return mask;
}

bool is_in(std::uint32_t mask, std::size_t column) { return (mask >> column & 1) != 0; }

// L and Q of a row, id by id. The sum over pairs v . v' is ((sum v)^2 - sum v^2) / 2.
class IdTerms {
 public:
  void add(const IdEffect& effect) {
    linear_ += effect.linear;
    for (std::size_t k = 0; k < kTeacherWidth; ++k) {
      const double v = effect.pair[k];
      sum_[k] += v;
      squares_[k] += v * v;
    }
  }
  void store(TeacherTerms& terms) const {
    terms.linear = linear_;
    terms.pairs = 0;
    for (std::size_t k = 0; k < kTeacherWidth; ++k) {
      terms.pairs += (sum_[k] * sum_[k] - squares_[k]) / 2;
    }
  }

 private:
  double linear_ = 0;
  std::array<double, kTeacherWidth> sum_{}, squares_{};
};

// The values of each field that have categories of their own.
std::vector<ValueTable> tables_of(const CategoricalFields<View>& vocabulary) {
  std::vector<ValueTable> tables;
  for (std::size_t field = 0; field < vocabulary.count(); ++field) {
    const Index first = vocabulary.first[field], end = vocabulary.first[field + 1];
    ValueTable& table = tables.emplace_back(end - first);
    for (Index row = first + kFirstCategory; row < end; ++row) {
      table.insert(vocabulary.value[row], row - first);
    }
  }
  return tables;
}

}  // namespace

bool ClickGenerator::drifts(std::size_t field) const {
  return options_.drift_days > 0 && laws_.fields[field].ids >= kDriftingIds;
}

std::uint64_t ClickGenerator::ranks(std::size_t field) const {
  const FieldLaw& law = laws_.fields[field];
  if (law.shift > 0) return kOpenRanks;
  if (!drifts(field)) return law.ids;
  const double kept = static_cast<double>(law.ids) / (1 + options_.days / options_.drift_days);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(kept)));
}

ClickGenerator::ClickGenerator(const ClickOptions& options, std::optional<int> threads)
    : options_(options),
      laws_(click_laws(options.preset)),
      number_weights_(number_weights(options.seed, laws_.numbers.size())) {
  for (std::size_t field = 0; field < laws_.fields.size(); ++field) {
    law_.emplace_back(ranks(field), laws_.fields[field].exponent, laws_.fields[field].shift);
  }
  std::vector<TeacherTerms> terms(std::min(kTeacherRows, options_.rows()));
  for_rows(terms.size(), threads, [&](std::uint64_t i, Memory& memory) {
    double uniform = 0;
    terms[i] = draw(i, memory, uniform).terms;
  });
  teacher_.emplace(terms, options_.signal, laws_.positives);
}

template <class Each>
void ClickGenerator::for_rows(std::uint64_t rows, std::optional<int> threads, Each&& each) const {
  parallel_rows(
      threads, rows, kChunkOfClicks, [this] { return Memory(*this); }, each);
}

double ClickGenerator::day_of(std::uint64_t i) const {
  return options_.days * static_cast<double>(i) / static_cast<double>(options_.rows());
}

double ClickGenerator::phase(std::size_t field, std::uint32_t rank) const {
  return options_.drift_days * RandomStream(options_.seed, Purpose::generator, rank,
                                            click_word(ClickStream::phase, field))
                                   .uniform();
}

std::uint32_t ClickGenerator::generation(std::size_t field, std::uint32_t rank, double phase,
                                         double day) const {
  if (rank == 0 || !drifts(field)) return 0;
  return static_cast<std::uint32_t>((day + phase) / options_.drift_days);
}

ClickId ClickGenerator::id_at(std::size_t field, std::uint32_t rank, double day) const {
  return {rank, generation(field, rank, phase(field, rank), day)};
}

std::uint32_t ClickGenerator::value_of(std::size_t field, ClickId id) const {
  return random_block(options_.seed, Purpose::generator, id.rank,
                      click_word(ClickStream::value, field, id.generation), 0)[0];
}

ClickGenerator::Row ClickGenerator::draw(std::uint64_t i, Memory& memory, double& uniform) const {
  RandomStream random(options_.seed, Purpose::generator, i, click_word(ClickStream::row));
  const double day = day_of(i);
  Row row;
  row.click.no_value = draw_missing(laws_.no_value, random);
  row.click.no_number = draw_missing(laws_.no_number, random);
  IdTerms ids;
  for (std::size_t field = 0; field < law_.size(); ++field) {
    // The rank is always drawn, so that a field's draws do not depend on missing values.
    auto rank = static_cast<std::uint32_t>(law_[field](random));
    if (is_in(row.click.no_value, field)) rank = 0;
    const KnownId& known = memory.find(field, rank, day);
    row.id[field] = {rank, known.generation};
    row.click.value[field] = known.value;
    ids.add(known.effect);
  }
  ids.store(row.terms);
  for (std::size_t column = 0; column < laws_.numbers.size(); ++column) {
    const NumberLaw& law = laws_.numbers[column];
    const double size = std::floor(std::exp(law.mean + law.deviation * random.normal())) - 1;
    if (is_in(row.click.no_number, column)) continue;
    row.click.number[column] = std::max(law.low, static_cast<std::int64_t>(size));
    row.terms.numbers +=
        number_weights_[column] * static_cast<double>(dense_feature(row.click.number[column]));
  }
  uniform = random.uniform();
  return row;
}

ClickGenerator::Row ClickGenerator::row(std::uint64_t i, Memory& memory) const {
  HETSGD_CHECK_LT(i, options_.rows());
  double uniform = 0;
  Row row = draw(i, memory, uniform);
  row.click.positive = uniform < sigmoid(teacher_->log_odds(row.terms));
  return row;
}

RawClicks ClickGenerator::part(DataPart part, std::optional<int> threads) const {
  const auto columns = static_cast<double>(laws_.numbers.size() + laws_.fields.size());
  // The parts of a row beside the columns: which values are missing, the label, and the place of
  // labels.
  const double of_row = sizeof(float) * columns + sizeof(std::uint32_t) + 1 + sizeof(std::uint64_t);
  require_memory(of_row * static_cast<double>(options_.rows_of(part)), options_.name, "the rows",
                 MemoryLimit::available, "use a smaller scale");
  RawClicks clicks(laws_.numbers.size(), laws_.fields.size());
  clicks.resize(options_.rows_of(part));
  const std::uint64_t first = part == DataPart::train ? 0 : options_.rows_train;
  for_rows(clicks.rows(), threads,
           [&](std::uint64_t i, Memory& memory) { clicks.set(i, row(first + i, memory).click); });
  return clicks;
}

TeacherTerms ClickGenerator::known_terms(std::uint64_t i, const Row& row,
                                         const std::vector<ValueTable>& known,
                                         Memory& memory) const {
  TeacherTerms terms = row.terms;
  IdTerms ids;
  for (std::size_t field = 0; field < law_.size(); ++field) {
    const std::uint32_t rank = row.id[field].rank;
    if (rank > 0 && known[field].find(row.click.value[field]) == 0) continue;
    ids.add(memory.find(field, rank, day_of(i)).effect);
  }
  ids.store(terms);
  return terms;
}

ClickCeilings ClickGenerator::ceilings(const CategoricalFields<View>& vocabulary,
                                       std::optional<int> threads) const {
  const bool hashed = vocabulary.value.empty();
  const auto known = hashed ? std::vector<ValueTable>() : tables_of(vocabulary);
  std::vector<double> full(options_.rows_test), without_pairs(full.size()), of_known(full.size());
  std::vector<std::uint8_t> positive(options_.rows_test);
  for_rows(options_.rows_test, threads, [&](std::uint64_t i, Memory& memory) {
    const std::uint64_t number = options_.rows_train + i;
    const Row drawn = row(number, memory);
    full[i] = teacher_->log_odds(drawn.terms);
    without_pairs[i] = teacher_->log_odds_without_pairs(drawn.terms);
    if (!hashed) of_known[i] = teacher_->log_odds(known_terms(number, drawn, known, memory));
    positive[i] = drawn.click.positive ? 1 : 0;
  });
  ClickCeilings ceilings{ceiling_of(full, positive), ceiling_of(without_pairs, positive), {}};
  if (!hashed) ceilings.vocabulary = ceiling_of(of_known, positive);
  return ceilings;
}

// --- specifications ------------------------------------------------------------------------------

namespace {

struct ClickPreset {
  std::string_view name;
  std::uint64_t rows_train, rows_test;
  double days;
};

constexpr std::uint64_t kKaggleRows = 45'840'617, kKaggleTestRows = 6'548'660;  // the last seventh
constexpr std::array<ClickPreset, 3> kClickPresets = {
    {{"criteo", kKaggleRows - kKaggleTestRows, kKaggleTestRows, 7},
     {"criteo-terabyte", 4'195'197'692, 89'137'319, 24},
     {"ctr-tiny", 20'000, 5'000, 7}}};

constexpr double kMostDays = 3650, kShortestDrift = 0.1;  // at most 2^16 generations

const ClickPreset* find_click_preset(std::string_view name) {
  const auto* const at = std::ranges::find(kClickPresets, name, &ClickPreset::name);
  return at == kClickPresets.end() ? nullptr : at;
}

// Rows of both parts, in the preset's proportion.
void scale_rows(ClickOptions& options, const ClickPreset& preset, double scale) {
  const auto all = static_cast<double>(preset.rows_train + preset.rows_test);
  const auto rows = static_cast<std::uint64_t>(std::max(2.0, std::round(all * scale)));
  const double share = static_cast<double>(preset.rows_test) / all;
  options.rows_test =
      static_cast<std::uint64_t>(std::max(1.0, std::round(share * static_cast<double>(rows))));
  options.rows_train = rows - options.rows_test;
}

}  // namespace

std::vector<std::string> click_preset_names() {
  std::vector<std::string> names;
  for (const ClickPreset& preset : kClickPresets) names.emplace_back(preset.name);
  return names;
}

bool is_click_spec(std::string_view spec) {
  return is_generator_spec(spec) && find_click_preset(generator_parts(spec).preset) != nullptr;
}

ClickOptions parse_click_spec(std::string_view spec) {
  HETSGD_CHECK(is_click_spec(spec));
  const GeneratorParts parts = generator_parts(spec);
  const ClickPreset& preset = *find_click_preset(parts.preset);
  ClickOptions options;
  options.preset = preset.name;
  options.name = parts.name;
  options.days = preset.days;
  double scale = 1;
  OptionSet set;
  set.add("scale", scale, "").range(1e-9, 50);
  set.add("seed", options.seed, "");
  set.add("days", options.days, "").range(1e-3, kMostDays);
  set.add("drift_days", options.drift_days, "").range(0, 1e6);
  set.add("signal", options.signal, "").range(0, 100);
  read_settings(spec, set, "scale=0.1&seed=1");
  if (options.drift_days > 0 && options.drift_days < kShortestDrift) {
    refuse(fmt::format("{}: drift_days", spec), fmt::format("{}", options.drift_days),
           fmt::format("0, which keeps ids, or at least {}", kShortestDrift));
  }
  scale_rows(options, preset, scale);
  if (static_cast<double>(options.rows()) > kMostGeneratedRows) {
    refuse(fmt::format("{}: scale", spec), fmt::format("{} ({} rows)", scale, options.rows()),
           fmt::format("at most {} rows", kMostGeneratedRows));
  }
  return options;
}

std::uint64_t click_hash(const ClickOptions& o, DataPart part) {
  constexpr int kVersion = 1;  // raise it when the bytes change
  return generated_hash(part, kVersion, o.preset, o.rows_train, o.rows_test, o.days, o.drift_days,
                        o.signal, o.seed);
}

ParsedData generate_clicks(const std::string& spec, const LoadOptions& options) {
  const ClickGenerator generator(parse_click_spec(spec), options.threads);
  RawClicks clicks = generator.part(options.part, options.threads);
  ParsedData parsed;
  if (options.part == DataPart::train || options.vocabulary_of) {
    parsed = with_vocabulary(std::move(clicks), spec, options);
  } else {
    Vocabulary vocabulary = make_vocabulary(generator.part(DataPart::train, options.threads), {},
                                            options.vocabulary, options.threads, spec);
    parsed = with_vocabulary(std::move(clicks), view_of(vocabulary.fields), options);
    parsed.report.distinct_values = std::move(vocabulary.distinct);
  }
  parsed.data.name = generator.options().name;
  parsed.data.content_hash = click_hash(generator.options(), options.part);
  parsed.report.format = DataFormat::generated;
  return parsed;
}

}  // namespace hetsgd
