#include "memory/plan_output.hpp"

#include <array>
#include <string>
#include <utility>

namespace hetsgd {
namespace {

using nlohmann::ordered_json;

std::string_view group_name(Mobility mobility) {
  static constexpr std::array<std::string_view, 4> kNames{"movable", "temporary", "reclaimed",
                                                          "workspace"};
  return kNames[static_cast<std::size_t>(mobility)];
}

ordered_json by_type(const TrainingStep& training) {
  struct Sum {
    std::uint64_t bytes = 0;
    double operations = 0;
  };
  const Graph& graph = *training.graph;
  std::array<Sum, kNodeTypes> sums;
  const auto sum_of = [&](int node) -> Sum& {
    return sums[static_cast<std::size_t>(graph.node(node).type)];
  };
  for (const StepTensor& tensor : training.tensors) sum_of(tensor.node).bytes += tensor.bytes;
  for (int k = 1; k <= training.total_steps(); ++k) {
    const Step& step = training.step(k);
    sum_of(step.node).operations += node_work(graph, step.node, step.pass, training.options.batch,
                                              training.gives_input_gradient(step.node))
                                        .operations;
  }
  ordered_json list = ordered_json::array();
  for (std::size_t type = 0; type < sums.size(); ++type) {
    if (sums[type].bytes == 0) continue;
    list.push_back({{"type", to_string(static_cast<NodeType>(type))},
                    {"feature_bytes", sums[type].bytes},
                    {"operations", sums[type].operations}});
  }
  return list;
}

ordered_json steps_json(const TrainingStep& training, const MemoryPlan& plan) {
  ordered_json list = ordered_json::array();
  for (std::size_t k = 1; k < plan.steps.size(); ++k) {
    const Step& step = training.steps[k];
    list.push_back({{"step", k},
                    {"node", training.node_of(step).name},
                    {"pass", step.pass == Pass::forward ? "forward" : "backward"},
                    {"start_s", plan.steps[k].start_s},
                    {"seconds", plan.steps[k].seconds},
                    {"live_bytes", plan.steps[k].live_bytes},
                    {"used_bytes", plan.steps[k].used_bytes}});
  }
  return list;
}

// An event of the trace; `phase` is X: a span, C: a counter, i: an instant.
ordered_json event_of(const char* phase, int track, const std::string& name,
                      const Instruction& one) {
  constexpr double kMicroseconds = 1e6;
  ordered_json event{{"ph", phase},
                     {"name", name},
                     {"pid", 0},
                     {"tid", track},
                     {"ts", kMicroseconds * one.start_s}};
  if (*phase == 'X') event["dur"] = kMicroseconds * (one.end_s - one.start_s);
  return event;
}

}  // namespace

ordered_json network_json(const TrainingStep& training, std::uint64_t parameter_bytes) {
  return {{"name", training.graph->name()},
          {"nodes", training.graph->size() - 1},
          {"parameters", training.graph->parameters()},
          {"parameter_bytes", parameter_bytes},
          {"steps", training.total_steps()},
          {"feature_bytes", training.feature_bytes()},
          {"lower_bound_bytes", training.lower_bound()},
          {"by_type", by_type(training)}};
}

ordered_json plan_json(const TrainingStep& training, const MemoryPlan& plan) {
  ordered_json json;
  json["status"] = plan.fits() ? "fits" : "fails";
  if (!plan.fits()) {
    json["shortage"] = {{"step", plan.shortage->step},
                        {"node", training.node_of(training.step(plan.shortage->step)).name},
                        {"request_bytes", plan.shortage->request_bytes},
                        {"unusable", plan.shortage->unusable}};
    return json;
  }
  json["peak_bytes"] = plan.peak_bytes;
  json["backward_peak_bytes"] = plan.backward_peak_bytes;
  json["peak_live_bytes"] = plan.peak_live_bytes;
  json["fragmentation"] = {{"at_peak", plan.fragmentation_at_peak},
                           {"largest_unusable", plan.largest_unusable}};
  json["offloaded_bytes"] = plan.offloaded_bytes;
  json["fetched_bytes"] = plan.fetched_bytes;
  json["cancelled_bytes"] = plan.cancelled_bytes;
  json["recomputed_operations"] = plan.recomputed_operations;
  json["workspace_peak_bytes"] = plan.workspace_peak_bytes;
  json["compute_s"] = plan.compute_s;
  json["convolution_s"] = plan.convolution_s;
  json["transfer_s"] = plan.transfer_s;
  json["overlap_s"] = plan.overlap_s;
  json["compute_only_s"] = plan.compute_s - plan.overlap_s;
  json["transfer_only_s"] = plan.transfer_s - plan.overlap_s;
  json["idle_s"] = plan.idle_s();
  json["iteration_s"] = plan.iteration_s;
  json["images_per_s"] = static_cast<double>(training.options.batch) / plan.iteration_s;
  for (int kind = 0; kind < kConvolutionKinds; ++kind) {
    json["convolution_algorithms"][std::string(to_string(static_cast<ConvolutionKind>(kind)))] =
        plan.algorithms[static_cast<std::size_t>(kind)];
  }
  if (!plan.steps.empty()) json["steps"] = steps_json(training, plan);
  return json;
}

ordered_json plan_trace_json(const TrainingStep& training, const MemoryPlan& plan) {
  static constexpr std::array<const char*, 3> kTracks{"compute", "offload", "fetch"};
  ordered_json events = ordered_json::array();
  for (int track = 0; track < static_cast<int>(kTracks.size()); ++track) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", track},
                      {"args", {{"name", kTracks[static_cast<std::size_t>(track)]}}}});
  }
  std::uint64_t live = 0;
  const auto count = [&](const Instruction& one) {
    const std::pair<const char*, std::uint64_t> counters[] = {
        {"live", live}, {"used", one.used_bytes}, {"gap", one.gap_bytes}};
    for (const auto& [name, bytes] : counters) {
      ordered_json counter = event_of("C", 0, name, one);
      counter["args"] = {{"bytes", bytes}};
      events.push_back(std::move(counter));
    }
  };
  const auto place = [&](const std::string& name, const Instruction& one) {
    ordered_json event = event_of("i", 0, name, one);
    event["args"] = {{"step", one.step},
                     {"offset_bytes", one.offset},
                     {"bytes", one.bytes},
                     {"group", group_name(one.mobility)}};
    events.push_back(std::move(event));
  };
  for (const Instruction& one : plan.instructions) {
    const std::string name =
        one.tensor >= 0 ? training.graph->node(training.tensor(one.tensor).node).name : "workspace";
    switch (one.kind) {
      case InstructionKind::compute:
        events.push_back(event_of("X", 0, training.node_of(training.step(one.step)).name, one));
        break;
      case InstructionKind::recompute:
        events.push_back(event_of("X", 0, name + " again", one));
        break;
      case InstructionKind::offload:
        events.push_back(event_of("X", 1, name, one));
        break;
      case InstructionKind::fetch:
        events.push_back(event_of("X", 2, name, one));
        break;
      case InstructionKind::allocate:
        live += one.bytes;
        place("allocate " + name, one);
        count(one);
        break;
      case InstructionKind::release:
        live -= one.bytes;
        place("release " + name, one);
        count(one);
        break;
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace hetsgd
