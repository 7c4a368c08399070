#include "fuzz_reader.hpp"

// Detection is part of the property: text with a header goes to the XC reader.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  hetsgd::fuzz_text(bytes, size, hetsgd::DataFormat::detect);
  return 0;
}
