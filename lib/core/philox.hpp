// Philox4x32-10, the counter-based random numbers of core/random.hpp, on CPU and GPU.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC'11),
//         section 3.3. tests/core/random_test.cpp has the known answers of its authors' Random123.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace hetsgd {

// The purpose of a stream. Two purposes never share a draw.
enum class Purpose : std::uint32_t {
  initial_parameters = 1,
  data_order = 2,
  straggler = 3,
  peer_choice = 4,
  generator = 5,
  partition = 6,
  bootstrap = 7,
  test = 8,
  search = 9,
  hashing = 10,
  label_fill = 11,
  initial_rows = 12,
  dropout = 13,
  augmentation = 16,
  sequence_length = 17,
};

struct PhiloxWords {
  std::uint32_t at[4];
};

// The four words at counter (index, a, b, purpose) of key `seed`.
HETSGD_HOST_DEVICE inline PhiloxWords philox_words(std::uint64_t seed, Purpose purpose,
                                                   std::uint32_t a, std::uint32_t b,
                                                   std::uint32_t index) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  PhiloxWords c{{index, a, b, static_cast<std::uint32_t>(purpose)}};
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

}  // namespace hetsgd
