#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hetsgd::fuzz_text(bytes, size, hetsgd::DataFormat::xc);
  return 0;
}
