// LeNet-5 (LeCun and others 1998), and the variants of Adasum and CROSSBOW.
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

Graph lenet_5(const std::string& name, const Settings& settings) {
  Builder net(name, {1, 28, 28});
  net.square_conv(6, 5, 1, 2, true);
  net.simple(NodeType::relu);
  net.pool(PoolKind::max, 2, 2);
  net.square_conv(16, 5, 1, 0, true);
  net.simple(NodeType::relu);
  net.pool(PoolKind::max, 2, 2);
  for (const int units : {120, 84}) {
    net.fc(units);
    net.simple(NodeType::relu);
  }
  net.fc(settings.classes);
  return net.finish();
}

// The MNIST example of Horovod, which Adasum trains.
Graph lenet_001(const std::string& name, const Settings&) {
  Builder net(name, {1, 28, 28});
  net.square_conv(10, 5, 1, 0, true);
  net.pool(PoolKind::max, 2, 2);
  net.simple(NodeType::relu);
  net.square_conv(20, 5, 1, 0, true);
  net.dropout(0.5);
  net.pool(PoolKind::max, 2, 2);
  net.simple(NodeType::relu);
  net.fc(50);
  net.simple(NodeType::relu);
  net.dropout(0.5);
  net.fc(10);
  return net.finish();
}

Graph lenet_002(const std::string& name, const Settings&) {
  Builder net(name, {1, 28, 28});
  for (const int channels : {32, 64}) {
    net.square_conv(channels, 5, 1, 0, true);
    net.simple(NodeType::relu);
    net.pool(PoolKind::max, 2, 2);
  }
  net.fc(1024);
  net.simple(NodeType::relu);
  net.dropout(0.5);
  net.fc(10);
  return net.finish();
}

}  // namespace

void add_lenets(std::vector<Network>& list) {
  const Declare none = [](OptionSet&, Settings&) {};
  list.push_back({{"lenet-5", "LeNet-5 with relu, 1x28x28", "LeCun et al. 1998"},
                  {.classes = 10},
                  declare_classes,
                  lenet_5});
  list.push_back({{"lenet-001", "LeNet of Adasum, 1x28x28",
                   "LeCun et al. 1998; Adasum (Maleki et al. 2021), section 5.2.3"},
                  {},
                  none,
                  lenet_001});
  list.push_back({{"lenet-002", "LeNet of CROSSBOW, 1x28x28",
                   "LeCun et al. 1998; CROSSBOW (Koliousis et al. 2019), table 1"},
                  {},
                  none,
                  lenet_002});
}

}  // namespace hetsgd::networks
