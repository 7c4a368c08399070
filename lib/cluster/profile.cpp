#include "cluster/profile.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"

namespace hetsgd {

Seconds DeviceProfile::seconds(const Work& work) const {
  const double copies = host_link_bytes_per_s ? work.host_link_bytes / *host_link_bytes_per_s : 0;
  const double one = work.launches * launch_overhead_s + work.operations / operations_per_s +
                     work.bytes / bytes_per_s + copies;
  return Seconds(one * work.learners / throughput(work.learners));
}

double DeviceProfile::throughput(int learners) const {
  HETSGD_CHECK_LT(0, learners);
  return saturation[std::min(static_cast<std::size_t>(learners), saturation.size()) - 1];
}

DeviceProfile load_device_profile(const std::string& name_or_path, std::string_view option) {
  static const std::array<std::string, 8> kKeys{
      "name",        "source",       "launch_overhead_s",     "operations_per_s",
      "bytes_per_s", "memory_bytes", "host_link_bytes_per_s", "saturation"};
  const JsonFields fields =
      find_json_file(option, "profile", name_or_path, builtin_profile_files());
  fields.allow(kKeys);
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
  profile.saturation = fields.numbers("saturation", kRatios, {1.0});
  return profile;
}

std::vector<std::string> builtin_device_profiles() { return names_of(builtin_profile_files()); }

std::string to_json_text(const DeviceProfile& profile) {
  nlohmann::ordered_json json;
  json["name"] = json_text(profile.name);
  json["source"] = json_text(profile.source);
  json["launch_overhead_s"] = profile.launch_overhead_s;
  json["operations_per_s"] = profile.operations_per_s;
  json["bytes_per_s"] = profile.bytes_per_s;
  json["memory_bytes"] = profile.memory_bytes;
  if (profile.host_link_bytes_per_s) json["host_link_bytes_per_s"] = *profile.host_link_bytes_per_s;
  json["saturation"] = profile.saturation;
  return json.dump(2) + "\n";
}

}  // namespace hetsgd
