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

}  // namespace

ImageShape image_of(const Graph& graph) {
  const Shape& input = graph.node(0).shape;
  return {static_cast<Index>(input.channels), static_cast<Index>(input.height),
          static_cast<Index>(input.width)};
}

void check_network_reads(const Graph& graph, const DataShape& data) {
  if (graph.reads_tokens()) {
    refuse("--model", fmt::format("{}, which reads tokens", graph.name()),
           "a network for the training data, which have none");
  }
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
  const Shape& scores = graph.node(graph.node(graph.size() - 1).from.front()).shape;
  return {.label_count = static_cast<Index>(scores.numbers()),
          .task = Task::multiclass,
          .image = image_of(graph)};
}

}  // namespace hetsgd
