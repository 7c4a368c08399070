#include "cluster/profile.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {

Seconds DeviceProfile::seconds(const Work& work) const {
  const double copies = host_link_bytes_per_s ? work.host_link_bytes / *host_link_bytes_per_s : 0;
  const double gathers =
      work.gather_bytes / gather_bytes_per_s.value_or(bytes_per_s) +
      (host_gather_bytes_per_s ? work.host_gather_bytes / *host_gather_bytes_per_s : 0);
  const double one = work.launches * launch_overhead_s + work.operations / operations_per_s +
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

JsonFields profile_fields(const std::string& name_or_path, std::string_view option) {
  static const std::array<std::string, 12> kKeys{"name",
                                                 "source",
                                                 "launch_overhead_s",
                                                 "operations_per_s",
                                                 "bytes_per_s",
                                                 "memory_bytes",
                                                 "saturation",
                                                 "host_link_bytes_per_s",
                                                 "host_link_latency_s",
                                                 "gather_bytes_per_s",
                                                 "host_gather_bytes_per_s",
                                                 "convolution"};
  JsonFields fields = find_json_file(option, "profile", name_or_path, builtin_profile_files());
  fields.allow(kKeys);
  return fields;
}

}  // namespace

GraphRates load_graph_rates(const std::string& name_or_path, std::string_view option) {
  static const std::array<std::string, 2> kConvolutionKeys{"half_channels", "half_depth"};
  const JsonFields fields = profile_fields(name_or_path, option);
  GraphRates rates{.link_latency_s = kHostLinkLatencySeconds,
                   .link_bytes_per_s = load_network_model("pcie3").bytes_per_s};
  if (!fields.is_null("host_link_bytes_per_s")) {
    rates.link_bytes_per_s = fields.number("host_link_bytes_per_s", kByteRates);
  }
  if (!fields.is_null("host_link_latency_s")) {
    rates.link_latency_s = fields.number("host_link_latency_s", kDurations);
  }
  if (!fields.is_null("convolution")) {
    const JsonFields convolution = fields.object("convolution");
    convolution.allow(kConvolutionKeys);
    rates.half_channels = convolution.number("half_channels", {0, 1e6, ""});
    rates.half_depth = convolution.number("half_depth", {0, 1e6, ""});
  }
  return rates;
}

DeviceProfile load_device_profile(const std::string& name_or_path, std::string_view option) {
  const JsonFields fields = profile_fields(name_or_path, option);
  DeviceProfile profile;
  profile.name = fields.text("name");
  profile.source = fields.text("source", "");
  profile.launch_overhead_s = fields.number("launch_overhead_s", kDurations);
  profile.operations_per_s = fields.number("operations_per_s", kOperationRates);
  profile.bytes_per_s = fields.number("bytes_per_s", kByteRates);
  profile.memory_bytes = fields.number("memory_bytes", kSizes);
  if (!fields.is_null("host_link_bytes_per_s")) {
    profile.host_link_bytes_per_s = fields.number("host_link_bytes_per_s", kByteRates);
  }
  if (!fields.is_null("host_link_latency_s")) {
    profile.host_link_latency_s = fields.number("host_link_latency_s", kDurations);
  }
  if (!fields.is_null("gather_bytes_per_s")) {
    profile.gather_bytes_per_s = fields.number("gather_bytes_per_s", kByteRates);
  }
  if (!fields.is_null("host_gather_bytes_per_s")) {
    profile.host_gather_bytes_per_s = fields.number("host_gather_bytes_per_s", kByteRates);
  }
  profile.saturation = fields.numbers("saturation", kRatios, {1.0});
  return profile;
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
    throw with_hint(usage_error("--profile: found {} profiles for {} workers", count, workers),
                    fmt::format("set --workers {}", count));
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
  json["launch_overhead_s"] = profile.launch_overhead_s;
  json["operations_per_s"] = profile.operations_per_s;
  json["bytes_per_s"] = profile.bytes_per_s;
  json["memory_bytes"] = profile.memory_bytes;
  if (profile.host_link_bytes_per_s) json["host_link_bytes_per_s"] = *profile.host_link_bytes_per_s;
  if (profile.host_link_latency_s) json["host_link_latency_s"] = *profile.host_link_latency_s;
  if (profile.gather_bytes_per_s) json["gather_bytes_per_s"] = *profile.gather_bytes_per_s;
  if (profile.host_gather_bytes_per_s) {
    json["host_gather_bytes_per_s"] = *profile.host_gather_bytes_per_s;
  }
  json["saturation"] = profile.saturation;
  return json.dump(2) + "\n";
}

}  // namespace hetsgd
