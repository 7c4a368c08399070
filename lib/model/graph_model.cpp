#include "model/graph_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/networks.hpp"
#include "graph/work.hpp"
#include "model/graph_context.hpp"
#include "model/objective.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kScoredTogether = 64;  // samples: room for more would be of no use

ImageShape image_of(const Graph& graph) {
  const Shape& input = graph.node(0).shape;
  return {static_cast<Index>(input.channels), static_cast<Index>(input.height),
          static_cast<Index>(input.width)};
}

bool has_statistics(const Graph& graph) { return statistics_offsets(graph).back() > 0; }

// A bn whose output goes into an add alone ends a residual branch.
bool ends_residual(const Graph& graph, int node) {
  const std::vector<int>& consumers = graph.consumers(node);
  return consumers.size() == 1 && graph.node(consumers.front()).type == NodeType::add;
}

// Drawn numbers are cut at two standard deviations; what is left has the variance 2 / fan_in.
double he_deviation(std::int64_t fan_in) {
  constexpr double kLeft = 0.7737413035499232;
  return std::sqrt(2 / (kLeft * static_cast<double>(fan_in)));
}

template <class Real>
class GraphModel final : public BasicModel<Real> {
 public:
  using typename BasicModel<Real>::Context;

  GraphModel(const Graph& graph, const DataShape& data, const GraphModelOptions& options)
      : BasicModel<Real>(data), graph_(graph), options_(options) {
    for (int node = 1; node < graph_.size(); ++node) add_blocks(node);
    const std::size_t expected = parameter_offsets(graph_).back();
    HETSGD_CHECK_EQ(this->parameters(), expected);
  }

  std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const override {
    return std::make_unique<GraphContext<Real>>(device, graph_, plan_rules());
  }

  Work work_on(const DeviceRates& rates, double samples) const {
    if (&plan_rules().policy == &liveness_policy()) return work_of_samples(samples, rates);
    const auto batch = static_cast<std::int64_t>(std::llround(std::max(1.0, samples)));
    return {.given_s = planned_time(graph_, plan_rules(), batch, rates).count()};
  }

  std::vector<std::uint64_t> layer_sizes() const override {
    std::vector<std::uint64_t> sizes{image_of(graph_).size()};
    for (const Node& node : graph_.nodes()) {
      const bool layer =
          node.type == NodeType::conv || node.type == NodeType::fc || node.type == NodeType::lstm;
      if (layer) sizes.push_back(static_cast<std::uint64_t>(node.shape.numbers()));
    }
    return sizes;
  }

  Work gradient_work(const BatchShape& batch) const override {
    return work_of_samples(batch.samples, {});
  }

  ScoringStatistics statistics() const override {
    return {statistics_offsets(graph_).back(), options_.bn_samples};
  }

  void estimate_statistics(Context& context, const Batch& batch, const Real* w,
                           Real* statistics) const override {
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    scratch.stage(batch);
    ScoreEnds<Real> ends(scratch, batch, 0, batch.size(), this->outputs(), nullptr);
    PlanExecutor<Real>& executor = scratch.executor(batch.size());
    executor.forward({.parameters = w, .drops = false}, ends, scratch.arena(executor));
    const std::vector<std::size_t> offsets = statistics_offsets(graph_);
    for (int node = 0; node < graph_.size(); ++node) {
      const auto at = static_cast<std::size_t>(node);
      const std::size_t count = offsets[at + 1] - offsets[at];
      if (count > 0) scratch.device().copy(count, executor.mask(node), statistics + offsets[at]);
    }
  }

 protected:
  DeferredSum learn(Context& context, const Batch& batch, const Real* w,
                    Sink<Real> sink) const override {
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    scratch.stage(batch);
    LearnEnds<Real> ends(scratch, batch, this->outputs());
    PlanExecutor<Real>& executor = scratch.executor(batch.size());
    Real* const arena = scratch.arena(executor);
    const std::uint64_t place = batch.augmentation().first;
    const GraphPass<Real> pass{.parameters = w,
                               .to = sink.to,
                               .alpha = sink.alpha,
                               .beta = sink.beta,
                               .seed = batch.augmentation().seed,
                               .draw = static_cast<std::uint32_t>(place ^ (place >> 32))};
    executor.forward(pass, ends, arena);
    executor.backward(pass, arena);
    return ends.loss();
  }

  // Without statistics, of a bn those of the batch; then the batch is scored in one piece.
  DeferredSum score(Context& context, const Batch& batch, const Real* w,
                    Real* logits) const override {
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    scratch.stage(batch);
    const bool by_batch = has_statistics(graph_) && context.statistics.empty();
    const std::size_t together = by_batch ? batch.size() : kScoredTogether;
    for (std::size_t first = 0; first < batch.size(); first += together) {
      const std::size_t count = std::min(together, batch.size() - first);
      ScoreEnds<Real> ends(scratch, batch, first, count, this->outputs(),
                           logits + first * this->outputs());
      PlanExecutor<Real>& executor = scratch.executor(count);
      executor.forward({.parameters = w, .drops = false, .statistics = context.statistics.data()},
                       ends, scratch.arena(executor));
    }
    return usual_objective<Real>(this->data().task)
        .score(scratch.device(), scratch.labels(), this->outputs(), nullptr, logits);
  }

  double sample_scratch() const override {
    double numbers = 0;
    for (const Node& node : graph_.nodes()) numbers += static_cast<double>(node.shape.numbers());
    return 2 * numbers;
  }

 private:
  void add_blocks(int index) {
    const Node& node = graph_.node(index);
    const auto outputs = static_cast<std::size_t>(node.shape.channels);
    switch (node.type) {
      case NodeType::conv:
      case NodeType::fc: {
        const std::int64_t inputs = filter_size(graph_, index);
        const bool he = node.type == NodeType::conv && options_.conv_init == FilterLaw::he;
        const std::vector<std::uint64_t> units{static_cast<std::uint64_t>(inputs), outputs};
        this->add_block(
            {.name = node.name + ".weight",
             .rows = outputs,
             .cols = static_cast<std::size_t>(inputs),
             .init_std = he ? he_deviation(inputs) : options_.dense.initial_std(units, 0)});
        if (node.bias) this->add_block(vector_block(node.name + ".bias", outputs));
        return;
      }
      case NodeType::bn: {
        const bool zero = options_.zero_residual && ends_residual(graph_, index);
        this->add_block(vector_block(node.name + ".scale", outputs, zero ? 0.0 : 1.0));
        this->add_block(vector_block(node.name + ".shift", outputs));
        return;
      }
      case NodeType::lstm: {
        const auto joint =
            static_cast<std::uint64_t>(graph_.input_shape(index).channels + node.units);
        const auto gates = static_cast<std::size_t>(4 * node.units);
        this->add_block({.name = node.name + ".weight",
                         .rows = gates,
                         .cols = joint,
                         .init_std = options_.dense.initial_std({joint, gates}, 0)});
        this->add_block(vector_block(node.name + ".bias", gates));
        return;
      }
      default:
        return;
    }
  }

  // Of one dimension: a bias, or what bn scales and shifts by.
  ParameterBlock vector_block(std::string name, std::size_t size, double value = 0) const {
    return {.name = std::move(name),
            .cols = size,
            .initial_value = value,
            .decays = options_.decay_all};
  }

  PlanRules plan_rules() const {
    return {find_policy("--memory-policy", options_.memory_policy), options_.activation_memory};
  }

  // Affine in the samples.
  Work work_of_samples(double samples, const DeviceRates& rates) const {
    const Work fixed = work_of(0, rates), more = work_of(1, rates) - fixed;
    return {fixed.operations + samples * more.operations, fixed.bytes + samples * more.bytes,
            fixed.launches + samples * more.launches};
  }

  Work work_of(std::int64_t batch, const DeviceRates& rates) const {
    Work sum;
    for (int node = 1; node < graph_.size(); ++node) {
      const std::vector<int>& from = graph_.node(node).from;
      const bool input_gradient =
          std::any_of(from.begin(), from.end(), [](int i) { return i > 0; });
      const double factor = convolution_factor(graph_, node, rates);
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        Work work = node_work(graph_, node, pass, batch, input_gradient);
        work.operations *= factor;
        sum += work;
      }
    }
    return sum;
  }

  Graph graph_;
  GraphModelOptions options_;
};

class GraphModelFactory final : public ModelFactory {
 public:
  explicit GraphModelFactory(std::string name) : name_(std::move(name)) {}

  void declare(OptionSet& set) override { options_.declare(set); }
  void validate() const override {
    options_.validate();
    find_graph("--model", name_);
  }
  std::unique_ptr<BasicModel<float>> make(const DataShape& data) const override {
    return make_graph_model<float>(find_graph("--model", name_), data, options_);
  }
  std::unique_ptr<BasicModel<double>> make_double(const DataShape& data) const override {
    return make_graph_model<double>(find_graph("--model", name_), data, options_);
  }

 private:
  std::string name_;
  GraphModelOptions options_;
};

RegisteredModel registered(const std::string& name, const std::string& summary) {
  return {{.name = name,
           .title = name,
           .idea = fmt::format(
               "A network for images: {}. Its memory is planned for each batch size.", summary),
           .paper = "chapter 4 of paper 004; `hetsgd memory " + name + "` plans its memory",
           .objective = "softmax over the labels",
           .blocks = "of each conv and fc node weight [outputs x inputs] and bias; of each bn node "
                     "scale and shift; all dense",
           .cost = "the operations of its nodes, forward and backward",
           .reads_images = true},
          [name] { return std::make_unique<GraphModelFactory>(name); }};
}

const bool networks_registered = [] {
  for (const NetworkInfo& info : builtin_networks()) {
    register_model_raw(registered(info.name, info.summary));
  }
  return true;
}();

}  // namespace

void GraphModelOptions::declare(OptionSet& set) {
  dense.declare_init(set);
  std::vector<std::string> names;
  for (const Policy* policy : all_policies()) names.push_back(policy->name());
  set.add_choice("conv_init", conv_init, {{"he", FilterLaw::he}, {"init", FilterLaw::init}},
                 "filters of conv begin with variance 2 / fan_in, or by --init, which large steps "
                 "without bn need");
  set.add("zero_residual", zero_residual,
          "scales of the bn that end a residual branch begin at 0, not 1");
  set.add("decay_all", decay_all,
          "--weight-decay acts on biases and on scales and shifts of bn, too");
  set.add("bn_samples", bn_samples,
          "training images of which the statistics of bn are made before a measurement")
      .unit("samples")
      .range(1, 1e9);
  set.add("memory_policy", memory_policy,
          fmt::format("how the memory of a batch is planned: {}", fmt::join(names, ", ")));
  set.add("activation_memory", activation_memory,
          "memory of a batch's activations, e.g. 2G; auto: what the policy needs at least")
      .unit("bytes")
      .range(1, 1e15);
}

void GraphModelOptions::validate() const {
  dense.validate_init(InitialLaw::fan_in);
  find_policy("--memory-policy", memory_policy);
}

template <class Real>
std::unique_ptr<BasicModel<Real>> make_graph_model(const Graph& graph, const DataShape& data,
                                                   const GraphModelOptions& options) {
  const std::size_t classes = data_shape(graph).label_count;
  const ImageShape expected = image_of(graph);
  const auto text = [](const ImageShape& s) {
    return fmt::format("{}x{}x{}", s.channels, s.height, s.width);
  };
  if (data.image != expected) {
    throw with_hint(
        usage_error("--model: {} reads images of {}, but the training data have {}", graph.name(),
                    text(expected), data.image.size() > 0 ? text(data.image) : "none"),
        "--image 1x28x28 makes images of that shape of sparse rows; resnet-32?size=16 "
        "gives a network another size");
  }
  if (data.outputs() != classes) {
    throw with_hint(usage_error("--model: {} has {} classes, but the data have {} labels",
                                graph.name(), classes, data.outputs()),
                    fmt::format("a network that has the key takes {}?classes={}",
                                graph.name().substr(0, graph.name().find('?')), data.outputs()));
  }
  return std::make_unique<GraphModel<Real>>(graph, data, options);
}

template std::unique_ptr<BasicModel<float>> make_graph_model<float>(const Graph&, const DataShape&,
                                                                    const GraphModelOptions&);
template std::unique_ptr<BasicModel<double>> make_graph_model<double>(const Graph&,
                                                                      const DataShape&,
                                                                      const GraphModelOptions&);

DataShape data_shape(const Graph& graph) {
  const Shape& scores = graph.node(graph.node(graph.size() - 1).from.front()).shape;
  return {.label_count = static_cast<Index>(scores.numbers()),
          .task = Task::multiclass,
          .image = image_of(graph)};
}

bool is_network(const Model& model) {
  return dynamic_cast<const GraphModel<float>*>(&model) != nullptr;
}

Work network_work(const Model& model, const DeviceRates& rates, double samples) {
  return dynamic_cast<const GraphModel<float>&>(model).work_on(rates, samples);
}

bool is_network_name(const std::string& name) {
  return name.find('?') != std::string::npos || name.ends_with(".json") ||
         std::filesystem::is_regular_file(name);
}

const RegisteredModel& network_model(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, RegisteredModel> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  find_graph("--model", name);  // refuses what is none
  return known.emplace(name, registered(name, "of this specification or file")).first->second;
}

}  // namespace hetsgd
