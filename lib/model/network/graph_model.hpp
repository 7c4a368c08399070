// Networks of images, sequences and tokens as models: a computation graph (graph/), its kernels
// (model/network/node_math.hpp) and a plan of its memory for every batch size (memory/).
//
// Score     : the input of the graph's softmax.
// Objective : softmax over the labels, as for other models.
// Blocks    : per node of the list that has parameters, all dense: conv, fc "NODE.weight" [outputs
//             x inputs] and "NODE.bias"; lstm "NODE.weight" [4 units x (inputs + units)] and
//             "NODE.bias"; bn, norm "NODE.scale" and "NODE.shift"; embed "NODE.tokens",
//             "NODE.positions", "NODE.segments"; linear and the softmax of tokens "NODE.weight" and
//             "NODE.bias".
// Initial   : conv: variance 2 / fan_in (He and others 2015) or as fc (usual_filters); fc and lstm
//             by --init (fan_in); scales 1, the rest 0. Networks of tokens (Radford and others
//             2019, Devlin and others 2018): every matrix with deviation 0.02 times the `init` of
//             its node. Causal ones widen the law so that it has this deviation when it is cut.
// Decay     : --weight-decay acts on all blocks, or on weights alone (--no-decay-all). Biases,
//             scales and shifts of networks of tokens never decay.
// bn        : training uses the statistics of the batch. There are no running statistics, because
//             no algorithm would move them. A measurement estimates them at the measured model from
//             fixed training rows (estimate_statistics).
// dropout   : masks are functions of the run's seed, the batch's place in the sequence of samples,
//             node and element, so that they are the same on every cluster.
// Work      : sum of graph/work.hpp over the nodes, forward and backward. work_on() a device: under
//             a policy that moves nothing (liveness, the default) the same, with convolutions
//             counted convolution_factor() times. Under any other policy it is given_s, the time of
//             the plan's iteration with transfers. Sequences are charged at their steps, rounded up
//             to kStepsPlanned: padded those of the longest row, packed their mean.
// Sequences : a network can read rows of unequal lengths (Dataset::sequences) if only its lstm,
//             relu, add and concat nodes read every step (graph/variants.hpp). A batch is padded to
//             its longest row, and an lstm outputs a row's own last step. So a row's result does
//             not depend on the other rows of its batch. Dymem is for fixed shapes (its section
//             4.4), so a plan fits one length: one is kept per batch size and per length rounded
//             up to kStepsPlanned.
// Tokens    : rows are padded to the longest of their batch, or packed one behind the other. No
//             position reads padding, which has no target, so its gradients are exact zeros. Plans
//             of packed rows are kept per number of tokens rounded up to kTokensPlanned; the clock
//             is charged for rows of the mean length. The loss and the gradient are means over
//             the batch's targets: all positions of a causal network, else masked ones
//             (masking.hpp).
// Memory    : activations of a batch lie in one arena by the plan of --memory-policy; gradients are
//             the same bits under every plan. When a plan fetches depends on the rates of the
//             device (plan_by()).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "memory/plan.hpp"
#include "model/mlp.hpp"
#include "model/registry.hpp"

namespace hetsgd {

// Shape of the network's input.
ImageShape image_of(const Graph& graph);

// The data that a network is for: images of its input's shape and a label for each of its classes,
// or rows of its tokens.
DataShape data_shape(const Graph& graph);

// The number of tokens of a network for the data: one more than they have if it masks some.
std::int64_t tokens_for(const Graph& graph, const DataShape& data);

// Throws Error(usage) if the network does not fit the images, sequences, tokens or labels of the
// data; the message opens with --model.
void check_network_reads(const Graph& graph, const DataShape& data);

// The initial law of convolutions' filters.
enum class FilterLaw {
  he,    // variance 2 / fan_in
  init,  // as dense layers
};
// The default of --conv-init. Values that pass many convolutions keep their size with `he`, and
// shrink with `init`. Few convolutions without bn do not need `he`, and may diverge from it:
// lenet-002 does with momentum 0.9 at a learning rate of 0.05.
FilterLaw usual_filters(const Graph& graph);

// How a batch of sequences of different lengths is computed and charged.
enum class Lengths {
  padded,  // all rows have the steps of the longest
  packed,  // a step computes only rows that have not ended: a batch costs its mean length
};

struct GraphModelOptions {
  // The initial law of fc and lstm nodes. With `fans` the scores of lenet-5 begin so large that
  // momentum 0.9 at a learning rate of 0.05 loses three points of accuracy on 4,000 digits.
  MlpOptions dense = {.init = InitialLaw::fan_in};
  FilterLaw conv_init = FilterLaw::he;
  bool decay_all = true;
  std::uint64_t bn_samples = 2000;
  Lengths lengths = Lengths::padded;
  double mask_share = 0.15;
  std::vector<double> mask_split = {0.8, 0.1};  // of the targets: masked, replaced
  std::string memory_policy = "liveness";
  std::optional<std::uint64_t> activation_memory = {};

  void declare(OptionSet& set);
  void declare_masks(OptionSet& set);  // of networks that predict masked tokens
  // Throws Error(usage) for an unknown policy or a split that is none.
  void validate() const;
};

// Instantiated for float and double. With sequences the network has the steps of each batch. Throws
// Error(usage) if the graph does not fit the images, sequences or labels of the data; the message
// opens with --model.
template <class Real>
std::unique_ptr<BasicModel<Real>> make_graph_model(const Graph& graph, const DataShape& data,
                                                   const GraphModelOptions& options);

// Whether --model `name` is a network with options of its own (resnet-32?size=16) or the file of
// one. Built-in networks are in the registry under their names.
bool is_network_name(const std::string& name);
// The model of such a network. The result lives as long as the program.
const RegisteredModel& network_model(const std::string& name);

}  // namespace hetsgd
