// Residual networks (He and others 2015): of CIFAR with 6n+2 layers, and of ImageNet with
// bottlenecks. A block lists its main branch before its shortcut, which the order of execution
// follows.
#include "core/error.hpp"
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

enum class Shortcut { padded, projected };  // A: subsample and zero channels; B: conv 1x1

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
  // `first`: of the two convolutions, whether the 1x1 has the stride, else the 3x3.
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
    // without sharing takes 7,832 MiB for ResNet-50 and 32 images, 7,510 with stride 1x1, which is
    // the 7.5 GB of paper 002, section 4.5; with the branch first it would be 490 MiB less.
    net_.join(NodeType::add, {other, main});
    net_.simple(NodeType::relu);
  }

  Builder& net_;
  bool bn_;
  Shortcut shortcut_;
};

class ResNetCifar final : public Family {
 public:
  explicit ResNetCifar(int layers) : layers_(layers) {}
  NetworkInfo info() const override {
    return {fmt::format("resnet-{}", layers_), "of CIFAR, 3x32x32; shortcut=A|B, bn=0|1, size"};
  }
  void declare(OptionSet& set) override {
    set.add_choice("shortcut", shortcut_, {{"B", Shortcut::projected}, {"A", Shortcut::padded}},
                   "");
    set.add("bn", bn_, "");
    set.add("size", size_, "").range(8, 4096);
    set.add("classes", classes_, "").range(2, 1e6);
  }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, size_, size_});
    Residual parts(net, bn_, shortcut_);
    parts.conv_relu(16, 3, 1);
    for (const int channels : {16, 32, 64}) {
      for (int block = 0; block < (layers_ - 2) / 6; ++block) {
        parts.basic(channels, channels != 16 && block == 0 ? 2 : 1);
      }
    }
    net.global_pool();
    net.fc(classes_);
    return net.finish();
  }

 private:
  int layers_;
  Shortcut shortcut_ = Shortcut::projected;
  bool bn_ = true;
  int size_ = 32, classes_ = 10;
};

// The model of paper 003.
class ResNet18Cifar final : public Family {
 public:
  NetworkInfo info() const override { return {"resnet-18-cifar", "of paper 003, 3x32x32"}; }
  void declare(OptionSet& set) override { set.add("classes", classes_, "").range(2, 1e6); }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, 32, 32});
    Residual parts(net, true, Shortcut::projected);
    parts.conv_relu(64, 3, 1);
    for (const int channels : {64, 128, 256, 512}) {
      for (int block = 0; block < 2; ++block) {
        parts.basic(channels, channels != 64 && block == 0 ? 2 : 1);
      }
    }
    net.global_pool();
    net.fc(classes_);
    return net.finish();
  }

 private:
  int classes_ = 10;
};

class ResNetImageNet final : public Family {
 public:
  ResNetImageNet(int layers, std::array<int, 4> blocks) : layers_(layers), blocks_(blocks) {}
  NetworkInfo info() const override {
    return {fmt::format("resnet-{}", layers_), "3x224x224; stride=3x3|1x1"};
  }
  void declare(OptionSet& set) override {
    set.add_choice("stride", first_, {{"3x3", false}, {"1x1", true}}, "");
    set.add("bn", bn_, "");
    set.add("classes", classes_, "").range(2, 1e6);
  }
  Graph build(const std::string& name) const override {
    Builder net(name, {3, 224, 224});
    Residual parts(net, bn_, Shortcut::projected);
    parts.conv_relu(64, 7, 2);
    net.pool(PoolKind::max, 3, 2, 1);
    std::int64_t channels = 64;
    for (const int count : blocks_) {
      for (int block = 0; block < count; ++block) {
        parts.bottleneck(channels, channels != 64 && block == 0 ? 2 : 1, first_);
      }
      channels *= 2;
    }
    net.global_pool();
    net.fc(classes_);
    return net.finish();
  }

 private:
  int layers_;
  std::array<int, 4> blocks_;
  bool first_ = false, bn_ = true;
  int classes_ = 1000;
};

}  // namespace

void add_resnets(std::vector<std::unique_ptr<Family>>& list) {
  for (const int layers : {20, 32, 44, 56}) list.push_back(std::make_unique<ResNetCifar>(layers));
  list.push_back(std::make_unique<ResNet18Cifar>());
  list.push_back(std::make_unique<ResNetImageNet>(50, std::array{3, 4, 6, 3}));
  list.push_back(std::make_unique<ResNetImageNet>(101, std::array{3, 4, 23, 3}));
  list.push_back(std::make_unique<ResNetImageNet>(152, std::array{3, 8, 36, 3}));
}

}  // namespace hetsgd::networks
