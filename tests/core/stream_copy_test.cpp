#include "core/stream_copy.hpp"

#include <cstddef>

namespace hetsgd {
namespace {

// Whatever the places and lengths, between guards that must stay.
TEST(StreamCopy, IsACopyOfEveryLengthAndPlace) {
  constexpr std::size_t kMost = 400, kPlaces = 70;
  std::vector<unsigned char> from(kMost + kPlaces);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  for (std::size_t bytes = 0; bytes <= kMost; bytes += bytes < 70 ? 1 : 33) {
    for (std::size_t place = 0; place < kPlaces; place += 3) {
      std::vector<unsigned char> to(bytes + 3 * kPlaces, 0);
      auto expected = to;
      for (std::size_t i = 0; i < bytes; ++i) expected[kPlaces + place + i] = from[place / 2 + i];
      stream_copy(to.data() + kPlaces + place, from.data() + place / 2, bytes);
      ASSERT_EQ(to, expected) << bytes << " bytes to place " << place;
    }
  }
}

}  // namespace
}  // namespace hetsgd
