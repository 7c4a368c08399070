// Plans as JSON (memory_schema.json) and as a trace.
#pragma once

#include <nlohmann/json.hpp>

#include "memory/plan.hpp"

namespace hetsgd {

// {name, nodes, parameters, parameter_bytes, steps, feature_bytes, lower_bound_bytes, by_type}.
nlohmann::ordered_json network_json(const TrainingStep& training, std::uint64_t parameter_bytes);

// The figures of one plan; a recorded plan also has its steps.
nlohmann::ordered_json plan_json(const TrainingStep& training, const MemoryPlan& plan);

// Trace Event Format: the tracks compute, offload and fetch, the counters `live`, `used` and `gap`
// in bytes, and an instant per allocation and release with its place and group. The plan must be a
// recorded one.
nlohmann::ordered_json plan_trace_json(const TrainingStep& training, const MemoryPlan& plan);

}  // namespace hetsgd
