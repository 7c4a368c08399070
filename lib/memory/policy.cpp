#include "memory/policy.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "memory/timeline.hpp"

namespace hetsgd {

MemoryPlan Policy::plan(const PlanRequest& request) const { return run_timeline(*this, request); }

const std::vector<const Policy*>& all_policies() {
  static const std::vector<const Policy*> kPolicies{
      &none_policy(),       &shared_policy(),       &liveness_policy(),
      &vdnn_all_policy(),   &vdnn_conv_policy(),    &vdnn_policy(),
      &sequential_policy(), &superneurons_policy(), &dymem_policy()};
  return kPolicies;
}

const Policy& find_policy(const std::string& option, const std::string& name) {
  std::vector<std::string> names;
  for (const Policy* policy : all_policies()) {
    if (policy->name() == name) return *policy;
    names.push_back(policy->name());
  }
  throw with_hint(
      usage_error("{}: found {}, expected {}", option, quote(name), alternatives(names)),
      did_you_mean(name, names));
}

}  // namespace hetsgd
