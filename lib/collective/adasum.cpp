#include "collective/adasum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "collective/combine.hpp"
#include "collective/message_collectives.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace {

// The device for vectors in host memory. With one core any number of threads may use it at once.
Device& host_device() {
  static const auto device = make_cpu_device<float>(1);
  return *device;
}

// fn(t, offset, count) for the part of each tensor t that lies in [begin, begin + size); offsets
// count from begin.
template <class Fn>
void for_each_part(TensorBounds bounds, std::size_t begin, std::size_t size, Fn&& fn) {
  const std::size_t end = begin + size;
  const auto after = std::upper_bound(bounds.begin(), bounds.end(), begin);
  for (auto t = static_cast<std::size_t>(after - bounds.begin()) - 1;
       t + 1 < bounds.size() && bounds[t] < end; ++t) {
    const std::size_t from = std::max(begin, bounds[t]), to = std::min(end, bounds[t + 1]);
    if (from < to) fn(t, from - begin, to - from);
  }
}

void check_bounds(TensorBounds bounds) {
  HETSGD_CHECK(!bounds.empty());
  HETSGD_CHECK_EQ(bounds.front(), 0U);
  HETSGD_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
}

}  // namespace

AdasumFactors adasum_factors(const Products& products) {
  static const double kSmallest = std::sqrt(std::numeric_limits<double>::min());
  const auto factor = [&](double squared_norm) {
    return squared_norm < kSmallest ? 1.0 : 1.0 - products.xy / (2 * squared_norm);
  };
  return {factor(products.xx), factor(products.yy)};
}

void adasum(TensorBounds bounds, std::span<const float> a, std::span<const float> b,
            std::span<float> y) {
  check_bounds(bounds);
  HETSGD_CHECK_EQ(a.size(), bounds.back());
  HETSGD_CHECK_EQ(b.size(), bounds.back());
  HETSGD_CHECK_EQ(y.size(), bounds.back());
  Device& device = host_device();
  for_each_part(bounds, 0, y.size(), [&](std::size_t, std::size_t from, std::size_t n) {
    const float *part_a = a.data() + from, *part_b = b.data() + from;
    const AdasumFactors factors = adasum_factors(device.products(n, part_a, part_b));
    device.apply(n, rule::Combine<float>{factors.a, factors.b}, part_a, part_b, y.data() + from);
  });
}

std::vector<float> adasum_of(std::span<const std::vector<float>> vectors, TensorBounds bounds,
                             AdasumShape shape) {
  HETSGD_CHECK(!vectors.empty());
  std::vector<std::vector<float>> g(vectors.begin(), vectors.end());
  const auto merge = [&](std::size_t a, std::size_t b) { adasum(bounds, g[a], g[b], g[a]); };
  if (shape == AdasumShape::linear) {
    for (std::size_t i = 1; i < g.size(); ++i) merge(0, i);
    return g.front();
  }
  const std::size_t folds = g.size() - std::bit_floor(g.size());
  for (std::size_t i = 0; i < folds; ++i) {
    merge(i, i + 1);
    g.erase(g.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  for (std::size_t distance = 1; distance < g.size(); distance *= 2) {
    for (std::size_t i = 0; i < g.size(); i += 2 * distance) merge(i, i + distance);
  }
  return g.front();
}

std::vector<double> squared_norms(Device& device, TensorBounds bounds, std::span<const float> x) {
  check_bounds(bounds);
  std::vector<double> norms(bounds.size() - 1);
  for_each_part(bounds, 0, x.size(), [&](std::size_t t, std::size_t from, std::size_t n) {
    norms[t] = device.squared_norm(n, x.data() + from);
  });
  return norms;
}

// --- collective ----------------------------------------------------------------------------------

AdasumAllReduce::AdasumAllReduce(Endpoint& endpoint, Comm& comm, std::vector<std::size_t> bounds,
                                 AdasumShape shape)
    : endpoint_(endpoint),
      comm_(comm),
      bounds_(std::move(bounds)),
      shape_(shape),
      products_(3 * (bounds_.size() - 1)),
      others_(products_.size()) {
  check_bounds(bounds_);
}

void AdasumAllReduce::operator()(std::span<float> x, int tag, Traffic kind) {
  HETSGD_CHECK_EQ(x.size(), bounds_.back());
  if (comm_.size() == 1) return;
  // Where a device has memory of its own, the vector may still lie in the host's.
  Device& own = endpoint_.device();
  device_ = own.stages_copies() && own.host_accessible(x.data()) ? &host_device() : &own;
  shape_ == AdasumShape::tree ? tree(x, tag, kind) : linear(x, tag, kind);
}

// products_ <- the products of the slices a and b, which begin at number `begin` of the vector.
void AdasumAllReduce::multiply(std::size_t begin, std::span<const float> a,
                               std::span<const float> b) {
  const auto n = static_cast<double>(a.size());
  const Work work{.operations = 6 * n, .bytes = 8 * n, .launches = 1};
  endpoint_.compute(work, ComputeKind::vector, [&] {
    std::fill(products_.begin(), products_.end(), 0.0);
    for_each_part(bounds_, begin, a.size(), [&](std::size_t t, std::size_t from, std::size_t size) {
      const Products part = device_->products(size, a.data() + from, b.data() + from);
      products_[3 * t] = part.xy;
      products_[3 * t + 1] = part.xx;
      products_[3 * t + 2] = part.yy;
    });
  });
}

// y <- AS(a, b) by the products that products_ holds.
void AdasumAllReduce::combine(std::size_t begin, std::span<const float> a, std::span<const float> b,
                              std::span<float> y) {
  const auto n = static_cast<double>(y.size());
  const Work work{.operations = 3 * n, .bytes = 12 * n, .launches = 1};
  endpoint_.compute(work, ComputeKind::vector, [&] {
    for_each_part(bounds_, begin, y.size(), [&](std::size_t t, std::size_t from, std::size_t size) {
      const AdasumFactors factors =
          adasum_factors({products_[3 * t], products_[3 * t + 1], products_[3 * t + 2]});
      device_->apply(size, rule::Combine<float>{factors.a, factors.b}, a.data() + from,
                     b.data() + from, y.data() + from);
    });
  });
}

void AdasumAllReduce::tree(std::span<float> x, int tag, Traffic kind) {
  const PowerOfTwo ranks(comm_);
  const int r = comm_.rank();
  if (r < ranks.folded && r % 2 == 1) {
    comm_.sendrecv<float>(r - 1, tag, x, {}, kind);
    comm_.sendrecv<float>(r - 1, tag, {}, x, kind);
    return;
  }
  if (r < ranks.folded) fold(x, tag, kind);
  halve_and_double(x, tag, kind, ranks);
  if (r < ranks.folded) comm_.sendrecv<float>(r + 1, tag, x, {}, kind);
}

void AdasumAllReduce::fold(std::span<float> x, int tag, Traffic kind) {
  incoming_.reset(*device_, x.size());
  const std::span<float> incoming = incoming_.span();
  comm_.sendrecv<float>(comm_.rank() + 1, tag, {}, incoming, kind);
  multiply(0, x, incoming);
  combine(0, x, incoming, x);
}

// Algorithm 1; its line numbers stand on the right.
void AdasumAllReduce::halve_and_double(std::span<float> x, int tag, Traffic kind,
                                       const PowerOfTwo& ranks) {
  const auto part = [&](const Slice& slice) {
    return x.subspan(slice.begin, slice.end - slice.begin);
  };
  std::array<Slice, 32> kept, given;  // by step
  Slice slice{0, x.size()};
  std::size_t step = 0;
  for (int distance = 1; distance < ranks.count; distance *= 2, ++step) {
    const int neighbour = ranks.rank(ranks.me ^ distance);
    const std::size_t middle = slice.begin + (slice.end - slice.begin) / 2;
    const Slice left{slice.begin, middle}, right{middle, slice.end};
    const bool leads = ranks.leads(distance);
    kept[step] = slice = leads ? left : right;
    given[step] = leads ? right : left;

    const std::span<float> mine = part(slice);
    incoming_.reset(*device_, mine.size());
    const std::span<float> incoming = incoming_.span();
    comm_.sendrecv<float>(neighbour, tag, part(given[step]), incoming, kind);  // 5, 7, 9, 10
    const std::span<float> a = leads ? mine : incoming, b = leads ? incoming : mine;
    multiply(slice.begin, a, b);              // 15
    for (int d = 1; d <= distance; d *= 2) {  // 17: sum over the group of 2 distance ranks
      const int other = ranks.rank(ranks.me ^ d);
      comm_.sendrecv<double>(other, tag, products_, others_);
      hetsgd::combine<double>(others_, products_, ReduceOp::sum);
    }
    combine(slice.begin, a, b, mine);  // 18
  }
  for (int distance = ranks.count / 2; distance > 0; distance /= 2) {
    --step;
    const int neighbour = ranks.rank(ranks.me ^ distance);
    comm_.sendrecv<float>(neighbour, tag, part(kept[step]), part(given[step]), kind);  // 22, 23
  }
}

void AdasumAllReduce::linear(std::span<float> x, int tag, Traffic kind) {
  const int p = comm_.size(), r = comm_.rank();
  const auto block = [&](int rank) {
    const Slice slice = comm_.block_of(rank, x.size());
    return x.subspan(slice.begin, slice.end - slice.begin);
  };
  const std::span<float> mine = block(r);
  const std::size_t begin = comm_.block_of(r, x.size()).begin;
  incoming_.reset(*device_, mine.size() * (static_cast<std::size_t>(p) - 1));
  const std::span<float> incoming = incoming_.span();
  const auto of_rank = [&](int k) {  // this rank's slice of rank k's vector
    const auto index = static_cast<std::size_t>(k < r ? k : k - 1);
    return k == r ? mine : incoming.subspan(index * mine.size(), mine.size());
  };
  for (int step = 1; step < p; ++step) {
    const int to = (r + step) % p, from = (r - step + p) % p;
    comm_.send(to, tag, block(to), kind);
    comm_.receive<float>(from, tag, of_rank(from));
  }
  const std::span<float> sum = of_rank(0);
  for (int k = 1; k < p; ++k) {
    multiply(begin, sum, of_rank(k));
    comm_.all_reduce(std::span(products_));
    combine(begin, sum, of_rank(k), k == p - 1 ? mine : sum);
  }
  ring_all_gather(comm_, tag, x, kind);
}

}  // namespace hetsgd
