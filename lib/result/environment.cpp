#include "result/environment.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "core/version.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The value of the first line "KEY<separator>VALUE" of a file; null if there is none.
json first_value(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || trim(std::string_view(line).substr(0, at)) != key) continue;
    std::string_view value = trim(std::string_view(line).substr(at + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return nullptr;
}

json cores_available() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return nullptr;
  return CPU_COUNT(&mask);
}

json variables() {
  static constexpr std::array<std::string_view, 8> kAllowed = {
      "CUDA_", "NCCL_", "OMP_", "OMPI_", "UCX_", "OPENBLAS_", "SLURM_", "HETSGD_"};
  json result = json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    for (const std::string_view prefix : kAllowed) {
      if (text.starts_with(prefix))
        result[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
  return result;
}

}  // namespace

json environment_json() {
  utsname system{};
  ::uname(&system);
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {{"hostname", system.nodename},
          {"os", first_value("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"cpu_model", first_value("/proc/cpuinfo", "model name", ':')},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"cores_available", cores_available()},
          {"memory_bytes", memory},
          {"build", version_json()},
          {"variables", variables()}};
}

}  // namespace hetsgd
