// Each kernel of a GPU against that of the CPU in double precision, and against itself: a second
// call gives the same bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "linalg/cuda/cuda_device.hpp"
#include "linalg/reference.hpp"
#include "support/gpu.hpp"

namespace hetsgd::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Real>
constexpr double kClose = sizeof(Real) == 4 ? 1e-5 : 1e-12;

template <class Real>
BasicDevice<Real>& gpu() {
  static const auto device = make_cuda_device<Real>(0);
  return *device;
}

using Results = std::vector<std::vector<double>>;

// A device with its operands. Operands are floats on every side, so all sides start from the same.
template <class Number>
struct Side {
  using Real = Number;

  BasicBuffer<Real> put(const std::vector<float>& values) {
    const std::vector<Real> host(values.begin(), values.end());
    BasicBuffer<Real> buffer(device, host.size());
    device.upload(buffer.data(), host.data(), host.size() * sizeof(Real));
    return buffer;
  }
  void take(const BasicBuffer<Real>& buffer) {
    std::vector<Real> host(buffer.size());
    device.download(host.data(), buffer.data(), host.size() * sizeof(Real));
    results.emplace_back(host.begin(), host.end());
  }
  void take(double number) { results.push_back({number}); }
  SparseRows<Real> stage(const RandomSparse& rows, bool values) {
    return device.stage(rows.view<Real>(values));
  }

  BasicDevice<Real>& device;
  Results results = {};
};

// `calculate(side)` leaves its results in side.results.
template <class Real, class Calculate>
void compare_on(BasicDevice<Real>& device, const Calculate& calculate) {
  const auto cpu = make_cpu_device<double>(1);
  Side<double> expected{*cpu};
  Side<Real> first{device}, second{device};
  calculate(expected);
  calculate(first);
  calculate(second);
  ASSERT_EQ(first.results.size(), expected.results.size());
  for (std::size_t i = 0; i < expected.results.size(); ++i) {
    expect_close(first.results[i], expected.results[i], kClose<Real>,
                 ("result " + std::to_string(i)).c_str());
    if (first.results[i].empty()) continue;
    ASSERT_EQ(std::memcmp(first.results[i].data(), second.results[i].data(),
                          first.results[i].size() * sizeof(double)),
              0)
        << "result " << i << " is not the same twice";
  }
}
template <class Real, class Calculate>
void compare(const Calculate& calculate) {
  compare_on(gpu<Real>(), calculate);
}

}  // namespace hetsgd::test
