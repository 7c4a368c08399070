// The blocks of core/random.hpp on a GPU: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC'11) of key
// `seed` and counter (index, a, b, purpose). Tests compare masks of dropout with those of the CPU,
// which takes them from Random123. The headers of Random123 need more of a CUDA compiler than the
// emulated one has.
#pragma once

#include <cstdint>

namespace hetsgd::cuda {

inline constexpr std::uint32_t kDropoutPurpose = 13;  // Purpose::dropout

struct PhiloxWords {
  std::uint32_t at[4];
};

__device__ inline PhiloxWords philox_words(std::uint64_t seed, std::uint32_t purpose,
                                           std::uint32_t a, std::uint32_t b, std::uint32_t index) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  PhiloxWords c{{index, a, b, purpose}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53U} * c.at[0],
                        second = std::uint64_t{0xCD9E8D57U} * c.at[2];
    c = {{static_cast<std::uint32_t>(second >> 32) ^ c.at[1] ^ key0,
          static_cast<std::uint32_t>(second),
          static_cast<std::uint32_t>(first >> 32) ^ c.at[3] ^ key1,
          static_cast<std::uint32_t>(first)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

}  // namespace hetsgd::cuda
