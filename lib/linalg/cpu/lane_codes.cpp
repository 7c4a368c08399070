#include "linalg/lane_codes.hpp"

#include <cstring>
#include <limits>

#include "linalg/cpu/lane_codes.hpp"
#include "linalg/cpu/lanes.hpp"

namespace hetsgd::cpu {

namespace {

constexpr std::size_t kWidth = LaneCodes::kLanes;

// A number per lane. Machines with shorter registers take several registers.
typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(kWidth * sizeof(std::int32_t))));

template <class Number, class Lanes>
void load_lanes(const Number* from, Lanes& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <class Lanes, class Number>
void store_lanes(const Lanes& from, Number* to) {
  std::memcpy(to, &from, sizeof(from));
}

void load_codes(std::size_t count, std::size_t inputs, const float* from, float* x) {
  transpose(count, inputs, from, inputs, x, kWidth);
}

// bin: elements that a code compares, as a compile-time constant; 0: known at run time only.
template <std::size_t bin>
void winners_of(std::size_t codes, std::size_t run_time_width, const std::uint32_t* place,
                const float* elements, std::int32_t* codes_out, float* best_out) {
  const std::size_t width = bin == 0 ? run_time_width : bin;
  for (std::size_t c = 0; c < codes; ++c) {
    Floats best = Floats{} - std::numeric_limits<float>::infinity();
    Ints code{};
#pragma GCC unroll 8
    for (std::size_t j = 0; j < width; ++j) {
      Floats x;
      load_lanes(elements + place[c * width + j], x);
      const Ints wins = x > best;
      best = wins ? x : best;
      code = wins ? Ints{} + static_cast<std::int32_t>(j) : code;
    }
    store_lanes(code, codes_out + c * kWidth);
    store_lanes(best, best_out + c * kWidth);
  }
}

void winners(std::size_t codes, std::size_t width, const std::uint32_t* place, const float* x,
             std::int32_t* code, float* best) {
  constexpr std::size_t kUsualBin = 8;
  if (width == kUsualBin) return winners_of<kUsualBin>(codes, width, place, x, code, best);
  winners_of<0>(codes, width, place, x, code, best);
}

void signs(std::size_t codes, std::size_t width, const std::uint32_t* place, const float* sign,
           const float* elements, std::int32_t* code) {
  for (std::size_t c = 0; c < codes; ++c) {
    Floats sum{};
    for (std::size_t j = 0; j < width; ++j) {
      Floats x;
      load_lanes(elements + place[c * width + j], x);
      sum += sign[c * width + j] * x;
    }
    const Ints negative = sum < Floats{};  // -1 where it is
    store_lanes(-negative, code + c * kWidth);
  }
}

void buckets(std::size_t codes, std::int32_t stride, const std::int32_t* code_of,
             std::uint32_t* bucket) {
  Ints sum{};
  for (std::size_t c = 0; c < codes; ++c) {
    Ints code;
    load_lanes(code_of + c * kWidth, code);
    sum = sum * stride + code;
  }
  store_lanes(sum, bucket);
}

}  // namespace

constinit const LaneCodes kLaneCodes{load_codes, winners, signs, buckets};

}  // namespace hetsgd::cpu
