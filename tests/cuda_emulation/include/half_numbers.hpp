// Numbers of 16 bits, as bits; in ../tensor_core.cpp.
#pragma once

#include <cstdint>

namespace hetsgd_emulation {

std::uint16_t to_fp16(float x);
std::uint16_t to_bf16(float x);
float from_fp16(std::uint16_t bits);

}  // namespace hetsgd_emulation
