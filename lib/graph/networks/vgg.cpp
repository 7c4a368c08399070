// AlexNet (Krizhevsky and others 2012, with two lrn) and VGG (Simonyan, Zisserman 2014, types D and
// E; the small one for CIFAR as in CROSSBOW).
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

void classifier(Builder& net, int classes) {
  for (int i = 0; i < 2; ++i) {
    net.fc(4096);
    net.simple(NodeType::relu);
    net.dropout(0.5);
  }
  net.fc(classes);
}

void norm_and_pool(Builder& net) {
  net.simple(NodeType::relu);
  net.simple(NodeType::lrn);
  net.pool(PoolKind::max, 3, 2);
}

void grouped_conv(Builder& net, int channels, int kernel, int groups) {
  net.put({.type = NodeType::conv,
           .channels = channels,
           .kernel = {kernel, kernel},
           .padding = {kernel / 2, kernel / 2},
           .groups = groups,
           .bias = true});
}

Graph alexnet(const std::string& name, const Settings& settings) {
  Builder net(name, {3, 227, 227});
  net.square_conv(96, 11, 4, 0, true);
  norm_and_pool(net);
  grouped_conv(net, 256, 5, settings.groups);
  norm_and_pool(net);
  grouped_conv(net, 384, 3, 1);
  net.simple(NodeType::relu);
  grouped_conv(net, 384, 3, settings.groups);
  net.simple(NodeType::relu);
  grouped_conv(net, 256, 3, settings.groups);
  net.simple(NodeType::relu);
  net.pool(PoolKind::max, 3, 2);
  classifier(net, settings.classes);
  return net.finish();
}

// The number of convolutions in each of the five blocks.
using Depths = std::array<int, 5>;
constexpr Depths kVgg16{2, 2, 3, 3, 3}, kVgg19{2, 2, 4, 4, 4};
constexpr std::array<int, 5> kVggChannels{64, 128, 256, 512, 512};

void vgg_features(Builder& net, const Depths& depths, bool bn) {
  for (std::size_t block = 0; block < depths.size(); ++block) {
    for (int i = 0; i < depths[block]; ++i) {
      net.square_conv(kVggChannels[block], 3, 1, 1, true);
      if (bn) net.simple(NodeType::bn);
      net.simple(NodeType::relu);
    }
    net.pool(PoolKind::max, 2, 2);
  }
}

Network vgg(const std::string& name, const Depths& depths) {
  return {{name, "VGG of ImageNet, 3x224x224", "Simonyan, Zisserman 2015"},
          {},
          declare_classes,
          [depths](const std::string& full_name, const Settings& settings) {
            Builder net(full_name, {3, 224, 224});
            vgg_features(net, depths, false);
            classifier(net, settings.classes);
            return net.finish();
          }};
}

Graph vgg_16_cifar(const std::string& name, const Settings& settings) {
  Builder net(name, {3, 32, 32});
  vgg_features(net, kVgg16, true);
  net.dropout(0.5);
  net.fc(512);
  net.simple(NodeType::bn);
  net.simple(NodeType::relu);
  net.dropout(0.5);
  net.fc(settings.classes);
  return net.finish();
}

}  // namespace

void add_alexnet_and_vggs(std::vector<Network>& list) {
  list.push_back({{"alexnet", "AlexNet, 3x227x227; groups=2 is the published network",
                   "Krizhevsky et al. 2012"},
                  {},
                  [](OptionSet& set, Settings& settings) {
                    set.add("groups", settings.groups, "Groups of conv 2, 4 and 5.").range(1, 2);
                    declare_classes(set, settings);
                  },
                  alexnet});
  list.push_back(vgg("vgg-16", kVgg16));
  list.push_back(vgg("vgg-19", kVgg19));
  list.push_back({{"vgg-16-cifar", "VGG of CROSSBOW with bn and fc 512, 3x32x32",
                   "Simonyan, Zisserman 2015; CROSSBOW (Koliousis et al. 2019), table 1"},
                  {.classes = 100},
                  declare_classes,
                  vgg_16_cifar});
}

}  // namespace hetsgd::networks
