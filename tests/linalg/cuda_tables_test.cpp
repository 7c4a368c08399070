// Sharded embedding tables on a GPU have the bits of a CPU's kernels, row rules included, since
// every sum has one order.
#include <numeric>

#include "linalg/devices.hpp"
#include "linalg/field_rows.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/table_kernels.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaTables : public ::testing::Test {};
TYPED_TEST_SUITE(CudaTables, RealTypes);

// `calculate(side)` on a core and on the GPU, to the bit.
template <class Real, class Calculate>
void expect_same_bits(const Calculate& calculate) {
  const auto cpu = make_cpu_device<Real>(1);
  Side<Real> expected{*cpu}, actual{gpu<Real>()};
  calculate(expected);
  calculate(actual);
  EXPECT_TRUE(same_bits(actual.results, expected.results));
}

// A shard with two vectors of state, of which a rule may use fewer.
template <class Real>
struct TestShard {
  TestShard(Side<Real>& side, std::size_t rows, std::size_t width, std::size_t stride)
      : w(side.put(random_vector<float>(rows * stride, 1))),
        first(side.put(positive(rows * stride, 2))),
        second(side.put(positive(rows * stride, 3))) {
    view.w = w.data();
    view.state[0] = first.data();
    view.state[1] = second.data();
    view.width = width;
    view.stride = stride;
    view.rows = rows;
  }
  static std::vector<float> positive(std::size_t n, std::uint64_t seed) {
    std::vector<float> x = random_vector<float>(n, seed);
    for (float& each : x) each = std::abs(each);
    return x;
  }
  void take(Side<Real>& side) const {
    for (const auto* part : {&w, &first, &second}) side.take(*part);
  }

  BasicBuffer<Real> w, first, second;
  ShardRows<Real> view;
};

// Entries of a batch: categories in the order in which they first occur, or one entry per lookup.
struct Entries {
  Entries(const RandomFields& fields, bool dedup) {
    const FieldShape& s = fields.shape;
    entry.resize(s.rows * s.fields);
    for (std::size_t f = 0; f < s.fields; ++f) {
      std::vector<std::size_t> slot(fields.categories(), fields.categories());
      for (std::size_t r = 0; r < s.rows; ++r) {
        std::size_t& mine = slot[fields.category_at(r, f)];
        if (!dedup || mine == fields.categories()) mine = count++;
        entry[r * s.fields + f] = static_cast<std::uint32_t>(mine);
      }
    }
  }
  std::vector<std::uint32_t> entry;
  std::size_t count = 0;
};

TYPED_TEST(CudaTables, SpreadAndSumAsOnACore) {
  for (const FieldShape& s : kFieldShapes) {
    for (const bool dedup : {true, false}) {
      SCOPED_TRACE(::testing::Message()
                   << s.rows << " rows of " << s.fields << " fields, dedup " << dedup);
      const RandomFields fields(s, 1);
      const Entries entries(fields, dedup);
      const TableShape table{s.embedding, s.extra};
      const std::size_t numbers = s.rows * (s.columns + s.fields * s.embedding);
      expect_same_bits<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        auto& tables = kernels<BasicTableKernels<Real>>(side.device);
        FieldRows<Real> X = fields.template view<Real>();
        X.fields = X.categories = 0;  // entries take their place
        X = side.device.stage(X);
        X.fields = s.fields;
        auto rows = side.put(random_vector<float>(entries.count * table.row(), 2));
        auto Y = side.put(std::vector<float>(numbers)), u = side.put(std::vector<float>(s.rows));
        tables.spread(X, table, entries.entry.data(), rows.data(), Y.data(), u.data());
        side.take(Y);
        side.take(u);
        auto D = side.put(random_vector<float>(numbers, 3));
        auto d = side.put(random_vector<float>(s.rows, 4));
        for (const Real scale : {Real(1), Real(0.3)}) {
          tables.sum(X, table, entries.entry.data(), entries.count, scale, D.data(), d.data(),
                     rows.data());
          side.take(rows);
        }
      });
    }
  }
}

// Rows of odd width, and of whole packs.
TYPED_TEST(CudaTables, RowsComeAndGoAsOnACore) {
  constexpr std::size_t kRows = 50, kStride = 20;
  const std::vector<std::uint32_t> some = {3, 49, 0, 7, 3, 3, 21};
  for (const std::size_t width : {std::size_t{17}, std::size_t{16}}) {
    expect_same_bits<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& tables = kernels<BasicTableKernels<Real>>(side.device);
      const TestShard<Real> shard(side, kRows, width, kStride);
      const std::vector<float> random = random_vector<float>(3 * width, 5);
      const std::vector<Real> values(random.begin(), random.end());
      tables.put(shard.view, 3, some.data(), values.data());
      shard.take(side);
      auto out = side.put(std::vector<float>(some.size() * width));
      tables.gather(shard.view, some.size(), some.data(), out.data());
      side.take(out);
      auto part = side.put(std::vector<float>(some.size() * 9));
      tables.copy_columns(some.size(), 8, out.data() + 4, width, part.data(), 9);
      tables.copy_columns(0, 8, out.data(), width, part.data(), 9);
      side.take(part);
    });
  }
}

template <class Real>
std::vector<RowRule<Real>> row_rules() {
  const rule::Moments<Real> moments{.beta1 = Real(0.9),
                                    .beta2 = Real(0.999),
                                    .fresh1 = Real(0.1),
                                    .fresh2 = Real(0.001),
                                    .first = Real(1.7),
                                    .second = Real(31),
                                    .epsilon = Real(1e-8)};
  return {rule::FusedAddScaled<Real>{Real(-0.1)},
          rule::AdaGradStep<Real>{.step = Real(0.1), .epsilon = Real(1e-8)},
          rule::LazyMomentStep<Real>{moments, Real(0.01)}};
}

// Parts of three ranks. With a scale rows repeat in a part, row 5 more often than a warp has lanes.
TYPED_TEST(CudaTables, RowRulesAsOnACore) {
  constexpr std::size_t kRows = 40, kWidth = 17, kStride = 20;
  struct Parts {
    std::vector<std::size_t> count;
    bool distinct;
  };
  for (const Parts& each : {Parts{{30}, true},
                            {{20, 0, 35}, true},
                            {{100, 3, 60}, false},
                            {{70}, false},
                            {{0}, true}}) {
    std::vector<std::uint32_t> row;
    RandomStream random(11, Purpose::test);
    for (const std::size_t count : each.count) {
      std::vector<std::uint32_t> part(kRows);
      std::iota(part.begin(), part.end(), 0U);
      for (std::size_t i = kRows; i > 1; --i) std::swap(part[i - 1], part[random.below(i)]);
      while (part.size() < count) part.push_back(part.size() % 2 == 0 ? 5 : part[part.size() % 9]);
      row.insert(row.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    }
    expect_same_bits<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& tables = kernels<BasicTableKernels<Real>>(side.device);
      for (const RowRule<Real>& rule : row_rules<Real>()) {
        const TestShard<Real> shard(side, kRows, kWidth, kStride);
        auto value = side.put(random_vector<float>(row.size() * kWidth, 6));
        const std::vector<Real> scale = {Real(0.3), Real(0.1), Real(0.6)};
        const RowParts<Real> parts{.parts = each.count.size(),
                                   .count = each.count.data(),
                                   .row = row.data(),
                                   .value = value.data(),
                                   .scale = each.distinct ? nullptr : scale.data()};
        for (int round = 0; round < 3; ++round) tables.update(shard.view, parts, rule);
        shard.take(side);
      }
    });
  }
}

// A shard whose rows from number kSplit on lie in host memory.
template <class Real>
struct TieredShard {
  static constexpr std::size_t kRows = 40, kSplit = 15, kWidth = 17, kStride = 20;

  explicit TieredShard(Side<Real>& side) : device(side, kRows, kWidth, kStride) {
    view = device.view;
    view.on_device = kSplit;
    view.host_w = put_on_host(side, view.w);
    for (std::size_t s = 0; s < 2; ++s) view.host_state[s] = put_on_host(side, view.state[s]);
  }

  TestShard<Real> device;
  std::vector<BasicHostBlock<Real>> host;
  ShardRows<Real> view;

 private:
  Real* put_on_host(Side<Real>& side, const Real* vector) {
    constexpr std::size_t kNumbers = (kRows - kSplit) * kStride;
    Real* const block = host.emplace_back(side.device, kNumbers).data();
    EXPECT_TRUE(side.device.host_accessible(block));
    side.device.download(block, vector + kSplit * kStride, kNumbers * sizeof(Real));
    return block;
  }
};

// A row may occur in several parts of an update.
TYPED_TEST(CudaTables, ATierInHostMemoryChangesNoBit) {
  using Real = TypeParam;
  using Tiered = TieredShard<Real>;
  constexpr std::size_t kRows = Tiered::kRows, kWidth = Tiered::kWidth;
  auto& device = gpu<Real>();
  auto& tables = kernels<BasicTableKernels<Real>>(device);
  Side<Real> side{device};
  std::vector<std::uint32_t> row(kRows);
  std::iota(row.begin(), row.end(), 0U);
  const std::vector<std::uint32_t> twice = {39, 15, 3, 20, 39, 15}, two = {4, 30};
  const std::vector<Real> fresh(2 * kWidth, Real(0.5));
  auto value = side.put(random_vector<float>(kRows * kWidth, 6));
  auto out = side.put(std::vector<float>(kRows * kWidth));
  const auto work_on = [&](const ShardRows<Real>& shard) {
    tables.put(shard, two.size(), two.data(), fresh.data());
    for (const RowRule<Real>& rule : row_rules<Real>()) {
      const auto update = [&](const std::vector<std::size_t>& parts, const std::uint32_t* rows) {
        tables.update(
            shard,
            {.parts = parts.size(), .count = parts.data(), .row = rows, .value = value.data()},
            rule);
      };
      update({kRows}, row.data());
      update({4, 2}, twice.data());
      update({Tiered::kSplit}, row.data());
    }
    tables.gather(shard, kRows, row.data(), out.data());
    side.take(out);
  };
  const TestShard<Real> whole(side, kRows, kWidth, Tiered::kStride);
  work_on(whole.view);
  const Tiered tiered(side);
  work_on(tiered.view);
  EXPECT_EQ(side.results[0], side.results[1]);
}

}  // namespace
}  // namespace hetsgd::test
