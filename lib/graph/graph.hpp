// A network as a list of nodes, inputs before users: its computation, not how or where it runs.
//
// Purpose : the shapes, parameters and uses of a training step. They decide its work (work.hpp),
//           its memory (memory/) and its execution (model/network/).
// Order   : node 0 is `input`; the last node is `softmax`, which includes the loss.
// Tokens  : an input of tokens holds their numbers, [1, steps, 1]. An embed turns them into a map
//           in token order, which linear, norm, gelu, attention, relu, dropout, add and the softmax
//           of tokens read. The parameters do not depend on the number of steps.
// Units   : shapes are elements per sample; an element has 4 bytes.
// Source  : Dymem (Yang 2022, chapter 4); vDNN (MICRO 2016); SuperNeurons (PPoPP 2018).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/rank_index.hpp"

namespace hetsgd {

inline constexpr std::int64_t kNumberBytes = 4;

// A new one needs an entry in many places (lib/model/README.md, "A new kind of node"). The compiler
// finds its missing name and the switches without a default, and no other.
enum class NodeType {
  input,
  conv,
  fc,
  pool,
  relu,
  lrn,
  bn,
  dropout,
  softmax,
  add,
  concat,
  subsample,
  lstm,
  embed,
  linear,
  norm,
  gelu,
  attention
};
inline constexpr int kNodeTypes = static_cast<int>(NodeType::attention) + 1;
std::string_view to_string(NodeType type);
std::vector<std::string> node_type_names();  // in the order of NodeType

enum class PoolKind { max, average };
enum class Positions { learned, none };
enum class GeluForm { exact, tanh };

// How the elements of a sample lie in memory: channel by channel, or the channels of one step after
// those of the step before.
enum class MapOrder { channels, tokens };

// Channels, height, width of one sample. A sequence of T steps of i elements each is [i, T, 1].
struct Shape {
  std::int64_t channels = 0, height = 1, width = 1;
  MapOrder order = MapOrder::channels;
  std::int64_t numbers() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};
std::string to_string(const Shape& shape);  // "[3,224,224]", or "[64 tokens x 128]"

// One operation. Attributes that its type lacks keep their defaults.
struct Node {
  std::string name = "";
  NodeType type = NodeType::input;
  std::vector<int> from = {};                    // indices of its inputs
  std::int64_t channels = 0;                     // conv, subsample
  std::int64_t units = 0;                        // fc, lstm, embed, linear; softmax: of tokens
  std::array<std::int64_t, 2> kernel = {1, 1};   // conv, pool: height, width
  std::int64_t stride = 1;                       // conv, pool, subsample
  std::array<std::int64_t, 2> padding = {0, 0};  // conv, pool: height, width
  std::int64_t groups = 1;                       // conv
  bool bias = false;                             // conv, fc, linear, norm, softmax of tokens
  PoolKind pool = PoolKind::max;
  bool ceil = false;           // pool: the output's size is rounded up
  bool global = false;         // pool: the kernel is the whole map
  bool count_padding = false;  // pool, average: divide by the kernel's size at the border, too
  int size = 5;                // lrn: channels of a sum
  double alpha = 1e-4, beta = 0.75, k = 2;   // lrn
  double epsilon = 1e-5;                     // bn, norm
  double p = 0;                              // dropout, attention: the share that is dropped
  bool all = false;                          // lstm: output every step, not only the last one
  std::int64_t tokens = 0;                   // input: kinds of tokens; 0: it holds other numbers
  Positions positions = Positions::learned;  // embed
  std::int64_t block = 0;                    // embed with positions: the most steps
  std::int64_t segments = 0;                 // embed: vectors of segments; every token is in 0
  double init = 1;                           // linear: factor of the initial deviation
  GeluForm form = GeluForm::exact;           // gelu
  std::int64_t heads = 1;                    // attention
  bool causal = false;                       // attention: a step reads no later one
  bool scores = false;    // attention: its scores are stored, in plans and charges alone
  std::string tied = "";  // softmax of tokens: the embed whose weights are its own; empty: none
  double smoothing = 0;   // softmax of tokens: share of the target that all tokens divide
  double masked = 0.15;   // softmax of tokens: share of a row that is masked in learning (BERT)
  Shape shape = {};       // of the output; Graph::add sets it

  bool operator==(const Node&) const = default;
};

// Whether the node exists for tokens only: it refuses maps that lie channel by channel.
bool is_for_tokens(const Node& node);

// A network that grows by add(). Nodes are never changed or removed.
class Graph {
 public:
  // `tokens`: kinds of tokens of an input [1, steps, 1]; 0: the input holds other numbers. An
  // Error(data) of the constructor or of add() opens with the names of graph and node.
  Graph(std::string name, Shape input, std::int64_t tokens = 0);

  // Appends a node and returns its index. Its inputs must exist; its shape is inferred. Throws
  // Error(data) for a kernel larger than its padded input, unequal inputs of add, a name that is
  // taken, and so on.
  int add(Node node);
  // Throws unless the last node is a softmax and the output of every other node is used.
  void finish() const;

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(int index) const { return nodes_[at(index)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  // Indices in the order of the node list. A node that takes an output twice appears twice.
  const std::vector<int>& consumers(int index) const { return consumers_[at(index)]; }
  const Shape& input_shape(int index) const;  // of the node's first input
  bool reads_tokens() const { return nodes_.front().tokens > 0; }
  std::int64_t parameters(int index) const;
  std::int64_t parameters() const;
  bool operator==(const Graph& other) const {
    return name_ == other.name_ && nodes_ == other.nodes_;
  }

 private:
  Error node_error(const Node& node, const std::string& text) const;
  Shape shape_of(const Node& node) const;
  void check_tokens(const Node& node) const;

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> consumers_;
};

// The number of values that a filter of a conv, fc or linear sums over: K of the work's formulas.
std::int64_t filter_size(const Graph& graph, int index);
// The number of steps of the sequence that an lstm or a node of tokens reads.
std::int64_t sequence_steps(const Graph& graph, int index);

// The embed whose weights a softmax of tokens shares. They are parameters of the embed alone.
std::optional<int> tied_embed(const Graph& graph, int index);

// Whether no attention of the network reads a later step. Then the target of every step is the next
// token. Else some tokens of a row are masked, and they are its targets.
bool is_causal(const Graph& graph);
// The number of targets of a row of `steps` tokens: all of them, or those that are masked.
std::int64_t targets_of_row(const Graph& graph, std::int64_t steps);
// max(1, share steps, rounded).
std::int64_t masked_tokens(double share, std::int64_t steps);

}  // namespace hetsgd
