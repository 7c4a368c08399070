#include "data/generate_ctr.hpp"

#include "data/clicks.hpp"
#include "data/summary.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

ClickGenerator generator_of(const std::string& spec) {
  return ClickGenerator(parse_click_spec("generate:" + spec));
}

// (rank + shift)^-exponent over its sum, for the ranks 1 .. count.
std::vector<double> exact_law(std::uint64_t count, double exponent, double shift) {
  std::vector<double> share(count + 1);
  double total = 0;
  for (std::uint64_t r = 1; r <= count; ++r) {
    share[r] = std::pow(static_cast<double>(r) + shift, -exponent);
    total += share[r];
  }
  for (double& value : share) value /= total;
  return share;
}

// Pearson's sum over cells of at least `least` expected draws (neighbouring ranks are joined),
// minus its mean, over its standard deviation: about N(0, 1) if the draws follow the law.
double chi_square(const std::vector<std::uint64_t>& seen, const std::vector<double>& share,
                  double draws, double least = 20) {
  double sum = 0, cells = 0, expected = 0, found = 0;
  for (std::size_t r = 1; r < share.size(); ++r) {
    expected += draws * share[r];
    found += static_cast<double>(seen[r]);
    if (expected < least && r + 1 < share.size()) continue;
    sum += (found - expected) * (found - expected) / expected;
    cells += 1;
    expected = found = 0;
  }
  const double freedom = std::max(1.0, cells - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(ZipfLaw, HasTheExactProbabilities) {
  struct Case {
    std::uint64_t count;
    double exponent, shift;
  };
  for (const Case& c : {Case{1, 1.5, 0}, Case{2, 1.5, 0}, Case{3, 3.37, 0}, Case{10, 1.35, 0},
                        Case{583, .95, 0}, Case{2000, 1, 0}, Case{5683, .72, 0}, Case{305, 2.19, 0},
                        Case{10000, 1.076, 4}, Case{50000, 1.05, 8}}) {
    const ZipfLaw law(c.count, c.exponent, c.shift);
    RandomStream random(3, Purpose::test, c.count);
    constexpr std::uint64_t kDraws = 200'000;
    std::vector<std::uint64_t> seen(c.count + 1);
    for (std::uint64_t i = 0; i < kDraws; ++i) ++seen.at(law(random));
    EXPECT_EQ(seen[0], 0U);
    EXPECT_LT(chi_square(seen, exact_law(c.count, c.exponent, c.shift), kDraws), 4)
        << c.count << " " << c.exponent << " " << c.shift;
  }
}

// The share of the first ranks of an infinite law is compared with the same law of 2^31 ranks. The
// sum of the latter is that of the first 10^5 ranks and an integral (Euler and Maclaurin's first
// terms).
TEST(ZipfLaw, HasASupportOfTwoThousandMillions) {
  constexpr double kExponent = 1.076, kShift = 4, kCount = 0x1p31;
  constexpr int kSummed = 100'000;
  double sum = 0, first_hundred = 0;
  for (int r = 1; r <= kSummed; ++r) {
    sum += std::pow(r + kShift, -kExponent);
    if (r == 100) first_hundred = sum;
  }
  const auto tail = [&](double x) { return std::pow(x + kShift, 1 - kExponent) / (1 - kExponent); };
  const double share = first_hundred / (sum + tail(kCount + .5) - tail(kSummed + .5));
  const ZipfLaw law(std::uint64_t{1} << 31, kExponent, kShift);
  RandomStream random(4, Purpose::test);
  constexpr int kDraws = 200'000;
  int hits = 0;
  std::uint64_t largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t rank = law(random);
    hits += rank <= 100;
    largest = std::max(largest, rank);
  }
  EXPECT_NEAR(hits, kDraws * share, 4 * std::sqrt(kDraws * share * (1 - share)));
  EXPECT_GT(largest, std::uint64_t{1} << 28);
  EXPECT_LE(largest, std::uint64_t{1} << 31);
}

TEST(ClickSpec, ReadsPresetsAndSettings) {
  const ClickOptions kaggle = parse_click_spec("generate:criteo");
  EXPECT_EQ(kaggle.rows(), 45'840'617U);
  EXPECT_EQ(kaggle.rows_test, 6'548'660U);  // the last seventh
  const ClickOptions small =
      parse_click_spec("generate:criteo?scale=0.01&seed=4&days=3&drift_days=0");
  EXPECT_EQ(small.rows(), 458'406U);
  EXPECT_EQ(small.rows_test, 65'487U);
  EXPECT_EQ(small.seed, 4U);
  EXPECT_EQ(small.days, 3);
  EXPECT_EQ(small.drift_days, 0);
  EXPECT_EQ(small.signal, 2.25);
  EXPECT_EQ(small.name, "criteo?scale=0.01&seed=4&days=3&drift_days=0");
  const ClickOptions terabyte = parse_click_spec("generate:criteo-terabyte");
  EXPECT_EQ(terabyte.rows_test, 89'137'319U);
  EXPECT_EQ(terabyte.days, 24);
  EXPECT_EQ(parse_click_spec("generate:ctr-tiny").rows_train, 20'000U);
  EXPECT_FALSE(is_click_spec("generate:tiny"));
  EXPECT_FALSE(is_click_spec("criteo"));
}

TEST(ClickSpec, SaysWhatIsWrong) {
  const auto message = [](const char* spec) {
    return error_of([&] { parse_click_spec(spec); }, ExitCode::usage);
  };
  EXPECT_THAT(message("generate:criteo?rows=3"), HasSubstr("found key \"rows\", expected scale"));
  EXPECT_THAT(message("generate:criteo-terabyte?scale=2"), HasSubstr("expected at most"));
  EXPECT_THAT(message("generate:ctr-tiny?drift_days=0.01"),
              HasSubstr("expected 0, which keeps ids, or at least 0.1"));
}

TEST(ClickLaws, HaveTheFiguresOfTheDataSets) {
  const auto ids = [](const ClickLaws& laws) {
    std::uint64_t sum = 0;
    for (const FieldLaw& law : laws.fields) sum += law.ids;
    return sum;
  };
  EXPECT_EQ(ids(kaggle_laws()), 33'762'577U);
  EXPECT_EQ(ids(terabyte_laws()), 882'774'559U);
  EXPECT_EQ(kaggle_laws().fields.size(), kCriteoFields);
  EXPECT_EQ(kaggle_laws().numbers.size(), kCriteoDense);
}

// Without drift, popularity ranks are ids: each field's draws follow its law.
TEST(ClickGenerator, FieldsFollowTheirLaws) {
  const ClickGenerator generator = generator_of("ctr-tiny?drift_days=0");
  ClickGenerator::Memory memory(generator);
  for (std::size_t field = 0; field < generator.laws().fields.size(); ++field) {
    const FieldLaw& law = generator.laws().fields[field];
    std::vector<std::uint64_t> seen(law.ids + 1);
    for (std::uint64_t i = 0; i < generator.options().rows(); ++i) {
      ++seen.at(generator.row(i, memory).id[field].rank);
    }
    const double draws = static_cast<double>(generator.options().rows() - seen[0]);
    EXPECT_LT(chi_square(seen, exact_law(law.ids, law.exponent, law.shift), draws), 4) << field;
  }
}

struct Occurring {
  double ids = 0, draws = 0;
};

Occurring distinct_ids(const RawClicks& clicks, std::size_t field) {
  std::set<std::uint32_t> seen;
  Occurring result;
  for (std::size_t row = 0; row < clicks.rows(); ++row) {
    if (clicks.lacks(row, field)) continue;
    ++result.draws;
    seen.insert(clicks.value[row * kCriteoFields + field]);
  }
  result.ids = static_cast<double>(seen.size());
  return result;
}

// E[distinct] = sum over ranks of 1 - (1 - p)^N, with a variance below its mean.
// Distinct ids of `draws` draws in `days` days: a place with x expected draws shows its id with
// probability 1 - e^-x. With probability days / drift_days it changes its id, at a uniform moment,
// and shows 2 - 2 (1 - e^-x) / x ids on average. High ranks are grouped.
double expected_ids(const FieldLaw& law, double draws, double days, double drift_days) {
  const bool drifts = drift_days > 0 && law.ids >= 1000;
  double ranks = law.shift > 0 ? 0x1p31 : static_cast<double>(law.ids);
  if (drifts && law.shift == 0) ranks = std::round(ranks / (1 + 7 / drift_days));
  const double changing = drifts ? days / drift_days : 0;
  const auto sum = [&](auto&& each) {
    double total = 0;
    for (double r = 1, width = 1; r <= ranks; r += width) {
      width = std::min(r < 20'000 ? 1 : std::floor(r / 1000), ranks + 1 - r);
      total += width * each(std::pow(r + (width - 1) / 2 + law.shift, -law.exponent));
    }
    return total;
  };
  const double all = sum([](double weight) { return weight; });
  return sum([&](double weight) {
    const double x = draws * weight / all, once = -std::expm1(-x);
    return (1 - changing) * once + changing * (2 - 2 * (x > 1e-9 ? once / x : 1));
  });
}

// (a, q) fit the distinct counts of the real file: 45.8 M rows in 7 days give them, within 4 %.
TEST(ClickLaws, GiveTheDistinctCountsOfTheRealFile) {
  const ClickLaws laws = kaggle_laws();
  double sum = 0;
  for (std::size_t field = 0; field < laws.fields.size(); ++field) {
    double draws = 45'840'617;
    for (const MissingGroup& group : laws.no_value) {
      if (group.columns >> field & 1) draws *= 1 - group.share;
    }
    const double found = expected_ids(laws.fields[field], draws, 7, 14);
    const auto ids = static_cast<double>(laws.fields[field].ids);
    EXPECT_NEAR(found / ids, 1, .04) << "C" << field + 1;
    sum += found;
  }
  EXPECT_NEAR(sum / 33'762'577, 1, .015);
}

// The training part lasts 6 of the 7 days. Two values in 2^32 rarely collide.
TEST(ClickGenerator, AsManyIdsOccurAsTheLawsSay) {
  const std::vector<std::size_t> fixed = {0, 5, 6, 9, 12, 14, 19, 23},
                                 drifting = {2, 3, 6, 9, 15, 20, 23};
  for (const int drift_days : {0, 7}) {
    const ClickGenerator generator =
        generator_of(fmt::format("criteo?scale=0.002&drift_days={}", drift_days));
    const RawClicks clicks = generator.part(DataPart::train, {});
    for (const std::size_t field : drift_days == 0 ? fixed : drifting) {
      const auto [seen, draws] = distinct_ids(clicks, field);
      const double expected = expected_ids(generator.laws().fields[field], draws, 6, drift_days);
      EXPECT_NEAR(seen, expected, 4 * std::sqrt(expected) + (drift_days == 0 ? 1 : 2)) << field;
    }
  }
}

TEST(ClickGenerator, ColumnsLackTheirValuesTogether) {
  const ClickGenerator generator = generator_of("criteo?scale=0.0005");
  ClickGenerator::Memory memory(generator);
  const auto rows = static_cast<double>(generator.options().rows());
  std::array<double, kCriteoFields> no_value{};
  std::array<double, kCriteoDense> no_number{};
  for (std::uint64_t i = 0; i < generator.options().rows(); ++i) {
    const RawClick click = generator.row(i, memory).click;
    for (std::size_t f = 0; f < kCriteoFields; ++f) no_value[f] += click.no_value >> f & 1;
    for (std::size_t k = 0; k < kCriteoDense; ++k) no_number[k] += click.no_number >> k & 1;
    for (const auto& group : generator.laws().no_value) {
      const std::uint32_t lacks = click.no_value & group.columns;
      ASSERT_TRUE(lacks == 0 || lacks == group.columns);
    }
  }
  const auto near = [&](double count, double share) {
    EXPECT_NEAR(count, rows * share, 4 * std::sqrt(rows * share * (1 - share)));
  };
  using Shares = std::initializer_list<std::pair<std::size_t, double>>;
  for (const auto& [column, share] :  // C3 and C24, ...
       Shares{{2, .04}, {23, .04}, {5, .14}, {18, .43}, {25, .43}, {21, .77}, {0, 0}}) {
    near(no_value[column], share);
  }
  for (const auto& [column, share] :  // I1 and I10, ...
       Shares{{0, .45},
              {9, .45},
              {2, .20},
              {12, .20},
              {4, .03},
              {5, .24},
              {10, .05},
              {11, .77},
              {1, 0}}) {
    near(no_number[column], share);
  }
}

// P(number <= n) = Phi((log(n + 2) - m) / d), since floor(e^x) - 1 <= n where e^x < n + 2.
TEST(ClickGenerator, NumbersFollowTheirLaws) {
  const ClickGenerator generator = generator_of("criteo?scale=0.0005");
  ClickGenerator::Memory memory(generator);
  constexpr std::int64_t kLimits[] = {-1, 0, 1, 3, 10, 100, 1000};
  std::map<std::pair<std::size_t, std::int64_t>, double> below;
  std::array<double, kCriteoDense> rows{};
  for (std::uint64_t i = 0; i < generator.options().rows(); ++i) {
    const RawClick click = generator.row(i, memory).click;
    for (std::size_t k = 0; k < kCriteoDense; ++k) {
      if (click.no_number >> k & 1) continue;
      ++rows[k];
      EXPECT_GE(click.number[k], k == 1 ? -1 : 0);
      for (const std::int64_t limit : kLimits) below[{k, limit}] += click.number[k] <= limit;
    }
  }
  for (std::size_t k = 0; k < kCriteoDense; ++k) {
    const NumberLaw& law = generator.laws().numbers[k];
    for (const std::int64_t limit : kLimits) {
      if (limit < law.low) continue;
      const double at = (std::log(static_cast<double>(limit) + 2) - law.mean) / law.deviation;
      const double share = .5 * std::erfc(-at / std::sqrt(2.0));
      const double tolerance = 4.5 * std::sqrt(rows[k] * share * (1 - share)) + 1;
      EXPECT_NEAR((below[{k, limit}]), rows[k] * share, tolerance) << k << " " << limit;
    }
  }
}

// Each place changes its id once in drift_days, at a moment that is uniform over ranks. The value
// and effect of an id stay as long as the id does.
TEST(ClickGenerator, IdsDriftOnceInDriftDays) {
  const ClickGenerator generator = generator_of("ctr-tiny?drift_days=14");
  constexpr std::size_t kField = 5;
  ASSERT_TRUE(generator.drifts(kField));
  ASSERT_FALSE(generator.drifts(4));
  EXPECT_EQ(generator.ranks(kField), 1333U);  // 2000 / (1 + 7 / 14)
  EXPECT_EQ(generator.ranks(4), 600U);
  int changed_in_a_week = 0;
  constexpr int kRanks = 1333;
  for (std::uint32_t rank = 1; rank <= kRanks; ++rank) {
    const auto generation = [&](double day) {
      return generator.id_at(kField, rank, day).generation;
    };
    EXPECT_EQ(generator.id_at(kField, rank, 3).rank, rank);
    for (const double day : {0.0, 2.5, 6.9}) EXPECT_EQ(generation(day + 14), generation(day) + 1);
    changed_in_a_week += generation(7) != generation(0);
    EXPECT_NE(generator.value_of(kField, {rank, 0}), generator.value_of(kField, {rank, 1}));
    EXPECT_EQ(generator.id_at(4, rank, 100).generation, 0U);
  }
  EXPECT_NEAR(changed_in_a_week, kRanks / 2.0, 4 * std::sqrt(kRanks / 4.0));
}

TEST(ClickGenerator, ARowIsAPureFunctionOfItsNumber) {
  const ClickGenerator generator = generator_of("criteo?scale=0.0002&seed=5");
  const RawClicks test = generator.part(DataPart::test, 3);
  const RawClicks train = generator.part(DataPart::train, 1);
  const RawClicks again = generator.part(DataPart::train, 2);
  EXPECT_EQ(train.value, again.value);
  EXPECT_EQ(train.dense, again.dense);
  EXPECT_EQ(train.positive, again.positive);
  EXPECT_EQ(train.no_value, again.no_value);
  // Backwards, and with a memory that knows of nothing else.
  for (std::uint64_t i = test.rows(); i-- > test.rows() - 50;) {
    ClickGenerator::Memory memory(generator);
    const RawClick click = generator.row(train.rows() + i, memory).click;
    for (std::size_t f = 0; f < kCriteoFields; ++f) {
      EXPECT_EQ(click.value[f], test.value[i * kCriteoFields + f]);
    }
    EXPECT_EQ(click.positive, test.positive[i] != 0);
  }
}

TEST(ClickGenerator, TheTeacherIsStandardised) {
  const ClickGenerator generator = generator_of("criteo?scale=0.002");
  ClickGenerator::Memory memory(generator);
  ASSERT_GE(generator.options().rows(), kTeacherRows);
  const auto rows = static_cast<double>(kTeacherRows);
  TeacherTerms sum, squares;
  double chance = 0, positives = 0, variance = 0, z_sum = 0;
  for (std::uint64_t i = 0; i < kTeacherRows; ++i) {
    const ClickGenerator::Row row = generator.row(i, memory);
    const TeacherTerms s = generator.teacher().standardised(row.terms);
    for (const auto term : {&TeacherTerms::linear, &TeacherTerms::pairs, &TeacherTerms::numbers}) {
      sum.*term += s.*term;
      squares.*term += (s.*term) * (s.*term);
    }
    const double z = generator.teacher().log_odds(row.terms);
    z_sum += z;
    variance += z * z;
    chance += sigmoid(z);
    positives += row.click.positive;
    EXPECT_NEAR(z - generator.teacher().log_odds_without_pairs(row.terms),
                std::sqrt(2.25 * .40) * s.pairs, 1e-9);
  }
  for (const auto term : {&TeacherTerms::linear, &TeacherTerms::pairs, &TeacherTerms::numbers}) {
    EXPECT_NEAR(sum.*term / rows, 0, 1e-9);
    EXPECT_NEAR(squares.*term / rows, 1, 1e-9);
  }
  EXPECT_NEAR(chance / rows, .2562, 1e-9);
  EXPECT_NEAR(positives / rows, .2562, 4 * std::sqrt(.2562 * .7438 / rows));
  variance = variance / rows - (z_sum / rows) * (z_sum / rows);
  EXPECT_NEAR(variance, 2.25, .5);  // the parts are nearly independent
}

}  // namespace
}  // namespace hetsgd
