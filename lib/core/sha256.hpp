// SHA-256 of bytes that come in pieces, as published lists of files give it.
//
// Source: FIPS 180-4, sections 4.1.2, 4.2.2, 5.3.3 and 6.2.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hetsgd {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // Of all so far, as 64 hexadecimal digits; the object is used up.
  std::string value();

 private:
  void absorb(const unsigned char* block);

  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  std::uint64_t length_ = 0;  // bytes
};

}  // namespace hetsgd
