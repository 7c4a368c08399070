#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

std::string variable(const char* name, const char* standard) {
  const char* const value = std::getenv((std::string("CUDA_EMULATION_") + name).c_str());
  return value != nullptr && *value != '\0' ? value : standard;
}

std::uint64_t number(const char* name, const char* standard) {
  const std::string text = variable(name, standard);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
  if (error != std::errc() || (shift == 0 && !unit.empty())) {
    misuse(fmt::format("CUDA_EMULATION_{}: found \"{}\", expected a number", name, text));
  }
  return value << shift;
}

bool choice(const char* name, const char* yes, const char* no) {
  const std::string text = variable(name, yes);
  if (text != yes && text != no) {
    misuse(fmt::format("CUDA_EMULATION_{}: found \"{}\", expected {} or {}", name, text, yes, no));
  }
  return text == yes;
}

Settings read() {
  Settings s;
  s.gpus = static_cast<int>(std::min(number("GPUS", "2"), std::uint64_t{kMostGpus}));
  s.memory_bytes = number("MEMORY", "2G");
  s.peers = choice("PEERS", "on", "off");
  const std::string order = variable("STREAMS", "lazy");
  if (order == "random") {
    s.order = Order::random;
  } else if (order == "eager") {
    s.order = Order::eager;
  } else if (order != "lazy") {
    misuse("CUDA_EMULATION_STREAMS: found \"" + order + "\", expected lazy, eager or random");
  }
  s.seed = number("SEED", "1");
  s.driver = static_cast<int>(number("DRIVER", "13000"));
  s.cudnn = number("CUDNN", "90600");
  s.code = choice("CODE", "found", "missing");
  s.cuda_aware_mpi = !choice("MPI", "0", "1");
  s.hang_s = static_cast<double>(number("HANG_S", "60"));
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings read_once = read();
  return read_once;
}

void misuse(const std::string& text) {
  std::fprintf(stderr, "emulated CUDA: %s\n", text.c_str());
  std::abort();
}

}  // namespace hetsgd_emulation
