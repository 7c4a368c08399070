// Comm::all_to_all, the same on every cluster: sizes x lengths x elements.

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

// How many elements rank `from` of p sends to rank `to`.
using Lengths = std::function<std::size_t(int from, int to, int p)>;

// Lengths around three limits: that of a transfer by one process for all, that of data that travels
// with its length, and that of a message.
const std::map<std::string, Lengths>& shapes() {
  static const std::map<std::string, Lengths> all{
      {"nothing", [](int, int, int) { return 0U; }},
      {"one each", [](int, int, int) { return 1U; }},
      {"to the next alone", [](int from, int to, int p) { return to == (from + 1) % p ? 7U : 0U; }},
      {"from rank 0 alone", [](int from, int, int) { return from == 0 ? 600U : 0U; }},
      {"all different",
       [](int from, int to, int) { return static_cast<unsigned>(5 * from + 300 * to); }},
      {"short and long", [](int from, int to, int) { return (from + to) % 2 ? 3U : 20'000U; }},
  };
  return all;
}

// A number that no two elements of a call share.
std::uint32_t number(int from, int to, std::size_t i) {
  return static_cast<std::uint32_t>(from * 1'000'000 + to * 100'000) +
         static_cast<std::uint32_t>(i);
}
template <class T>
T element(int from, int to, std::size_t i) {
  return static_cast<T>(number(from, to, i));
}
struct Row {
  std::uint32_t number = 0;
  char more[8] = {};
  friend bool operator==(const Row&, const Row&) = default;
};
template <>
Row element<Row>(int from, int to, std::size_t i) {
  return {number(from, to, i), "of rows"};
}

template <class T>
void check(Comm& comm, const Lengths& lengths) {
  const int p = comm.size(), me = comm.rank();
  std::vector<T> send, expected;
  std::vector<std::size_t> send_counts, receive_counts;
  for (int r = 0; r < p; ++r) {
    send_counts.push_back(lengths(me, r, p));
    receive_counts.push_back(lengths(r, me, p));
    for (std::size_t i = 0; i < send_counts.back(); ++i) send.push_back(element<T>(me, r, i));
    for (std::size_t i = 0; i < receive_counts.back(); ++i) {
      expected.push_back(element<T>(r, me, i));
    }
  }
  std::vector<T> receive(expected.size());
  comm.all_to_all<T>(send, send_counts, receive, receive_counts);
  EXPECT_TRUE(receive == expected);
}

class AllToAllOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(AllToAllOn);

TEST_P(AllToAllOn, EveryPartArrivesWhereItIsExpected) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    for (const auto& [name, lengths] : shapes()) {
      SCOPED_TRACE(name);
      check<float>(endpoint.comm(), lengths);
      check<unsigned char>(endpoint.comm(), lengths);
      check<std::int64_t>(endpoint.comm(), lengths);
      check<Row>(endpoint.comm(), lengths);
    }
  });
}

TEST_P(AllToAllOn, InGroupsAndAmongOtherCalls) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    const auto half = endpoint.comm().split(endpoint.rank() % 2, -endpoint.rank());
    for (int i = 0; i < 10; ++i) {
      check<float>(*half, shapes().at("all different"));
      float x = 1;
      endpoint.comm().all_reduce(std::span(&x, 1));
      EXPECT_EQ(x, static_cast<float>(endpoint.size()));
      check<double>(endpoint.comm(), shapes().at("short and long"));
      endpoint.comm().barrier();
    }
  });
}

// A rank's part for itself is not sent.
TEST_P(AllToAllOn, CountsItsBytesEachWay) {
  const int p = size();
  const auto report = run_on(cluster(), p, [](Endpoint& endpoint) {
    const auto r = static_cast<std::size_t>(endpoint.rank()),
               all = static_cast<std::size_t>(endpoint.size());
    const std::vector<std::size_t> send_counts(all, r);  // r elements to each
    std::vector<std::size_t> receive_counts(all);
    for (std::size_t s = 0; s < all; ++s) receive_counts[s] = s;
    const std::vector<float> send(r * all);
    std::vector<float> receive(AllToAll::sum(receive_counts));
    endpoint.comm().all_to_all<float>(send, send_counts, receive, receive_counts,
                                      Traffic::parameters);
  });
  if (!is_here(cluster(), 0)) return;
  const auto kind = static_cast<std::size_t>(Traffic::parameters);
  for (int r = 0; r < p; ++r) {
    const TimeBreakdown& breakdown = report.workers[static_cast<std::size_t>(r)].breakdown;
    EXPECT_EQ(breakdown.bytes_sent[kind], static_cast<std::uint64_t>(4 * r * (p - 1)));
    EXPECT_EQ(breakdown.bytes_received[kind],
              static_cast<std::uint64_t>(4 * (p * (p - 1) / 2 - r)));
  }
}

// --- errors

class AllToAllErrorsOf : public ErrorsOfRanks {
 protected:
  // The failure of a call in which all send n elements to each, and the last rank expects another
  // number from rank 0.
  std::string differ(std::size_t expected_by_last, std::size_t n) const {
    return failure<CheckFailure>([&](Endpoint& endpoint) {
      std::vector<std::size_t> counts(static_cast<std::size_t>(size_), n), expected = counts;
      if (endpoint.rank() == last_) expected[0] = expected_by_last;
      const std::vector<float> send(AllToAll::sum(counts));
      std::vector<float> receive(AllToAll::sum(expected));
      endpoint.comm().all_to_all<float>(send, counts, receive, expected);
      endpoint.comm().barrier();
    });
  }
};
HETSGD_ON_EVERY_CLUSTER(AllToAllErrorsOf);

TEST_P(AllToAllErrorsOf, LengthsThatDifferAreFoundOut) {
  for (const std::size_t n : {10U, 50'000U}) {
    EXPECT_THAT(
        differ(n - 1, n),
        HasSubstr(fmt::format("ranks 0 and {} differ in an all_to_all: rank 0 sends {} bytes "
                              "to rank {}, which expects {}",
                              last_, 4 * n, last_, 4 * n - 4)));
  }
  EXPECT_THAT(differ(3, 0), HasSubstr("rank 0 sends 0 bytes"));
}

TEST_P(AllToAllErrorsOf, CountsMustDescribeTheVectors) {
  const auto ranks = static_cast<std::size_t>(size_);
  const auto text = [&](std::size_t counts, std::size_t elements) {
    return failure<CheckFailure>([=](Endpoint& endpoint) {
      const std::vector<float> send(elements);
      std::vector<float> receive(ranks);
      endpoint.comm().all_to_all<float>(send, std::vector<std::size_t>(counts, 1), receive,
                                        std::vector<std::size_t>(ranks, 1));
    });
  };
  EXPECT_THAT(text(ranks + 1, ranks + 1), HasSubstr(fmt::format("its {} counts", ranks + 1)));
  EXPECT_THAT(text(ranks, ranks + 2), HasSubstr(fmt::format("sends {} elements", ranks + 2)));
}

TEST_P(AllToAllErrorsOf, CallsThatDifferAreFoundOut) {
  const auto text = failure<CheckFailure>([](Endpoint& endpoint) {
    if (endpoint.rank() == 0) return check<double>(endpoint.comm(), shapes().at("one each"));
    check<float>(endpoint.comm(), shapes().at("one each"));
  });
  EXPECT_THAT(text, HasSubstr("all_to_all of elements of 8 bytes as control"));
}

}  // namespace
}  // namespace hetsgd::conformance
