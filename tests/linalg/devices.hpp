// The devices of a kernel's test. Each test holds all of them against one definition in double
// precision. The tests of kernels are built twice (CMakeLists.txt): for CPUs of one core and of
// three, and with HETSGD_TEST_GPU for a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "linalg/cuda/cuda_device.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::test {

#ifdef HETSGD_TEST_GPU
inline constexpr bool kOnGpu = true;
#else
inline constexpr bool kOnGpu = false;
#endif

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Real>
BasicDevice<Real>& gpu() {
  static const auto device = make_cuda_device<Real>(0);
  return *device;
}

using Results = std::vector<std::vector<double>>;

inline bool same_bits(const Results& a, const Results& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
  });
}

// numbers(n, f): f(0), ..., f(n - 1).
template <class Function>
std::vector<double> numbers(std::size_t n, const Function& function) {
  std::vector<double> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<double>(function(i));
  return all;
}

// A device with its operands, and what its kernels gave.
template <class Number>
struct Side {
  using Real = Number;

  template <class Value>
  BasicBuffer<Real> put(const std::vector<Value>& values) {
    const std::vector<Real> host(values.begin(), values.end());
    BasicBuffer<Real> buffer(device, host.size());
    device.upload(buffer.data(), host.data(), host.size() * sizeof(Real));
    return buffer;
  }
  // n numbers that are none, for what a kernel writes without reading it.
  BasicBuffer<Real> room(std::size_t n) { return put(std::vector<float>(n, kNan)); }
  std::vector<Real> get(const BasicBuffer<Real>& buffer) const {
    std::vector<Real> host(buffer.size());
    device.download(host.data(), buffer.data(), host.size() * sizeof(Real));
    return host;
  }
  void take(const BasicBuffer<Real>& buffer) { results.push_back(widen(get(buffer))); }
  void take(double number) { results.push_back({number}); }
  SparseRows<Real> stage(const RandomSparse& rows, bool values) {
    return device.stage(rows.view<Real>(values));
  }

  // Takes the numbers, and expects them `times` the tolerance of a sum from their definition.
  void expect(const BasicBuffer<Real>& buffer, const std::vector<double>& expected,
              const char* what, double times = 1) {
    take(buffer);
    expect_close(results.back(), expected, times * kTolerance<Real>, what);
  }
  void expect(double number, double expected, double tolerance, const char* what) {
    take(number);
    EXPECT_NEAR(number, expected, tolerance * std::max(1.0, std::abs(expected))) << what;
  }
  void expect_exactly(const BasicBuffer<Real>& buffer, const std::vector<Real>& expected,
                      const char* what) {
    take(buffer);
    EXPECT_TRUE(same_bits({results.back()}, {widen(expected)})) << what;
  }

  BasicDevice<Real>& device;
  Results results = {};
};

// `check(side)` twice: what it takes has the same bits both times. Returns them.
template <class Real, class Check>
Results on_device(BasicDevice<Real>& device, const Check& check) {
  SCOPED_TRACE(device.name());
  Side<Real> first{device}, second{device};
  check(first);
  if (::testing::Test::HasFatalFailure()) return {};
  check(second);
  EXPECT_TRUE(same_bits(first.results, second.results)) << "not the same twice";
  return std::move(first.results);
}

enum class Bits { of_any_cores, of_each_device };

// The same on each device. The bits are those of any number of cores, unless it is said that they
// are of each device.
template <class Real, class Check>
void on_devices(const Check& check, Bits bits = Bits::of_any_cores) {
  if constexpr (kOnGpu) {
    on_device(gpu<Real>(), check);
  } else {
    const auto one = make_cpu_device<Real>(kCoreCounts[0]),
               more = make_cpu_device<Real>(kCoreCounts[1]);
    const Results expected = on_device(*one, check), found = on_device(*more, check);
    EXPECT_TRUE(bits == Bits::of_each_device || same_bits(found, expected))
        << "the bits depend on the cores";
  }
}

// For a GPU's kernel without a definition of its own: the same calls on a core in double precision.
template <class Real, class Calculate>
void compare_with_core(const Calculate& calculate) {
  const auto cpu = make_cpu_device<double>(1);
  Side<double> expected{*cpu};
  calculate(expected);
  const Results found = on_device(gpu<Real>(), calculate);
  ASSERT_EQ(found.size(), expected.results.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string what = "result " + std::to_string(i);
    expect_close(found[i], expected.results[i], kTolerance<Real>, what.c_str());
  }
}

}  // namespace hetsgd::test
