// Which data a network reads.
#include <fmt/format.h>

#include <optional>

#include "core/error.hpp"
#include "graph/variants.hpp"
#include "model/network/graph_model.hpp"

namespace hetsgd {

namespace {

void check_images(const Graph& graph, const DataShape& data) {
  const ImageShape expected = image_of(graph);
  if (data.image == expected) return;
  const auto text = [](const ImageShape& s) {
    return fmt::format("{}x{}x{}", s.channels, s.height, s.width);
  };
  const auto error =
      usage_error("--model: {} reads images of {}, but the training data have {}", graph.name(),
                  text(expected), data.image.size() > 0 ? text(data.image) : "none");
  if (step_bound_node(graph) || graph.node(0).shape.height == 1) {
    throw with_hint(error,
                    "--image 1x28x28 treats sparse rows as images of that shape; resnet-32?size=16 "
                    "is a network for another size");
  }
  throw with_hint(error, fmt::format("it also reads sequences of any lengths with {0} elements per "
                                     "frame, such as generate:video?size={0}",
                                     expected.channels));
}

void check_sequences(const Graph& graph, const DataShape& data) {
  if (const std::optional<int> bound = step_bound_node(graph)) {
    throw with_hint(
        usage_error("--model: {} reads images, but the training data have sequences, and its node "
                    "{} takes a fixed number of steps",
                    graph.name(), graph.node(*bound).name),
        "use lstm-video, or only lstm, relu, add and concat between an input [elements,steps,1] "
        "and an lstm that gives its last step");
  }
  const std::int64_t expected = graph.node(0).shape.channels;
  if (expected == data.frame_numbers) return;
  throw with_hint(
      usage_error("--model: {} reads frames of {} elements, but those of the training data have {}",
                  graph.name(), expected, data.frame_numbers),
      fmt::format("use lstm-video?size={}&classes={}", data.frame_numbers, data.outputs()));
}

void check_tokens(const Graph& graph, const DataShape& data) {
  if (!graph.reads_tokens()) {
    refuse("--model", fmt::format("{}, which reads no tokens", graph.name()),
           "a network for the training data, which are tokens",
           "gpt-micro reads tokens; see `hetsgd models`");
  }
  if (data.token_kinds == 0) {
    refuse("--model", fmt::format("{}, which reads tokens", graph.name()),
           "a network for the training data, which have none",
           "generate:language makes tokens, and --format text reads them from a file");
  }
  const std::int64_t kinds = tokens_for(graph, data);
  if (graph.node(0).tokens != kinds) {
    refuse("--model", fmt::format("{} of {} tokens", graph.name(), graph.node(0).tokens),
           fmt::format("{}, those of the training data{}", kinds,
                       is_causal(graph) ? "" : " and one for masks"),
           fmt::format("use ?vocabulary={}", kinds));
  }
  if (data.token_steps > most_steps(graph)) {
    refuse("--model", fmt::format("rows of {} tokens for {}", data.token_steps, graph.name()),
           fmt::format("at most {}, its block of positions", most_steps(graph)),
           fmt::format("use ?block={}, or shorter rows", data.token_steps));
  }
}

}  // namespace

std::int64_t tokens_for(const Graph& graph, const DataShape& data) {
  return std::int64_t{data.token_kinds} + (is_causal(graph) ? 0 : 1);
}

ImageShape image_of(const Graph& graph) {
  const Shape& input = graph.node(0).shape;
  return {static_cast<Index>(input.channels), static_cast<Index>(input.height),
          static_cast<Index>(input.width)};
}

void check_network_reads(const Graph& graph, const DataShape& data) {
  if (graph.reads_tokens() || data.token_kinds > 0) return check_tokens(graph, data);
  if (data.frame_numbers > 0) {
    check_sequences(graph, data);
  } else {
    check_images(graph, data);
  }
  const std::size_t classes = data_shape(graph).label_count;
  if (data.outputs() != classes) {
    throw with_hint(usage_error("--model: {} has {} classes, but the data have {} labels",
                                graph.name(), classes, data.outputs()),
                    fmt::format("use {}?classes={} if the network has this key",
                                graph.name().substr(0, graph.name().find('?')), data.outputs()));
  }
}

DataShape data_shape(const Graph& graph) {
  if (graph.reads_tokens()) {
    const auto kinds = static_cast<Index>(graph.node(0).tokens - (is_causal(graph) ? 0 : 1));
    return {.label_count = kinds,
            .task = Task::tokens,
            .token_kinds = kinds,
            .token_steps = static_cast<std::uint32_t>(graph.node(0).shape.height)};
  }
  const Shape& scores = graph.node(graph.node(graph.size() - 1).from.front()).shape;
  return {.label_count = static_cast<Index>(scores.numbers()),
          .task = Task::multiclass,
          .image = image_of(graph)};
}

}  // namespace hetsgd
