#include "cluster/profile.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {

Seconds DeviceProfile::seconds(const Work& work, Precision precision) const {
  const double operation_rate = precision == Precision::bf16
                                    ? bf16_operations_per_s.value_or(operations_per_s)
                                    : operations_per_s;
  const double copies = host_link_bytes_per_s ? work.host_link_bytes / *host_link_bytes_per_s : 0;
  const double gathers =
      work.gather_bytes / gather_bytes_per_s.value_or(bytes_per_s) +
      (host_gather_bytes_per_s ? work.host_gather_bytes / *host_gather_bytes_per_s : 0);
  const double one = work.launches * launch_overhead_s + work.operations / operation_rate +
                     work.bytes / bytes_per_s + copies + gathers + work.given_s;
  return Seconds(one * work.learners / throughput(work.learners));
}

Seconds DeviceProfile::copy_seconds(double bytes) const {
  if (in_host_memory()) return Seconds(0);
  return Seconds(host_link_latency_s.value_or(kHostLinkLatencySeconds) +
                 bytes / *host_link_bytes_per_s);
}

double DeviceProfile::throughput(int learners) const {
  HETSGD_CHECK_LT(0, learners);
  return saturation[std::min(static_cast<std::size_t>(learners), saturation.size()) - 1];
}

namespace {

// The numbers of a profile, in the order in which they are written: those that every file has, and
// those that may be left out.
template <class Value>
struct Number {
  const char* key;
  Value DeviceProfile::*value;
  FieldRange range;
};
constexpr Number<double> kProfileNumbers[] = {
    {"launch_overhead_s", &DeviceProfile::launch_overhead_s, kDurations},
    {"operations_per_s", &DeviceProfile::operations_per_s, kOperationRates},
    {"bytes_per_s", &DeviceProfile::bytes_per_s, kByteRates},
    {"memory_bytes", &DeviceProfile::memory_bytes, kSizes}};
constexpr Number<std::optional<double>> kOptionalNumbers[] = {
    {"host_link_bytes_per_s", &DeviceProfile::host_link_bytes_per_s, kByteRates},
    {"host_link_latency_s", &DeviceProfile::host_link_latency_s, kDurations},
    {"gather_bytes_per_s", &DeviceProfile::gather_bytes_per_s, kByteRates},
    {"host_gather_bytes_per_s", &DeviceProfile::host_gather_bytes_per_s, kByteRates},
    {"least_step_s", &DeviceProfile::least_step_s, kDurations},
    {"bf16_operations_per_s", &DeviceProfile::bf16_operations_per_s, kOperationRates}};

JsonFields profile_fields(const std::string& name_or_path, std::string_view option) {
  std::vector<std::string> keys = {"name", "source"};
  for (const auto& number : kProfileNumbers) keys.emplace_back(number.key);
  keys.emplace_back("saturation");
  for (const auto& number : kOptionalNumbers) keys.emplace_back(number.key);
  keys.emplace_back("convolution");
  JsonFields fields = find_json_file(option, "profile", name_or_path, builtin_profile_files());
  fields.allow(keys);
  return fields;
}

}  // namespace

DeviceProfile read_device_profile(const JsonFields& fields) {
  DeviceProfile profile{.name = fields.text("name"), .source = fields.text("source", "")};
  for (const auto& number : kProfileNumbers) {
    profile.*number.value = fields.number(number.key, number.range);
  }
  for (const auto& number : kOptionalNumbers) {
    profile.*number.value = fields.number_or_none(number.key, number.range);
  }
  profile.saturation = fields.numbers("saturation", kRatios, {1.0});
  return profile;
}

GraphRates load_graph_rates(const std::string& name_or_path, std::string_view option) {
  const JsonFields fields = profile_fields(name_or_path, option);
  GraphRates rates{.link_latency_s = kHostLinkLatencySeconds,
                   .link_bytes_per_s = load_network_model("pcie3").bytes_per_s};
  const DeviceProfile profile = read_device_profile(fields);
  rates.link_bytes_per_s = profile.host_link_bytes_per_s.value_or(rates.link_bytes_per_s);
  rates.link_latency_s = profile.host_link_latency_s.value_or(rates.link_latency_s);
  if (!fields.is_null("convolution")) {
    const JsonFields convolution = fields.object("convolution");
    convolution.allow({"half_channels", "half_depth"});
    rates.half_channels = convolution.number("half_channels", {0, 1e6, ""});
    rates.half_depth = convolution.number("half_depth", {0, 1e6, ""});
  }
  return rates;
}

DeviceProfile load_device_profile(const std::string& name_or_path, std::string_view option) {
  return read_device_profile(profile_fields(name_or_path, option));
}

namespace {

struct ListedProfile {
  std::string name;
  std::int64_t times;
};

std::vector<ListedProfile> listed_profiles(const std::string& list) {
  constexpr std::int64_t kMostTimes = 1'000'000;
  if (std::filesystem::exists(list)) return {{list, 1}};  // whatever its name has in it
  std::vector<ListedProfile> profiles;
  for (const std::string_view part : split(list, ',')) {
    const std::size_t star = part.rfind('*');
    const bool repeats = star != std::string_view::npos;
    profiles.push_back(
        {std::string(trim(part.substr(0, star))),
         repeats ? parse_integer("--profile", trim(part.substr(star + 1)), 1, kMostTimes) : 1});
  }
  return profiles;
}

}  // namespace

std::vector<std::string> device_profile_names(const std::string& list) {
  std::vector<std::string> names;
  for (ListedProfile& listed : listed_profiles(list)) names.push_back(std::move(listed.name));
  return names;
}

std::vector<DeviceProfile> load_device_profiles(const std::string& list, int workers) {
  std::vector<DeviceProfile> profiles;
  std::int64_t count = 0;
  for (const ListedProfile& listed : listed_profiles(list)) {
    const DeviceProfile profile = load_device_profile(listed.name);
    count += listed.times;
    if (count <= workers) {
      profiles.insert(profiles.end(), static_cast<std::size_t>(listed.times), profile);
    }
  }
  if (count > workers) {
    refuse("--profile", fmt::format("{} profiles for {} workers", count, workers),
           "at most one for each", fmt::format("set --workers {}", count));
  }
  return profiles;
}

std::vector<std::string> builtin_device_profiles() { return names_of(builtin_profile_files()); }

namespace {

std::string letters_and_digits(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) kept += static_cast<char>(std::tolower(byte));
  }
  return kept;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// A number must be the whole one: an A1000 is no A100, a GH200 480GB no H200.
std::optional<std::string> builtin_profile_of(const std::string& gpu) {
  const std::string text = letters_and_digits(gpu);
  std::optional<std::string> best;
  for (const std::string& name : builtin_device_profiles()) {
    const std::string part = letters_and_digits(name);
    const std::size_t at = text.find(part), end = at + part.size();
    if (at == std::string::npos) continue;
    if (is_digit(part.back()) && end < text.size() && is_digit(text[end])) continue;
    if (!best || name.size() > best->size()) best = name;
  }
  return best;
}

std::string to_json_text(const DeviceProfile& profile) {
  nlohmann::ordered_json json;
  json["name"] = json_text(profile.name);
  json["source"] = json_text(profile.source);
  for (const auto& number : kProfileNumbers) json[number.key] = profile.*number.value;
  for (const auto& number : kOptionalNumbers) {
    if (profile.*number.value) json[number.key] = *(profile.*number.value);
  }
  json["saturation"] = profile.saturation;
  return json.dump(2) + "\n";
}

}  // namespace hetsgd
