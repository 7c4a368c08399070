#include "model/network/graph_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"
#include "model/network/graph_context.hpp"
#include "model/network/token_math.hpp"
#include "model/objective.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kScoredTogether = 64;  // samples: room for more would be of no use

bool has_statistics(const Graph& graph) { return statistics_offsets(graph).back() > 0; }

int count_of(const Graph& graph, NodeType type) {
  return static_cast<int>(std::ranges::count(graph.nodes(), type, &Node::type));
}

// The variance of normal numbers that are cut at two standard deviations.
constexpr double kLeft = 0.7737413035499232;

// After the cut the variance is 2 / fan_in.
double he_deviation(std::int64_t fan_in) {
  return std::sqrt(2 / (kLeft * static_cast<double>(fan_in)));
}

// The deviation of matrices of networks of tokens before the cut. BERT's source means this one.
double token_deviation(const Graph& graph) {
  constexpr double kDeviation = 0.02;
  return is_causal(graph) ? kDeviation / std::sqrt(kLeft) : kDeviation;
}

DataShape learnt_by(const Graph& graph, DataShape data) {
  data.masked_tokens = graph.reads_tokens() && !is_causal(graph);
  return data;
}

template <class Real>
class GraphModel final : public BasicModel<Real> {
 public:
  using typename BasicModel<Real>::Context;

  GraphModel(const Graph& graph, const DataShape& data, const GraphModelOptions& options)
      : BasicModel<Real>(learnt_by(graph, data)),
        graph_(graph.reads_tokens() ? with_masked(graph, options.mask_share) : graph),
        options_(options) {
    for (int node = 1; node < graph_.size(); ++node) add_blocks(node);
    const std::size_t expected = parameter_offsets(graph_).back();
    HETSGD_CHECK_EQ(this->parameters(), expected);
  }

  std::unique_ptr<Context> make_context(BasicDevice<Real>& device) const override {
    if (std::ranges::any_of(graph_.nodes(), [](const Node& node) { return node.scores; })) {
      refuse("--model", fmt::format("{} with stored scores", graph_.name()),
             "a network without, because scores=1 is for plans and charges alone");
    }
    const bool gpu = device.stages_copies() && rates_of_gpu_;
    return std::make_unique<GraphContext<Real>>(device, graph_, plan_rules(),
                                                gpu ? rates_of_gpu_(device.name()) : host_rates());
  }

  bool is_planned() const override { return true; }
  void plan_by(RatesOfGpu rates_of) override { rates_of_gpu_ = std::move(rates_of); }

  double counted_steps(const BatchShape& batch) const override {
    if (graph_.reads_tokens()) return steps_of(batch);
    if (!reads_sequences()) return 0;
    return packs() ? batch.frames / batch.samples : batch.steps;
  }

  Work work_on(const DeviceRates& rates, const BatchShape& shape) const override {
    if (&plan_rules().policy == &liveness_policy()) return work_of_batch(shape, rates);
    const auto batch = static_cast<std::int64_t>(std::llround(std::max(1.0, shape.samples)));
    const auto seconds = [&](const Graph& graph) {
      return planned_time(graph, plan_rules(), batch, rates).count();
    };
    if (graph_.reads_tokens()) {
      return {.given_s = seconds(with_steps(
                  graph_, std::min(planned_steps(counted_steps(shape)), most_steps(graph_))))};
    }
    if (!reads_sequences()) return {.given_s = seconds(graph_)};
    return {.given_s = seconds(with_steps(graph_, planned_steps(counted_steps(shape))))};
  }

  std::vector<std::uint64_t> layer_sizes() const override {
    if (graph_.reads_tokens()) return token_layer_sizes();
    std::vector<std::uint64_t> sizes{reads_sequences() ? this->data().frame_numbers
                                                       : image_of(graph_).size()};
    for (const Node& node : graph_.nodes()) {
      const bool layer =
          node.type == NodeType::conv || node.type == NodeType::fc || node.type == NodeType::lstm;
      if (layer) sizes.push_back(static_cast<std::uint64_t>(node.shape.numbers()));
    }
    return sizes;
  }

  Work gradient_work(const BatchShape& batch) const override { return work_of_batch(batch, {}); }

  std::size_t losses(const Batch& batch) const override {
    if (!graph_.reads_tokens()) return batch.size();
    std::size_t sum = 0;
    for (const Index row : batch.rows()) {
      sum += token_rules().targets(batch.data().tokens.length[row]);
    }
    return sum;
  }
  std::vector<std::uint32_t> targets(const Batch& batch) const override {
    if (!graph_.reads_tokens()) return {};
    return token_batch(batch, 0, batch.size(), token_rules(), MaskDraw::measurement).target;
  }
  bool ranks_in_memory() const override { return !graph_.reads_tokens(); }

  ScoringStatistics statistics() const override {
    return {statistics_offsets(graph_).back(), options_.bn_samples};
  }

  void estimate_statistics(Context& context, const Batch& batch, const Real* w,
                           Real* statistics) const override {
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    scratch.stage(batch);
    const BatchPart whole(batch, 0, batch.size());
    PlanExecutor<Real>& executor = scratch.executor(whole, Passes::forward);
    executor.forward(
        {.parameters = w, .drops = false, .lengths = {whole.lengths}, .check = &context.check},
        scratch.ends(whole, [](const Real*, Real*) {}), scratch.arena(executor));
    const std::vector<std::size_t> offsets = statistics_offsets(graph_);
    for (int node = 0; node < graph_.size(); ++node) {
      const std::size_t begin = offsets[at(node)], count = offsets[at(node) + 1] - begin;
      if (count > 0) scratch.device().copy(count, executor.mask(node), statistics + begin);
    }
  }

 protected:
  // Sequences are ordered longest first even if they are padded, so that dropout is the same.
  DeferredSum learn(Context& context, const Batch& given, const Real* w,
                    Sink<Real> sink) const override {
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    if (reads_sequences()) scratch.ordered = longest_first(given);
    const Batch& batch = reads_sequences() ? scratch.ordered : given;
    scratch.stage(batch);
    const BatchPart whole(batch, 0, batch.size(), token_rules());
    const std::size_t n = batch.size();
    PlanExecutor<Real>& executor = scratch.executor(whole);
    Real* const arena = scratch.arena(executor);
    const std::uint64_t place = batch.augmentation().first;
    const GraphPass<Real> pass{.parameters = w,
                               .to = sink.to,
                               .alpha = sink.alpha,
                               .beta = sink.beta,
                               .seed = batch.augmentation().seed,
                               .draw = static_cast<std::uint32_t>(place ^ (place >> 32)),
                               .lengths = {whole.lengths, packs()},
                               .rows = whole.tokens.spans()};
    DeferredSum loss = 0.0;
    const auto ends = scratch.ends(whole, [&](const Real* Z, Real* Y) {
      BasicDevice<Real>& device = scratch.device();
      if (graph_.reads_tokens()) {
        loss = learn_tokens(device, graph_, pass, whole.tokens, Z, Y);
        return;
      }
      device.copy(n * this->outputs(), Z, Y);
      loss = objective_.learn(device, scratch.labels(), this->outputs(), nullptr,
                              Real(1) / static_cast<Real>(n), Y);
    });
    executor.forward(pass, ends, arena);
    executor.backward(pass, arena);
    return loss;
  }

  // Scores of tokens are ranked block by block, for some rows at a time.
  double rank_batch(Context& context, const Batch& batch, const Real* w, std::size_t k,
                    std::uint32_t* top) const override {
    if (!graph_.reads_tokens()) return BasicModel<Real>::rank_batch(context, batch, w, k, top);
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    BasicDevice<Real>& device = scratch.device();
    double loss = 0;
    for (std::size_t first = 0; first < batch.size(); first += kScoredTogether) {
      const BatchPart part(batch, first, std::min(kScoredTogether, batch.size() - first),
                           token_rules(), MaskDraw::measurement);
      const std::size_t count = part.tokens.targets() * k;
      scratch.best.reset(device, count);
      auto* const best = reinterpret_cast<std::uint32_t*>(scratch.best.data());
      const auto ends = scratch.ends(part, [&](const Real* Z, Real*) {
        loss += rank_tokens(device, graph_, w, part.tokens, Z, k, best);
      });
      PlanExecutor<Real>& executor = scratch.executor(part, Passes::forward);
      executor.forward(
          {.parameters = w, .drops = false, .rows = part.tokens.spans(), .check = &context.check},
          ends, scratch.arena(executor));
      device.download(top, best, count * sizeof(std::uint32_t));
      top += count;
    }
    return loss;
  }

  // Without given statistics a bn uses those of the batch; then the batch is scored in one piece.
  DeferredSum score(Context& context, const Batch& batch, const Real* w,
                    Real* logits) const override {
    if (graph_.reads_tokens()) {
      refuse("--model", fmt::format("{}, which scores tokens", graph_.name()),
             "a model that scores samples");
    }
    auto& scratch = static_cast<GraphContext<Real>&>(context);
    scratch.stage(batch);
    const bool by_batch = has_statistics(graph_) && context.statistics.empty();
    const std::size_t together = by_batch ? batch.size() : kScoredTogether;
    for (std::size_t first = 0; first < batch.size(); first += together) {
      const std::size_t count = std::min(together, batch.size() - first);
      const BatchPart part(batch, first, count);
      const auto ends = scratch.ends(part, [&](const Real* Z, Real*) {
        scratch.device().copy(count * this->outputs(), Z, logits + first * this->outputs());
      });
      PlanExecutor<Real>& executor = scratch.executor(part, Passes::forward);
      executor.forward({.parameters = w,
                        .drops = false,
                        .statistics = context.statistics.data(),
                        .lengths = {part.lengths},
                        .check = &context.check},
                       ends, scratch.arena(executor));
    }
    return objective_.score(scratch.device(), scratch.labels(), this->outputs(), nullptr, logits);
  }

  double sample_scratch() const override {
    double numbers = static_cast<double>(graph_.node(0).tokens) * targets_of_one();
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
        this->add_block(vector_block(node.name + ".scale", outputs, 1));
        this->add_block(vector_block(node.name + ".shift", outputs));
        return;
      }
      case NodeType::norm:
        this->add_block(vector_block(node.name + ".scale", outputs, 1));
        if (node.bias) this->add_block(vector_block(node.name + ".shift", outputs));
        return;
      case NodeType::embed:
        add_matrix(node.name + ".tokens", graph_.node(0).tokens, outputs);
        if (node.positions == Positions::learned) {
          add_matrix(node.name + ".positions", node.block, outputs);
        }
        if (node.segments > 0) add_matrix(node.name + ".segments", node.segments, outputs);
        return;
      case NodeType::linear:
        add_matrix(node.name + ".weight", node.units,
                   static_cast<std::size_t>(filter_size(graph_, index)), node.init);
        if (node.bias) this->add_block(vector_block(node.name + ".bias", outputs));
        return;
      case NodeType::softmax: {
        const auto kinds = static_cast<std::size_t>(node.units);
        if (kinds > 0 && node.tied.empty()) add_matrix(node.name + ".weight", node.units, outputs);
        if (node.bias) this->add_block(vector_block(node.name + ".bias", kinds));
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
      case NodeType::input:
      case NodeType::pool:
      case NodeType::relu:
      case NodeType::lrn:
      case NodeType::dropout:
      case NodeType::add:
      case NodeType::concat:
      case NodeType::subsample:
      case NodeType::gelu:
      case NodeType::attention:
        return;
    }
  }

  // A matrix of a network of tokens.
  void add_matrix(std::string name, std::int64_t rows, std::size_t cols, double factor = 1) {
    this->add_block({.name = std::move(name),
                     .rows = static_cast<std::size_t>(rows),
                     .cols = cols,
                     .init_std = factor * token_deviation(graph_)});
  }

  // A block of one dimension: a bias, or the scale or shift of a bn or norm node.
  ParameterBlock vector_block(std::string name, std::size_t size, double value = 0) const {
    return {.name = std::move(name),
            .cols = size,
            .initial_value = value,
            .decays = options_.decay_all && !graph_.reads_tokens()};
  }

  PlanRules plan_rules() const {
    return {find_policy("--memory-policy", options_.memory_policy), options_.activation_memory};
  }

  bool reads_sequences() const { return this->data().frame_numbers > 0; }
  bool packs() const { return options_.lengths == Lengths::packed; }

  TokenRules token_rules() const {
    return {.causal = is_causal(graph_),
            .packed = packs(),
            .masks = {.share = options_.mask_share,
                      .masked = options_.mask_split[0],
                      .replaced = options_.mask_split[1],
                      .kinds = this->data().token_kinds}};
  }

  double targets_of_one() const {
    const std::int64_t steps = graph_.node(0).shape.height;
    return graph_.reads_tokens() ? static_cast<double>(targets_of_row(graph_, steps)) : 0;
  }

  // Steps that rows of tokens are charged for: those of the longest, or packed their mean.
  double steps_of(const BatchShape& batch) const {
    if (batch.steps == 0) return static_cast<double>(graph_.node(0).shape.height);
    const double steps = packs() ? batch.frames / batch.samples : std::round(batch.steps);
    return std::clamp(steps, 1.0, static_cast<double>(most_steps(graph_)));
  }

  // The kinds of tokens, the widths of the embedding and the linear layers, the kinds again.
  std::vector<std::uint64_t> token_layer_sizes() const {
    std::vector<std::uint64_t> sizes{static_cast<std::uint64_t>(graph_.node(0).tokens)};
    for (const Node& node : graph_.nodes()) {
      if (node.type != NodeType::embed && node.type != NodeType::linear) continue;
      sizes.push_back(static_cast<std::uint64_t>(node.units));
    }
    sizes.push_back(sizes.front());
    return sizes;
  }

  // Affine in the samples, for sequences in the steps, and for tokens between whole steps.
  Work work_of_batch(const BatchShape& batch, const DeviceRates& rates) const {
    if (graph_.reads_tokens()) {
      const auto whole = static_cast<std::int64_t>(steps_of(batch));
      const double rest = steps_of(batch) - static_cast<double>(whole);
      const Work least = work_of_samples(with_steps(graph_, whole), batch.samples, rates);
      if (rest == 0) return least;
      const Work more = work_of_samples(with_steps(graph_, whole + 1), batch.samples, rates);
      return affine(least, more - least, rest);
    }
    if (!reads_sequences()) return work_of_samples(graph_, batch.samples, rates);
    const Work one = work_of_samples(with_steps(graph_, 1), batch.samples, rates);
    const Work two = work_of_samples(with_steps(graph_, 2), batch.samples, rates);
    return affine(one, two - one, counted_steps(batch) - 1);
  }

  Work work_of_samples(const Graph& graph, double samples, const DeviceRates& rates) const {
    const Work fixed = work_of(graph, 0, rates);
    return affine(fixed, work_of(graph, 1, rates) - fixed, samples);
  }

  static Work affine(const Work& fixed, const Work& more, double times) {
    return {fixed.operations + times * more.operations, fixed.bytes + times * more.bytes,
            fixed.launches + times * more.launches};
  }

  static Work work_of(const Graph& graph, std::int64_t batch, const DeviceRates& rates) {
    Work sum;
    for (int node = 1; node < graph.size(); ++node) {
      const std::vector<int>& from = graph.node(node).from;
      const bool input_gradient =
          std::any_of(from.begin(), from.end(), [](int i) { return i > 0; });
      const double factor = convolution_factor(graph, node, rates);
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        Work work = node_work(graph, node, pass, batch, input_gradient);
        work.operations *= factor;
        sum += work;
      }
    }
    return sum;
  }

  const BasicObjective<Real>& objective_ = usual_objective<Real>(this->data().task);
  Graph graph_;
  GraphModelOptions options_;
  RatesOfGpu rates_of_gpu_;  // null: those of a host
};

}  // namespace

FilterLaw usual_filters(const Graph& graph) {
  constexpr int kFew = 4;
  const int convolutions = count_of(graph, NodeType::conv);
  const bool few = convolutions > 0 && convolutions <= kFew;
  return few && count_of(graph, NodeType::bn) == 0 ? FilterLaw::init : FilterLaw::he;
}

void GraphModelOptions::declare(OptionSet& set) {
  dense.declare_init(set);
  set.add_choice("conv_init", conv_init, {{"he", FilterLaw::he}, {"init", FilterLaw::init}},
                 "Law of the initial filters of convolutions. he: variance 2 / fan_in; init: the "
                 "law of --init, the default of networks of at most four convolutions without bn.");
  set.add("decay_all", decay_all,
          "Apply --weight-decay to biases and to scales and shifts of bn, too.");
  set.add("bn_samples", bn_samples,
          "Training images from which the statistics of bn are computed before an evaluation.")
      .unit("samples")
      .range(1, 1e9);
  set.add_choice("lengths", lengths, {{"padded", Lengths::padded}, {"packed", Lengths::packed}},
                 "How a batch of sequences or rows of tokens of different lengths is computed. "
                 "padded computes every row to the end of the longest one, packed to its own end.");
  set.add("memory_policy", memory_policy,
          fmt::format("Policy that plans the memory of a batch's activations: {}.",
                      fmt::join(policy_names(), ", ")));
  set.add("activation_memory", activation_memory,
          "Memory for the activations of a batch, for example 2G. auto: the least that "
          "--memory-policy needs.")
      .unit("bytes")
      .range(1, 1e15);
}

void GraphModelOptions::declare_masks(OptionSet& set) {
  set.add("mask_share", mask_share, "Share of a row's tokens that are masked and predicted.")
      .range(0, 1)
      .above(0);
  set.add("mask_split", mask_split,
          "Shares of the tokens to predict that are replaced by the mask and by a random token. "
          "The rest keep their own token.")
      .range(0, 1);
}

void GraphModelOptions::validate() const {
  dense.validate_init(InitialLaw::fan_in);
  find_policy("--memory-policy", memory_policy);
  if (mask_split.size() == 2 && mask_split[0] + mask_split[1] <= 1) return;
  refuse("--mask-split", fmt::format("{}", fmt::join(mask_split, ",")),
         "two shares, replaced by the mask and by a random token, of at most 1 together",
         "0.8,0.1 is BERT's; 1,0 shows masks alone");
}

template <class Real>
std::unique_ptr<BasicModel<Real>> make_graph_model(const Graph& graph, const DataShape& data,
                                                   const GraphModelOptions& options) {
  check_network_reads(graph, data);
  if (options.lengths == Lengths::packed && data.frame_numbers == 0 && !graph.reads_tokens()) {
    refuse("--lengths", "packed for images", "training data of sequences, whose lengths differ",
           "generate:video makes some");
  }
  return std::make_unique<GraphModel<Real>>(graph, data, options);
}

template std::unique_ptr<BasicModel<float>> make_graph_model<float>(const Graph&, const DataShape&,
                                                                    const GraphModelOptions&);
template std::unique_ptr<BasicModel<double>> make_graph_model<double>(const Graph&,
                                                                      const DataShape&,
                                                                      const GraphModelOptions&);

}  // namespace hetsgd
