// Residual networks (He and others 2015): of CIFAR with 6n+2 layers, and of ImageNet with
// bottlenecks. A block lists its main branch before its shortcut, which the order of execution
// follows.
#include "core/error.hpp"
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

class Residual {
 public:
  Residual(Builder& net, bool bn, Shortcut shortcut) : net_(net), bn_(bn), shortcut_(shortcut) {}

  void conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride, int from = -1) {
    net_.square_conv(channels, kernel, stride, kernel / 2, !bn_, from);
    if (bn_) net_.simple(NodeType::bn);
  }
  void conv_relu(std::int64_t channels, std::int64_t kernel, std::int64_t stride, int from = -1) {
    conv(channels, kernel, stride, from);
    net_.simple(NodeType::relu);
  }
  void basic(std::int64_t channels, std::int64_t stride) {
    const int x = net_.last();
    conv_relu(channels, 3, stride);
    conv(channels, 3, 1);
    join(x, channels, stride);
  }
  // `first`: whether the first convolution (1x1) has the stride instead of the second (3x3).
  void bottleneck(std::int64_t channels, std::int64_t stride, bool first) {
    const int x = net_.last();
    conv_relu(channels, 1, first ? stride : 1);
    conv_relu(channels, 3, first ? 1 : stride);
    conv(4 * channels, 1, 1);
    join(x, 4 * channels, stride);
  }

 private:
  void join(int x, std::int64_t channels, std::int64_t stride) {
    const int main = net_.last();
    int other = x;
    if (stride != 1 || net_.shape(x).channels != channels) {
      if (shortcut_ == Shortcut::padded) {
        net_.subsample(channels, stride, x);
      } else {
        conv(channels, 1, stride, x);
      }
      other = net_.last();
    }
    // The shortcut is the first input. In an identity block it has a second consumer, so that the
    // gradient of the sum cannot become its own, and the branch's gets a buffer, too. So a plan
    // without sharing takes 7,832 MiB for ResNet-50 and 32 images. With stride 1x1 it takes 7,510,
    // the 7.5 GB of CROSSBOW, section 4.5. With the branch first it would be 490 MiB less.
    net_.join(NodeType::add, {other, main});
    net_.simple(NodeType::relu);
  }

  Builder& net_;
  bool bn_;
  Shortcut shortcut_;
};

// Stages of basic blocks. Each but the first halves the map.
Graph basic_network(const std::string& name, const Settings& settings,
                    const std::vector<int>& stages, int blocks) {
  Builder net(name, {3, settings.size, settings.size});
  Residual parts(net, settings.bn, settings.shortcut);
  parts.conv_relu(stages.front(), 3, 1);
  for (const int channels : stages) {
    for (int block = 0; block < blocks; ++block) {
      parts.basic(channels, channels != stages.front() && block == 0 ? 2 : 1);
    }
  }
  net.global_pool();
  net.fc(settings.classes);
  return net.finish();
}

Network of_cifar(int layers) {
  return {{fmt::format("resnet-{}", layers), "CIFAR ResNet, 3x32x32; shortcut=A|B, bn=0|1, size",
           "He et al. 2016"},
          {.classes = 10},
          [](OptionSet& set, Settings& settings) {
            set.add_choice("shortcut", settings.shortcut,
                           {{"B", Shortcut::projected}, {"A", Shortcut::padded}}, "");
            set.add("bn", settings.bn, "");
            set.add("size", settings.size, "").range(8, 4096);
            declare_classes(set, settings);
          },
          [layers](const std::string& name, const Settings& settings) {
            return basic_network(name, settings, {16, 32, 64}, (layers - 2) / 6);
          }};
}

// The model of ESync.
Network resnet_18_cifar() {
  return {{"resnet-18-cifar", "ResNet of ESync, 3x32x32",
           "He et al. 2016; ESync (Li, Zhou, Yu), section 5"},
          {.classes = 10},
          declare_classes,
          [](const std::string& name, const Settings& settings) {
            return basic_network(name, settings, {64, 128, 256, 512}, 2);
          }};
}

Network of_imagenet(int layers, std::array<int, 4> blocks) {
  const auto build = [blocks](const std::string& name, const Settings& settings) {
    Builder net(name, {3, 224, 224});
    Residual parts(net, settings.bn, Shortcut::projected);
    parts.conv_relu(64, 7, 2);
    net.pool(PoolKind::max, 3, 2, 1);
    std::int64_t channels = 64;
    for (const int count : blocks) {
      for (int block = 0; block < count; ++block) {
        parts.bottleneck(channels, channels != 64 && block == 0 ? 2 : 1, settings.stride_first);
      }
      channels *= 2;
    }
    net.global_pool();
    net.fc(settings.classes);
    return net.finish();
  };
  return {{fmt::format("resnet-{}", layers), "ResNet of ImageNet, 3x224x224; stride=3x3|1x1",
           "He et al. 2016"},
          {},
          [](OptionSet& set, Settings& settings) {
            set.add_choice("stride", settings.stride_first, {{"3x3", false}, {"1x1", true}}, "");
            set.add("bn", settings.bn, "");
            declare_classes(set, settings);
          },
          build};
}

}  // namespace

void add_resnets(std::vector<Network>& list) {
  for (const int layers : {20, 32, 44, 56}) list.push_back(of_cifar(layers));
  list.push_back(resnet_18_cifar());
  list.push_back(of_imagenet(50, {3, 4, 6, 3}));
  list.push_back(of_imagenet(101, {3, 4, 23, 3}));
  list.push_back(of_imagenet(152, {3, 8, 36, 3}));
}

}  // namespace hetsgd::networks
