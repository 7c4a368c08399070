// Worker's calls on vectors of the model's size.

#include "algorithm/worker.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace {

// Vector operations stream whole vectors: bytes = passes * 4 * n, one launch.
Work vector_work(double passes, std::size_t n, int learners) {
  const double numbers = passes * static_cast<double>(n);
  return {.operations = numbers, .bytes = 4.0 * numbers, .launches = 1, .learners = learners};
}

}  // namespace

void Worker::compute_vectors(double passes, FunctionRef fn, int learners) {
  endpoint_.compute(vector_work(passes, model().parameters(), learners), ComputeKind::vector, fn);
}

void Worker::charge_host_copy() {
  const double bytes = 4.0 * static_cast<double>(model().parameters());
  endpoint_.compute({.host_link_bytes = bytes}, ComputeKind::vector, [] {});
}

void Worker::copy(const Buffer& x, Buffer& y) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  compute_vectors(2, [&] { device().copy(x.size(), x.data(), y.data()); });
}

void Worker::scale(double a, Buffer& x) {
  compute_vectors(
      2, [&] { device().axpby(x.size(), static_cast<float>(a), x.data(), 0.0F, x.data()); });
}

void Worker::scale(double a, std::span<float> x) {
  const double passes =
      2 * static_cast<double>(x.size()) / static_cast<double>(model().parameters());
  compute_vectors(
      passes, [&] { device().axpby(x.size(), static_cast<float>(a), x.data(), 0.0F, x.data()); });
}

void Worker::axpby(double a, const Buffer& x, double b, Buffer& y) {
  HETSGD_CHECK_EQ(x.size(), y.size());
  compute_vectors(3, [&] {
    device().axpby(x.size(), static_cast<float>(a), x.data(), static_cast<float>(b), y.data());
  });
}

double Worker::squared_norm(const Buffer& x) {
  double sum = 0;
  compute_vectors(1, [&] { sum = device().squared_norm(x.size(), x.data()); });
  return sum;
}

void Worker::momentum_merge(const Buffer& merged, double gamma, Buffer& w, Buffer& previous) {
  compute_vectors(5, [&] {
    device().apply(w.size(), rule::MomentumMerge<float>{static_cast<float>(gamma)}, merged.data(),
                   w.data(), previous.data());
  });
}

}  // namespace hetsgd
