#include "memory/step_times.hpp"

namespace hetsgd {

StepTimes step_times(const TrainingStep& training, const DeviceRates& rates) {
  const Graph& graph = *training.graph;
  StepTimes times{.steps = {{}},
                  .link_latency_s = rates.link_latency_s,
                  .link_bytes_per_s = rates.link_bytes_per_s};
  for (int k = 1; k <= training.total_steps(); ++k) {
    const Step& step = training.step(k);
    Work work = node_work(graph, step.node, step.pass, training.options.batch,
                          training.gives_input_gradient(step.node));
    StepTime time;
    if (graph.node(step.node).type == NodeType::conv) {
      const auto channels = static_cast<double>(graph.node(step.node).channels);
      const auto depth = static_cast<double>(filter_size(graph, step.node));
      const double factor = (1 + rates.half_channels / channels) * (1 + rates.half_depth / depth);
      time.convolution_s = rates.seconds(Work{.operations = work.operations * factor}).count();
      work.operations = 0;
    }
    time.other_s = rates.seconds(work).count();
    times.steps.push_back(time);
  }
  return times;
}

}  // namespace hetsgd
