// hetsgd memory NETWORK...: plans of a training step's memory by policy, and their cost in time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cluster/profile.hpp"
#include "command.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "graph/graph_file.hpp"
#include "graph/networks.hpp"
#include "graph/variants.hpp"
#include "memory/minimum.hpp"
#include "memory/plan.hpp"
#include "memory/policy.hpp"
#include "printer.hpp"
#include "result/output.hpp"
#include "result/result.hpp"
#include "training/simulation/machine.hpp"

namespace hetsgd {
namespace {

enum class Fork { share, copy };

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

// {name, nodes, parameters, parameter_bytes, steps, feature_bytes, lower_bound_bytes, by_type}.
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

// The figures of one plan; a recorded plan also has its steps.
ordered_json plan_json(const TrainingStep& training, const MemoryPlan& plan) {
  ordered_json figures;
  figures["status"] = plan.fits() ? "fits" : "fails";
  if (!plan.fits()) {
    figures["shortage"] = {{"step", plan.shortage->step},
                           {"node", training.node_of(training.step(plan.shortage->step)).name},
                           {"request_bytes", plan.shortage->request_bytes},
                           {"unusable", plan.shortage->unusable}};
    return figures;
  }
  figures["peak_bytes"] = plan.peak_bytes;
  figures["backward_peak_bytes"] = plan.backward_peak_bytes;
  figures["peak_live_bytes"] = plan.peak_live_bytes;
  figures["fragmentation"] = {{"at_peak", plan.fragmentation_at_peak},
                              {"largest_unusable", plan.largest_unusable}};
  figures["offloaded_bytes"] = plan.offloaded_bytes;
  figures["fetched_bytes"] = plan.fetched_bytes;
  figures["cancelled_bytes"] = plan.cancelled_bytes;
  figures["recomputed_operations"] = plan.recomputed_operations;
  figures["workspace_peak_bytes"] = plan.workspace_peak_bytes;
  figures["compute_s"] = plan.compute_s;
  figures["convolution_s"] = plan.convolution_s;
  figures["transfer_s"] = plan.transfer_s;
  figures["overlap_s"] = plan.overlap_s;
  figures["compute_only_s"] = plan.compute_s - plan.overlap_s;
  figures["transfer_only_s"] = plan.transfer_s - plan.overlap_s;
  figures["idle_s"] = plan.idle_s();
  figures["iteration_s"] = plan.iteration_s;
  figures["images_per_s"] = static_cast<double>(training.options.batch) / plan.iteration_s;
  for (int kind = 0; kind < kConvolutionKinds; ++kind) {
    figures["convolution_algorithms"][std::string(to_string(static_cast<ConvolutionKind>(kind)))] =
        plan.algorithms[static_cast<std::size_t>(kind)];
  }
  if (!plan.steps.empty()) figures["steps"] = steps_json(training, plan);
  return figures;
}

// Trace Event Format: the tracks compute, offload and fetch, the counters `live`, `used` and `gap`
// in bytes, and an instant per allocation and release with its place and group. The plan must be a
// recorded one.
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

class Memory final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "memory",
            .summary = "plan the memory of a network's training step by Dymem and other policies",
            .examples = {"hetsgd memory resnet-50 --batch 100",
                         "hetsgd memory 'inception-v4?bn=0' --policy dymem,vdnn-all --memory 4G",
                         "hetsgd memory vgg-16 -o m.json --memory-curve 12",
                         "hetsgd memory lenet-5 --print-network > my.json"},
            .operands = "NETWORK..."};
  }

  void declare(OptionSet& set) override {
    set.add("batch", batches_, "Batch sizes to plan for, separated by commas.")
        .range(1, 1e6)
        .unit("samples");
    set.add(
           "steps", steps_,
           "Number of steps of the sequences that lstm nodes read. auto: the network's own number.")
        .range(1, 1e5);
    set.add("policy", policies_,
            fmt::format("Memory policies to compare, separated by commas, among {}.",
                        fmt::join(policy_names(), ", ")));
    set.add("profile", profile_,
            "Device profile that gives memory and speed: a built-in name or a JSON file.")
        .reads_file();
    set.add("memory", memory_,
            "Memory for the plan: a number of bytes such as 12G, device (the profile's memory "
            "without parameters, gradients and optimizer buffers), or minimum (the least memory of "
            "each policy).");
    set.add_choice(
        "convolution", request_.convolution,
        {{"memory", ConvolutionMode::memory},
         {"performance", ConvolutionMode::performance},
         {"dynamic", ConvolutionMode::dynamic}},
        "Convolution algorithm: memory takes one without workspace, performance the fastest, "
        "dynamic the fastest whose workspace fits.");
    set.add("prefetch_convs", request_.prefetch_convs,
            "Number of convolutions in the prefetch window of policy dymem.")
        .at_least(1);
    set.add("best_fit", request_.best_fit,
            "Place the tensors of policy dymem by best fit instead of in arenas.");
    set.add_choice(
        "on_shortage", request_.on_shortage,
        {{"cancel", OnShortage::cancel}, {"restart", OnShortage::restart}},
        "What policy dymem does when memory runs short. cancel: the forward pass waits, and the "
        "backward pass drops prefetches. restart: the iteration starts again with --beta more "
        "memory.");
    set.add("main_initial", main_initial_,
            "Size of the main space of policy dymem in the first iteration. Later iterations get "
            "the space that it used, and --beta more. auto: --memory sets the size.")
        .unit("bytes");
    set.add("beta", beta_,
            "Memory that policy dymem adds to the used space of the first iteration, and again for "
            "each restart.")
        .unit("bytes");
    set.add("iterations", iterations_,
            "Number of iterations to plan, each with its own jitter. Their failures and restarts "
            "are written to --output.")
        .range(1, 1000000);
    set.add_choice("tensor_cache", request_.tensor_cache,
                   {{"off", TensorCache::off}, {"lru", TensorCache::lru}},
                   "Feature maps that policy superneurons moves. off: the outputs of convolutions. "
                   "lru: the least recently used ones, and only when memory runs short.");
    set.add_choice(
        "recompute", request_.recompute,
        {{"none", Recomputation::none}, {"cost", Recomputation::cost}},
        "Recomputation by policy superneurons. cost: the forward pass drops the feature "
        "maps between checkpoints (conv, fc, lstm, add, concat, forks), and the backward "
        "pass computes them again, once if they fit together. none: they are kept.");
    set.add_choice("backward_needs", lifetime_.needs,
                   {{"cudnn", BackwardNeeds::cudnn}, {"minimal", BackwardNeeds::minimal}},
                   "Tensors that are kept for the backward pass. cudnn: the arguments of cuDNN's "
                   "calls. minimal: only what the mathematics needs.");
    set.add_choice("fork", fork_, {{"share", Fork::share}, {"copy", Fork::copy}},
                   "Storage of a feature map that several nodes read. share: one map. copy: a copy "
                   "for each node but the first.");
    set.add("input_gradient", lifetime_.input_gradient,
            "Compute the gradient of the network's input, too.");
    set.add("optimizer_buffers", optimizer_buffers_,
            "Number of optimizer buffers, each as large as the parameters. It has an effect with "
            "--memory device.")
        .range(0, 8);
    set.add("allocation_order", request_.allocation_order,
            "Seed that shuffles the allocations within a step. auto: the order of the network.");
    set.add("jitter", request_.jitter,
            "Sigma of a lognormal random factor on every time. 0 leaves times unchanged.")
        .range(0, 2);
    set.add("jitter_seed", request_.jitter_seed, "Seed of the random factors of --jitter.");
    set.add("memory_curve", curve_,
            "Number of capacities, from the minimum to the peak, whose iteration times are written "
            "to --output.")
        .range(0, 1000);
    set.add("largest_batch", largest_batch_, "Search the largest batch that fits.");
    set.add("print_network", print_network_, "Print the network as a JSON file instead of a plan.")
        .not_in_config();
    set.add("output", output_, "JSON file for the plans; - is stdout.").writes_file("the plans");
    set.add("trace", trace_,
            "Timeline of the plan of the first network and policy, for chrome://tracing.")
        .writes_file("the trace");
    set.add("overwrite", overwrite_, "Replace existing files.").not_in_config();
    printer_.declare_format(set, {OutputFormat::text, OutputFormat::markdown, OutputFormat::csv});
  }

  int run(OptionSet& set, const std::vector<std::string>& operands) override {
    if (print_network_) {
      for (const std::string& name : operands) {
        write_text("-", to_json_text(network(name)));
      }
      return 0;
    }
    load_rates();
    nlohmann::json networks = nlohmann::json::array();
    for (const std::string& name : operands) {
      const Graph graph = network(name);
      for (const std::uint64_t batch : batches_) networks.push_back(plan_network(graph, batch));
    }
    if (!output_.empty()) {
      const nlohmann::json document = {{"schema_version", 1},
                                       {"tool", "hetsgd memory"},
                                       {"args", operands},
                                       {"config", set.to_json()},
                                       {"environment", environment_json()},
                                       {"profile", profile_},
                                       {"networks", std::move(networks)}};
      write_noted(output_, document.dump(1) + "\n", "plans");
    }
    return 0;
  }

 private:
  Graph network(const std::string& name) const {
    Graph graph = find_graph("NETWORK", name);
    if (steps_) graph = at_steps(graph);
    return fork_ == Fork::copy ? with_fork_copies(graph) : graph;
  }

  Graph at_steps(const Graph& graph) const {
    if (const std::optional<int> bound = step_bound_node(graph)) {
      refuse("--steps", std::to_string(*steps_),
             fmt::format("none, because node {} of {} is for one number of steps",
                         graph.node(*bound).name, graph.name()),
             "lstm-video reads sequences of any length");
    }
    return with_steps(graph, static_cast<std::int64_t>(*steps_));
  }

  void load_rates() {
    device_bytes_ = static_cast<std::uint64_t>(load_device_profile(profile_).memory_bytes);
    rates_ = device_rates(profile_);
  }

  std::uint64_t parameter_bytes(const Graph& graph) const {
    return static_cast<std::uint64_t>(kNumberBytes * graph.parameters() * (2 + optimizer_buffers_));
  }

  // The memory that --memory leaves to the plan. It is unlimited for `minimum`, which each policy
  // determines itself.
  std::uint64_t capacity(const Graph& graph) const {
    if (memory_ == "minimum") return kAmpleBytes;
    if (memory_ != "device") return parse_bytes("--memory", memory_);
    const std::uint64_t outside = parameter_bytes(graph);
    return device_bytes_ - std::min(device_bytes_, outside);
  }

  nlohmann::json plan_network(const Graph& graph, std::uint64_t batch) {
    lifetime_.batch = static_cast<std::int64_t>(batch);
    const TrainingStep training = training_step(graph, lifetime_);
    const StepTimes times = step_times(training, rates_);
    log_info("{}", heading(training));
    if (!step_bound_node(graph)) {
      log_info(
          "  sequences of {} steps; Dymem plans fixed shapes, so other lengths need other plans",
          graph.node(0).shape.height);
    }
    std::vector<Row> rows;
    for (const std::string_view part : split(policies_, ',')) {
      rows.push_back(
          plan_policy(training, times, find_policy("--policy", std::string(trim(part)))));
    }
    if (output_ != "-") printer_.print(table_of(rows).format(printer_.format()));
    return {{"network", network_json(training, parameter_bytes(graph))},
            {"batch", lifetime_.batch},
            {"policies", json_of(rows)}};
  }

  std::string heading(const TrainingStep& training) const {
    const Graph& graph = *training.graph;
    return fmt::format(
        "{}  batch {}  {} steps  {} parameters ({} with gradients and optimizer)  features {}  "
        "lower bound {}",
        graph.name(), training.options.batch, training.total_steps(),
        format_count(static_cast<double>(graph.parameters())),
        format_bytes(static_cast<double>(parameter_bytes(graph))),
        format_bytes(static_cast<double>(training.feature_bytes())),
        format_bytes(static_cast<double>(training.lower_bound())));
  }

  Row plan_policy(const TrainingStep& training, const StepTimes& times, const Policy& policy) {
    PlanRequest request = request_;
    request.training = &training;
    request.times = &times;
    request.capacity = capacity(*training.graph);
    const std::optional<std::uint64_t> minimum = minimum_capacity(policy, request);
    if (memory_ == "minimum" && minimum) request.capacity = *minimum;
    if (main_initial_ && policy.has_arenas(request)) {
      const auto sized = sized_capacity(policy, request, *main_initial_, beta_);
      request.capacity = sized.value_or(request.capacity);
    }
    request.record = true;
    const MemoryPlan plan = policy.plan(request);
    request.record = false;
    std::optional<std::int64_t> largest;
    if (largest_batch_) largest = batch_that_fits(training, policy);
    write_trace(training, plan);
    Row row = row_of(plan, static_cast<double>(lifetime_.batch), policy.name(), minimum);
    row.both("largest batch", "largest_batch", largest).keep("capacity_bytes", request.capacity);
    const nlohmann::json figures = plan_json(training, plan);
    for (const auto& [key, value] : figures.items()) row.keep(key, value);
    if (iterations_ > 1) row.keep("iterations", series(policy, request));
    if (minimum && plan.fits()) {
      row.keep("curve", curve(policy, request, *minimum, plan.peak_bytes));
    }
    return row;
  }

  nlohmann::json series(const Policy& policy, const PlanRequest& request) const {
    const auto found = run_iterations(policy, request, iterations_, beta_);
    if (!found) return nullptr;
    return {{"iterations", found->iterations},
            {"failed", found->failed},
            {"restarts", found->restarts},
            {"mean_iteration_s", found->mean_iteration_s}};
  }

  std::int64_t batch_that_fits(const TrainingStep& training, const Policy& policy) const {
    constexpr std::int64_t kMostBatch = 1 << 16;
    return largest_batch(
        [&](std::int64_t batch) {
          StepOptions options = lifetime_;
          options.batch = batch;
          const TrainingStep other = training_step(*training.graph, options);
          const StepTimes times = step_times(other, rates_);
          PlanRequest request = request_;
          request.training = &other;
          request.times = &times;
          request.capacity = capacity(*training.graph);
          return policy.fits(request);
        },
        memory_ == "minimum" ? 0 : kMostBatch);
  }

  nlohmann::json curve(const Policy& policy, PlanRequest request, std::uint64_t low,
                       std::uint64_t high) const {
    nlohmann::json list = nlohmann::json::array();
    for (int i = 0; i < curve_; ++i) {
      const double share = curve_ == 1 ? 0 : static_cast<double>(i) / (curve_ - 1);
      const double span = static_cast<double>(std::max(low, high) - low);
      request.capacity = low + static_cast<std::uint64_t>(share * span);
      const MemoryPlan plan = policy.plan(request);
      nlohmann::json point = {{"capacity_bytes", request.capacity},
                              {"status", plan.fits() ? "fits" : "fails"}};
      if (plan.fits()) point["iteration_s"] = plan.iteration_s;
      list.push_back(std::move(point));
    }
    return list;
  }

  void write_trace(const TrainingStep& training, const MemoryPlan& plan) {
    if (trace_.empty() || traced_) return;
    write_text(trace_, plan_trace_json(training, plan).dump() + "\n");
    traced_ = true;
  }

  // The columns of a plan; "-" where it does not fit.
  static Row row_of(const MemoryPlan& plan, double batch, const std::string& policy,
                    const std::optional<std::uint64_t>& minimum) {
    const auto mib = [](std::uint64_t bytes) {
      return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
    };
    const auto if_fits = [&](std::string text) { return plan.fits() ? std::move(text) : "-"; };
    return Row()
        .both("policy", "policy", policy)
        .show("peak MiB", plan.fits() ? mib(plan.peak_bytes) : "fails")
        .show("minimum MiB", minimum ? mib(*minimum) : "-")
        .keep("minimum_bytes", minimum ? nlohmann::json(*minimum) : nlohmann::json())
        .show("fragmentation %", if_fits(fmt::format("{:.1f}", 100 * plan.fragmentation_at_peak)))
        .show("moved MiB", if_fits(mib(plan.offloaded_bytes + plan.fetched_bytes)))
        .show("overlap", if_fits(format_seconds(Seconds(plan.overlap_s))))
        .show("iteration", if_fits(format_seconds(Seconds(plan.iteration_s))))
        .show("images/s", if_fits(fmt::format("{:.1f}", batch / plan.iteration_s)));
  }

  std::vector<std::uint64_t> batches_{128};
  std::optional<std::uint64_t> steps_;
  std::string policies_ = "dymem,vdnn-all,superneurons,liveness,none";
  std::string profile_ = "titan-x-maxwell", memory_ = "device";
  StepOptions lifetime_;
  PlanRequest request_;
  int optimizer_buffers_ = 1, curve_ = 0;
  bool largest_batch_ = true, print_network_ = false, overwrite_ = false, traced_ = false;
  Fork fork_ = Fork::share;
  int iterations_ = 1;
  std::optional<std::uint64_t> main_initial_;
  std::uint64_t beta_ = std::uint64_t{300} << 20;
  std::string output_, trace_;
  std::uint64_t device_bytes_ = 0;
  DeviceRates rates_;
  Printer printer_;
};

}  // namespace

const bool memory_registered = register_command<Memory>(CommandGroup::machines, 1);

}  // namespace hetsgd
