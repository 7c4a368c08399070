#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hetsgd::fuzz_cifar(bytes, size);
  return 0;
}
