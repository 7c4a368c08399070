// LeNet-5 (LeCun and others 1998), and the variants of papers 001 and 002.
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

class LeNet5 final : public Family {
 public:
  NetworkInfo info() const override { return {"lenet-5", "LeNet-5 with relu, 1x28x28"}; }
  void declare(OptionSet& set) override { set.add("classes", classes_, "").range(2, 1e6); }
  Graph build(const std::string& name) const override {
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
    net.fc(classes_);
    return net.finish();
  }

 private:
  int classes_ = 10;
};

// The MNIST example of Horovod, which paper 001 trains.
class LeNet001 final : public Family {
 public:
  NetworkInfo info() const override { return {"lenet-001", "of paper 001, 5.2.3, 1x28x28"}; }
  Graph build(const std::string& name) const override {
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
};

class LeNet002 final : public Family {
 public:
  NetworkInfo info() const override { return {"lenet-002", "of paper 002, table 1, 1x28x28"}; }
  Graph build(const std::string& name) const override {
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
};

}  // namespace

void add_lenets(std::vector<std::unique_ptr<Family>>& list) {
  list.push_back(std::make_unique<LeNet5>());
  list.push_back(std::make_unique<LeNet001>());
  list.push_back(std::make_unique<LeNet002>());
}

}  // namespace hetsgd::networks
