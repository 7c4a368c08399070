// AlexNet (Krizhevsky and others 2012, with two lrn) and VGG (Simonyan, Zisserman 2014, types D and
// E; the small one for CIFAR of paper 002).
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

class AlexNet final : public Family {
 public:
  NetworkInfo info() const override { return {"alexnet", "3x227x227; groups=2: as published"}; }
  void declare(OptionSet& set) override {
    set.add("groups", groups_, "of conv 2, 4 and 5").range(1, 2);
    set.add("classes", classes_, "").range(2, 1e6);
  }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, 227, 227});
    net.square_conv(96, 11, 4, 0, true);
    norm_and_pool(net);
    conv(net, 256, 5, groups_);
    norm_and_pool(net);
    conv(net, 384, 3, 1);
    net.simple(NodeType::relu);
    conv(net, 384, 3, groups_);
    net.simple(NodeType::relu);
    conv(net, 256, 3, groups_);
    net.simple(NodeType::relu);
    net.pool(PoolKind::max, 3, 2);
    classifier(net, classes_);
    return net.finish();
  }

 private:
  static void norm_and_pool(Builder& net) {
    net.simple(NodeType::relu);
    net.simple(NodeType::lrn);
    net.pool(PoolKind::max, 3, 2);
  }
  static void conv(Builder& net, int channels, int kernel, int groups) {
    Node node{.type = NodeType::conv};
    node.channels = channels;
    node.kernel = {kernel, kernel};
    node.padding = {kernel / 2, kernel / 2};
    node.groups = groups;
    node.bias = true;
    net.put(std::move(node));
  }

  int groups_ = 1, classes_ = 1000;
};

// Convolutions of the five blocks.
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

class Vgg final : public Family {
 public:
  Vgg(std::string name, const Depths& depths) : name_(std::move(name)), depths_(depths) {}
  NetworkInfo info() const override { return {name_, "3x224x224"}; }
  void declare(OptionSet& set) override { set.add("classes", classes_, "").range(2, 1e6); }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, 224, 224});
    vgg_features(net, depths_, false);
    classifier(net, classes_);
    return net.finish();
  }

 private:
  std::string name_;
  Depths depths_;
  int classes_ = 1000;
};

class VggCifar final : public Family {
 public:
  NetworkInfo info() const override {
    return {"vgg-16-cifar", "with bn and fc 512, of paper 002, 3x32x32"};
  }
  void declare(OptionSet& set) override { set.add("classes", classes_, "").range(2, 1e6); }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, 32, 32});
    vgg_features(net, kVgg16, true);
    net.dropout(0.5);
    net.fc(512);
    net.simple(NodeType::bn);
    net.simple(NodeType::relu);
    net.dropout(0.5);
    net.fc(classes_);
    return net.finish();
  }

 private:
  int classes_ = 100;
};

}  // namespace

void add_alexnet_and_vggs(std::vector<std::unique_ptr<Family>>& list) {
  list.push_back(std::make_unique<AlexNet>());
  list.push_back(std::make_unique<Vgg>("vgg-16", kVgg16));
  list.push_back(std::make_unique<Vgg>("vgg-19", kVgg19));
  list.push_back(std::make_unique<VggCifar>());
}

}  // namespace hetsgd::networks
