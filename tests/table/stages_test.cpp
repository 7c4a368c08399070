// The stages of a batch on several ranks, exchanges made by hand, against loops over one whole
// table.

#include "core/random.hpp"
#include "support/failure.hpp"
#include "support/small_tables.hpp"

namespace hetsgd::test {
namespace {

// The ranks of one process, which go through the stages together.
class Ranks {
 public:
  Ranks(TablePlan plan, int ranks)
      : device_(make_cpu_device<float>(2)), set_(std::move(plan), all(ranks), 1e12) {
    for (int rank = 0; rank < ranks; ++rank) {
      tables_.push_back(std::make_unique<TableStages>(set_.plan(), set_.shard(rank), *device_));
      lookups_.push_back(tables_.back()->make_lookup());
    }
  }

  void look_up(const std::vector<Batch>& batches) {
    each([&](TableStages& t, Lookup& l, std::size_t rank) { t.request(batches[rank], l); });
    exchange(&TableStages::exchange_counts);
    exchange(&TableStages::exchange_ids);
    each([&](TableStages& t, Lookup& l, std::size_t) { t.gather(l); });
    exchange(&TableStages::exchange_rows);
    each([&](TableStages& t, Lookup& l, std::size_t) { t.spread(l); });
  }
  void update(double learning_rate) {
    each([&](TableStages& t, Lookup& l, std::size_t) { t.sum(l); });
    exchange(&TableStages::exchange_sums);
    each([&](TableStages& t, Lookup& l, std::size_t) { t.update(l, learning_rate); });
  }
  Lookup& lookup(std::size_t rank) { return *lookups_[rank]; }
  const TableStages& tables(std::size_t rank) const { return *tables_[rank]; }
  std::size_t size() const { return tables_.size(); }
  Device& device() { return *device_; }
  std::vector<float> table() const { return read_all(set_); }
  std::uint64_t evicted() { return set_.shard(0).evicted() + set_.shard(1).evicted(); }

 private:
  static std::vector<int> all(int ranks) {
    std::vector<int> list(static_cast<std::size_t>(ranks));
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  template <class Fn>
  void each(const Fn& fn) {
    for (std::size_t rank = 0; rank < tables_.size(); ++rank) {
      fn(*tables_[rank], *lookups_[rank], rank);
    }
  }
  void exchange(CollectiveRequest (TableStages::*stage)(Lookup&) const) {
    std::vector<CollectiveRequest> requests;
    std::vector<const void*> parts;
    each([&](TableStages& t, Lookup& l, std::size_t) { requests.push_back((t.*stage)(l)); });
    for (std::size_t a = 0; a < requests.size(); ++a) {
      check_parts(requests[a].parts, static_cast<int>(a), static_cast<int>(requests.size()));
      for (std::size_t b = 0; b < a; ++b) {
        check_same_parts(static_cast<int>(a), requests[a].parts, static_cast<int>(b),
                         requests[b].parts);
      }
      parts.push_back(&requests[a].parts);
    }
    move_parts(parts, 0, parts.size());
  }

  std::unique_ptr<Device> device_;
  TableSet set_;
  std::vector<std::unique_ptr<TableStages>> tables_;
  std::vector<std::unique_ptr<Lookup>> lookups_;
};

// Batches of kSamples, kSamples - 3, ... samples, one of each rank.
std::vector<Batch> batches_of(const Dataset& data, std::size_t ranks, Index first) {
  std::vector<Batch> batches;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<Index> rows(kSamples - 3 * rank);
    std::iota(rows.begin(), rows.end(), first);
    first += static_cast<Index>(rows.size());
    batches.emplace_back(data, rows);
  }
  return batches;
}

// The definition, on one table: every rank's sum over its lookups in their order, times its share;
// then the ranks in order; then the rule.
class OneTable {
 public:
  explicit OneTable(std::vector<float> table, OptimizerKind kind)
      : table_(std::move(table)), state_(2, std::vector<float>(table_.size())) {
    options_.kind = kind;
  }

  void expect_embedded(const Batch& batch, const Embedded& embedded) const {
    const Dataset& data = batch.data();
    const float* x = embedded.x.data();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (const float dense : data.dense.row(batch.rows()[i])) ASSERT_EQ(*x++, dense);
      float own = 0;
      for (const Index row : data.fields.row(batch.rows()[i])) {
        for (std::size_t k = 0; k < kEmbedding; ++k) ASSERT_EQ(*x++, table_[row * kWidth + k]);
        own += table_[row * kWidth + kEmbedding];
      }
      ASSERT_EQ(embedded.u.data()[i], own);
    }
  }

  void update(const std::vector<Batch>& batches, Ranks& ranks, double learning_rate) {
    std::size_t samples = 0;
    for (const Batch& batch : batches) samples += batch.size();
    std::vector<float> total(table_.size());
    std::vector<bool> touched(table_.size() / kWidth);
    for (std::size_t rank = 0; rank < batches.size(); ++rank) {
      const auto share = static_cast<float>(static_cast<double>(batches[rank].size()) /
                                            static_cast<double>(samples));
      std::vector<float> sum = sums(batches[rank], ranks.lookup(rank).gradient, touched);
      for (float& g : sum) g *= share;  // a loop of its own: rounded before it is added
      for (std::size_t j = 0; j < total.size(); ++j) total[j] += sum[j];
    }
    ++updates_;
    for (std::size_t row = 0; row < touched.size(); ++row) {
      if (!touched[row]) continue;
      for (std::size_t j = row * kWidth; j < (row + 1) * kWidth; ++j) {
        std::visit([&](const auto& rule) { step(rule, total[j], j); },
                   row_rule(options_, learning_rate, updates_));
      }
    }
  }

  const std::vector<float>& table() const { return table_; }

 private:
  static std::vector<float> sums(const Batch& batch, const Embedded& gradient,
                                 std::vector<bool>& touched) {
    std::vector<float> sum(touched.size() * kWidth);
    const std::size_t width = kDense + kFields * kEmbedding;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto categories = batch.data().fields.row(batch.rows()[i]);
      for (std::size_t f = 0; f < kFields; ++f) {
        float* const to = sum.data() + categories[f] * kWidth;
        const float* const from = gradient.x.data() + i * width + kDense + f * kEmbedding;
        for (std::size_t k = 0; k < kEmbedding; ++k) to[k] += from[k];
        to[kEmbedding] += gradient.u.data()[i];
        touched[categories[f]] = true;
      }
    }
    return sum;
  }
  void step(const rule::FusedAddScaled<float>& rule, float g, std::size_t j) { rule(g, table_[j]); }
  void step(const rule::AdaGradStep<float>& rule, float g, std::size_t j) {
    rule(g, state_[0][j], table_[j]);
  }
  void step(const rule::LazyMomentStep<float>& rule, float g, std::size_t j) {
    rule(g, state_[0][j], state_[1][j], table_[j]);
  }

  std::vector<float> table_;
  std::vector<std::vector<float>> state_;
  OptimizerOptions options_;
  std::uint64_t updates_ = 0;
};

// Some gradient, another one in every round.
void fill_gradients(Ranks& ranks, const std::vector<Batch>& batches, std::uint64_t round) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Embedded& gradient = ranks.lookup(rank).gradient;
    gradient.reset(ranks.device(), batches[rank].size(), kDense + kFields * kEmbedding);
    RandomStream random(round, Purpose::test, rank);
    for (float& g : gradient.x.span()) g = static_cast<float>(random.normal());
    for (float& g : gradient.u.span()) g = static_cast<float>(random.normal());
  }
}

void expect_one_table(const TablePlan& plan, OptimizerKind kind) {
  const DatasetPtr data = clicks();
  Ranks ranks(plan, plan.placement.ranks());
  OneTable expected(ranks.table(), kind);
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto batches = batches_of(*data, ranks.size(), static_cast<Index>(round * 2 * kSamples));
    ranks.look_up(batches);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      expected.expect_embedded(batches[rank], ranks.lookup(rank).embedded);
    }
    fill_gradients(ranks, batches, round);
    ranks.update(0.1);
    expected.update(batches, ranks, 0.1);
    ASSERT_EQ(ranks.table(), expected.table()) << "round " << round;
  }
}

// To the bit, over several updates: what is looked up, and the table afterwards.
TEST(Tables, EveryLayoutDoesWhatOneTableDoes) {
  for (const auto& [sharding, count] :
       {std::pair("row", 1), std::pair("row", 3), std::pair("table", 3), std::pair("auto", 3),
        std::pair("column:2", 4), std::pair("column:4", 4)}) {
    for (const bool dedup : {true, false}) {
      for (const OptimizerKind kind :
           {OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::adam}) {
        SCOPED_TRACE(fmt::format("{} x {}, dedup {}, rule {}", sharding, count, dedup,
                                 static_cast<int>(kind)));
        expect_one_table(plan_of(sharding, count, dedup, kind), kind);
      }
    }
  }
}

// A batch of b samples with 3 fields has 3 b lookups; 65 rows are all that there are.
TEST(Tables, DeduplicationAsksOnceForARow) {
  const DatasetPtr data = clicks();
  for (const bool dedup : {true, false}) {
    Ranks ranks(plan_of("row", 2, dedup, OptimizerKind::sgd), 2);
    const auto batches = batches_of(*data, 2, 0);
    ranks.look_up(batches);
    const std::size_t asked = ranks.lookup(0).asked() + ranks.lookup(1).asked();
    const std::size_t entries = ranks.lookup(0).entries() + ranks.lookup(1).entries();
    EXPECT_EQ(asked, entries);
    EXPECT_EQ(ranks.lookup(0).lookups(), 3 * batches[0].size());
    if (dedup) {
      EXPECT_LE(ranks.lookup(0).entries(), 65U);
      EXPECT_LT(ranks.lookup(0).entries(), ranks.lookup(0).lookups());
    } else {
      EXPECT_EQ(ranks.lookup(0).entries(), ranks.lookup(0).lookups());
    }
    EXPECT_DOUBLE_EQ(ranks.lookup(0).share() + ranks.lookup(1).share(), 1);
  }
}

// Vectors that a lookup has spread stay as they are when the rows move; the next lookup sees the
// moves.
TEST(Tables, UpdatesShowInTheNextLookupAlone) {
  const DatasetPtr data = clicks();
  Ranks first(plan_of("row", 1, true, OptimizerKind::sgd), 1);
  const auto a = batches_of(*data, 1, 0), b = batches_of(*data, 1, 100);
  first.look_up(a);
  const std::vector<float> before(first.lookup(0).embedded.x.span().begin(),
                                  first.lookup(0).embedded.x.span().end());
  fill_gradients(first, a, 5);
  first.update(0.5);
  EXPECT_TRUE(std::ranges::equal(first.lookup(0).embedded.x.span(), before));
  first.look_up(a);
  EXPECT_FALSE(std::ranges::equal(first.lookup(0).embedded.x.span(), before));
}

// With room for every row, a capacity changes no bit. With less, rows come and go alike in all
// slices of a group, and a row that comes back begins anew.
TEST(Tables, RowsUnderACapacityBeginAnewWhenTheyComeBack) {
  const DatasetPtr data = clicks();
  for (const char* sharding : {"row", "column:2"}) {
    for (const bool dedup : {true, false}) {
      TablePlan plan = plan_of(sharding, 2, dedup, OptimizerKind::adagrad);
      const std::vector<float> initial = Ranks(plan, 2).table();
      Ranks all(plan, 2);
      plan.replacement.capacity = 65;
      Ranks enough(plan, 2);
      plan.replacement = {.capacity = 48, .evict = Evict::lru};
      Ranks few(plan, 2);
      for (std::uint64_t round = 0; round < 4; ++round) {
        // 20 samples look up some 34 of the 65 rows.
        std::vector<Batch> batches;
        for (Index rank = 0; rank < 2; ++rank) {
          std::vector<Index> rows(10);
          std::iota(rows.begin(), rows.end(), static_cast<Index>(20 * round + 10 * rank));
          batches.emplace_back(*data, rows);
        }
        for (Ranks* ranks : {&all, &enough, &few}) {
          ranks->look_up(batches);
          fill_gradients(*ranks, batches, round);
          ranks->update(0.1);
        }
        EXPECT_EQ(all.table(), enough.table());
      }
      const std::vector<float> table = few.table(), full = all.table();
      std::size_t gone = 0, kept = 0;
      for (std::size_t row = 0; row < 65; ++row) {
        const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
          return std::equal(a.begin() + static_cast<std::ptrdiff_t>(row * kWidth),
                            a.begin() + static_cast<std::ptrdiff_t>((row + 1) * kWidth),
                            b.begin() + static_cast<std::ptrdiff_t>(row * kWidth));
        };
        if (same(full, initial)) continue;  // nobody looked it up
        ++(same(table, initial) ? gone : kept);
      }
      EXPECT_GT(few.evicted(), 0U) << sharding << ", dedup " << dedup;
      EXPECT_GT(gone, 0U);
      EXPECT_GT(kept, 20U);
    }
  }
}

TEST(Tables, ShardsThatDoNotFitNameOptionAndBytes) {
  const std::vector<int> here = {0, 1};
  EXPECT_THAT(
      usage_error_of([&] { TableSet(plan_of("row", 2, true, OptimizerKind::adam), here, 1000); }),
      testing::StartsWith("--tables: found sharded with 65 rows of 17 elements"));
}

// 65 rows of 17 numbers, stored as 20: with adam's two vectors of state 65 * 20 * 3 * 4 bytes.
TEST(Tables, BytesAreThoseOfWholeQuadsTimesTheStateVectors) {
  const TablePlan plan = plan_of("row", 2, true, OptimizerKind::adam);
  EXPECT_EQ(plan.bytes(0) + plan.bytes(1), 65 * 20 * 3 * 4.0);
  EXPECT_EQ(plan_of("row", 1, true, OptimizerKind::sgd).bytes(0), 65 * 20 * 4.0);
}

}  // namespace
}  // namespace hetsgd::test
