// Every Comm operation on every cluster, for many sizes and lengths, on inputs whose results have a
// closed form: rank r holds x_r[i] = 3 i + r.
#include "cluster/conformance.hpp"

#include <cstring>

#include "core/random.hpp"

namespace hetsgd::conformance {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 100, 10000};

template <class T>
std::vector<T> input(std::size_t n, int rank) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(3 * i + static_cast<std::size_t>(rank));
  return x;
}

// The reduction over p ranks of x_r[i], exactly.
template <class T>
T reduced(std::size_t i, int p, ReduceOp op) {
  const auto base = static_cast<std::int64_t>(3 * i);
  if (op == ReduceOp::min) return static_cast<T>(base);
  if (op == ReduceOp::max) return static_cast<T>(base + p - 1);
  return static_cast<T>(p * base + p * (p - 1) / 2);
}

template <class T>
std::vector<T> all_reduced(std::size_t n, int p, ReduceOp op) {
  std::vector<T> y(n);
  for (std::size_t i = 0; i < n; ++i) y[i] = reduced<T>(i, p, op);
  return y;
}

class CommOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(CommOn);

template <class T>
void check_reductions(Comm& comm) {
  const int p = comm.size();
  for (const std::size_t n : kCounts) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      const auto expected = all_reduced<T>(n, p, op);
      auto x = input<T>(n, comm.rank());
      comm.all_reduce(std::span(x), op);
      EXPECT_EQ(x, expected) << "all_reduce of " << n;

      auto y = input<T>(n, comm.rank());
      comm.reduce_scatter(std::span(y), op);
      const auto [begin, end] = comm.block_of(comm.rank(), n);
      EXPECT_TRUE(std::equal(y.begin() + static_cast<std::ptrdiff_t>(begin),
                             y.begin() + static_cast<std::ptrdiff_t>(end),
                             expected.begin() + static_cast<std::ptrdiff_t>(begin)))
          << "reduce_scatter of " << n;
    }
  }
}

TEST_P(CommOn, ReductionsOfEveryTypeAndOperation) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    check_reductions<float>(endpoint.comm());
    check_reductions<double>(endpoint.comm());
    check_reductions<std::int64_t>(endpoint.comm());
  });
}

// The same bits on every cluster: those of a sequential sum in rank order, on numbers whose sum
// depends on the order.
TEST_P(CommOn, FloatSumsHaveTheBitsOfRankOrder) {
  const int p = size();
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{100}, std::size_t{10000}, std::size_t{100003}}) {
    std::vector<std::vector<float>> x(static_cast<std::size_t>(p), std::vector<float>(n));
    for (std::size_t r = 0; r < x.size(); ++r) {
      RandomStream random(7, Purpose::test, r);
      for (float& value : x[r])
        value = static_cast<float>(random.normal() * std::exp(4 * random.normal()));
    }
    std::vector<float> expected = x[0];
    for (std::size_t r = 1; r < x.size(); ++r) {
      for (std::size_t i = 0; i < n; ++i) expected[i] = expected[i] + x[r][i];
    }
    auto scattered = x;
    run_on(cluster(), p, [&](Endpoint& endpoint) {
      const auto r = static_cast<std::size_t>(endpoint.rank());
      endpoint.comm().all_reduce(std::span(x[r]), ReduceOp::sum, Traffic::gradients);
      EXPECT_EQ(std::memcmp(x[r].data(), expected.data(), n * sizeof(float)), 0) << n << " numbers";
      endpoint.comm().reduce_scatter(std::span(scattered[r]));
      const auto [begin, end] = endpoint.comm().block_of(endpoint.rank(), n);
      EXPECT_EQ(std::memcmp(scattered[r].data() + begin, expected.data() + begin,
                            (end - begin) * sizeof(float)),
                0);
    });
  }
}

TEST_P(CommOn, BroadcastFromEveryRoot) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    for (const std::size_t n : kCounts) {
      for (int root = 0; root < endpoint.size(); ++root) {
        auto x = input<float>(n, endpoint.rank());
        endpoint.comm().broadcast(std::span(x), root, Traffic::parameters);
        EXPECT_EQ(x, input<float>(n, root));
      }
    }
  });
}

TEST_P(CommOn, AllGather) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    for (const std::size_t n : kCounts) {
      const auto mine = input<double>(n, endpoint.rank());
      std::vector<double> all(n * static_cast<std::size_t>(endpoint.size()), -1.0), expected;
      for (int r = 0; r < endpoint.size(); ++r) {
        const auto part = input<double>(n, r);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      endpoint.comm().all_gather(std::span<const double>(mine), std::span(all));
      EXPECT_EQ(all, expected);
    }
  });
}

TEST_P(CommOn, Agree) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    struct Part {
      int rank;
      double x;
    };
    const auto made = endpoint.comm().agree(Part{endpoint.rank(), 0.5 * endpoint.rank()},
                                            [](std::span<const Part> parts) {
                                              std::vector<double> sums;
                                              for (const Part& part : parts)
                                                sums.push_back(part.x + part.rank);
                                              return sums;
                                            });
    ASSERT_EQ(made->size(), static_cast<std::size_t>(endpoint.size()));
    for (int r = 0; r < endpoint.size(); ++r)
      EXPECT_EQ((*made)[static_cast<std::size_t>(r)], 1.5 * r);
  });
}

TEST_P(CommOn, BarrierIsPassedAfterAllHaveCome) {
  std::atomic<int> came = 0;
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    for (int round = 1; round <= 5; ++round) {
      endpoint.sleep(Seconds(1e-4 * endpoint.rank()));
      ++came;
      endpoint.comm().barrier();
      EXPECT_EQ(came, round * ranks_here(cluster(), endpoint.size()));
      endpoint.comm().barrier();
    }
  });
}

// Every length around the places where a message is cut: all ranks send before they receive.
TEST_P(CommOn, RingPass) {
  std::vector<std::size_t> lengths{0, 1, 100, 3999, 4000, 4001, 4016, 20384, 20385, 65536, 1000003};
  if (launched()) lengths.push_back(std::size_t{16} << 20);
  const auto content = [](std::size_t n, int rank) {
    std::vector<unsigned char> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<unsigned char>(i * 7 + i / 251 + static_cast<std::size_t>(rank));
    }
    return x;
  };
  run_on(cluster(), size(), [&](Endpoint& endpoint) {
    for (const std::size_t n : lengths) {
      const auto mine = content(n, endpoint.rank());
      std::vector<unsigned char> x(n);
      endpoint.comm().send(next_of(endpoint), 5, std::span(mine), Traffic::parameters);
      const Envelope envelope = endpoint.comm().receive(previous_of(endpoint), 5, std::span(x));
      EXPECT_TRUE(x == content(n, previous_of(endpoint))) << n << " bytes";
      EXPECT_EQ(envelope.source, previous_of(endpoint));
      EXPECT_EQ(envelope.bytes, n);
    }
  });
}

TEST_P(CommOn, AnySourceTakesEachMessageOnce) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    constexpr std::size_t kElements = 2000;
    if (endpoint.rank() != 0) {
      const auto mine = input<float>(kElements, endpoint.rank());
      return endpoint.comm().send(0, 3, std::span(mine));
    }
    std::vector<int> seen;
    for (int i = 1; i < endpoint.size(); ++i) {
      std::vector<float> x(kElements);
      const Envelope envelope = endpoint.comm().receive(kAnySource, 3, std::span(x));
      EXPECT_EQ(x, input<float>(kElements, envelope.source));
      seen.push_back(envelope.source);
    }
    std::ranges::sort(seen);
    std::vector<int> everybody(static_cast<std::size_t>(endpoint.size()) - 1);
    std::iota(everybody.begin(), everybody.end(), 1);
    EXPECT_EQ(seen, everybody);
  });
}

// One pair, one tag: in the order sent, small and large ones mixed; other tags overtake.
TEST_P(CommOn, MessagesKeepTheirOrderPerTag) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    const int next = next_of(endpoint), previous = previous_of(endpoint);
    const auto length = [](int i) { return std::size_t{1} + (i % 3 == 0 ? 5000U : 0U); };
    for (int i = 0; i < 50; ++i) {
      const std::vector<int> x(length(i), i);
      endpoint.comm().send(next, 1, std::span(x));
    }
    const int last = 99;
    endpoint.comm().send(next, 2, std::span(&last, 1));
    int got = 0;
    endpoint.comm().receive(previous, 2, std::span(&got, 1));
    EXPECT_EQ(got, last);
    for (int i = 0; i < 50; ++i) {
      std::vector<int> x(length(i));
      endpoint.comm().receive(i % 2 ? previous : kAnySource, 1, std::span(x));
      EXPECT_EQ(x, std::vector<int>(length(i), i));
    }
  });
}

TEST_P(CommOn, PollSeesWhatReceiveWouldTake) {
  if (size() == 1) GTEST_SKIP() << "needs two workers";
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    int go = 0;
    if (endpoint.rank() == 1) {
      endpoint.comm().receive(0, 9, std::span(&go, 1));
      const int x = 41;
      endpoint.comm().send(0, 8, std::span(&x, 1));
    } else if (endpoint.rank() == 0) {
      EXPECT_FALSE(endpoint.comm().poll(1, 8));
      endpoint.comm().send(1, 9, std::span<const int>(&go, 1));
      while (!endpoint.comm().poll(kAnySource, 8)) endpoint.sleep(Seconds(1e-4));
      EXPECT_TRUE(endpoint.comm().poll(1, 8));
      EXPECT_FALSE(endpoint.comm().poll(1, 9));
      int x = 0;
      endpoint.comm().receive(1, 8, std::span(&x, 1));
      EXPECT_EQ(x, 41);
      EXPECT_FALSE(endpoint.comm().poll(1, 8));
    }
  });
}

// Parity groups with reversed keys, then halves of each group, then one group without the first
// rank.
TEST_P(CommOn, SplitByColourAndKeyNested) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    const int p = endpoint.size(), r = endpoint.rank();
    const auto parity = endpoint.comm().split(r % 2, -r);
    const int members = (p + 1 - r % 2) / 2;
    ASSERT_EQ(parity->size(), members);
    EXPECT_EQ(parity->rank(), members - 1 - r / 2);
    std::int64_t sum = r;
    parity->all_reduce(std::span(&sum, 1));
    EXPECT_EQ(sum, members * (members - 1) + members * (r % 2));

    const auto half = parity->split(2 * parity->rank() < members ? 0 : 1, parity->rank());
    std::int64_t count = 1;
    half->all_reduce(std::span(&count, 1));
    EXPECT_EQ(count, half->size());
    EXPECT_EQ(half->size(), 2 * parity->rank() < members ? (members + 1) / 2 : members / 2);

    const auto rest = endpoint.comm().split(r == 0 ? -1 : 0, 7);  // equal keys: by the old ranks
    EXPECT_EQ(rest == nullptr, r == 0);
    if (rest) {
      int from_last = r;
      rest->broadcast(std::span(&from_last, 1), p - 2);
      EXPECT_EQ(from_last, p - 1);
      // The same tag in another group is another message.
      const int next = (rest->rank() + 1) % rest->size();
      rest->send(next, 5, std::span<const int>(&r, 1));
      int got = 0;
      rest->receive(kAnySource, 5, std::span(&got, 1));
      EXPECT_EQ(got, 1 + (rest->rank() + rest->size() - 1) % rest->size());
    }
    endpoint.comm().barrier();
  });
}

class CommErrorsOf : public ErrorsOfRanks {};
HETSGD_ON_EVERY_CLUSTER(CommErrorsOf);

TEST_P(CommErrorsOf, MismatchedCollectivesNameBothRanks) {
  for (const std::size_t n : {std::size_t{10}, std::size_t{100'000}}) {
    const auto lengths = failure<CheckFailure>([&](Endpoint& endpoint) {
      std::vector<float> x(endpoint.rank() == last_ ? 2 * n : n);
      endpoint.comm().all_reduce(std::span(x));
    });
    EXPECT_THAT(lengths, HasSubstr(fmt::format("rank {} calls all_reduce (sum) of {} float32",
                                               last_, 2 * n)));
    EXPECT_THAT(lengths, HasSubstr(fmt::format("calls all_reduce (sum) of {} float32", n)));
  }
  const auto kinds = failure<CheckFailure>([](Endpoint& endpoint) {
    float x = 0;
    if (endpoint.rank() == 0) return endpoint.comm().barrier();
    endpoint.comm().broadcast(std::span(&x, 1), 1);
    while (true) endpoint.comm().barrier();
  });
  EXPECT_THAT(kinds, HasSubstr("rank 0 calls barrier"));
  EXPECT_THAT(kinds, HasSubstr("calls broadcast from 1 of 4 bytes"));
}

TEST_P(CommErrorsOf, MessagesOfTheWrongSize) {
  for (const auto& [sent, expected] : {std::pair<std::size_t, std::size_t>{4, 5},
                                       {5, 4},
                                       {4, 500'000},
                                       {500'000, 4},
                                       {500'000, 400'000}}) {
    for (const int late : {0, 1}) {
      const auto text = failure<CheckFailure>([&, s = sent, e = expected](Endpoint& endpoint) {
        std::vector<std::byte> x(endpoint.rank() == 0 ? s : e);
        if (endpoint.rank() == late) endpoint.sleep(Seconds(1e-2));
        if (endpoint.rank() == 0) endpoint.comm().send(1, 7, std::span<const std::byte>(x));
        if (endpoint.rank() == 1) endpoint.comm().receive(0, 7, std::span(x));
        endpoint.comm().barrier();
      });
      EXPECT_THAT(text, HasSubstr("tag 7"));
      EXPECT_THAT(text, HasSubstr(fmt::format("{} bytes", sent)));
      EXPECT_THAT(text, HasSubstr(fmt::format("{} bytes", expected)));
    }
  }
}

}  // namespace
}  // namespace hetsgd::conformance
