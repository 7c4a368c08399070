// The best labels of one sample.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace hetsgd::cpu {

// The k <= 16 best so far, best first; ties: the smaller label first. An entry that compares false
// with everything (NaN) ranks last.
template <class Real>
struct Best {
  Real score[16];
  std::uint32_t label[16];
  std::size_t size = 0;

  static bool before(Real a, Real b) { return a > b || (!std::isnan(a) && std::isnan(b)); }

  // Labels arrive in ascending order, so an equal score goes behind those that are there.
  void insert(std::size_t k, Real s, std::uint32_t l) {
    if (size == k && !before(s, score[k - 1])) return;
    std::size_t at = size < k ? size++ : k - 1;
    for (; at > 0 && before(s, score[at - 1]); --at) {
      score[at] = score[at - 1];
      label[at] = label[at - 1];
    }
    score[at] = s;
    label[at] = l;
  }
};

}  // namespace hetsgd::cpu
