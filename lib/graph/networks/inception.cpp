// Inception-v4 (Szegedy, Ioffe, Vanhoucke, Alemi 2016).
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

// One convolution of a branch. Without padding it is "valid", else its output has the size of its
// input.
struct Unit {
  std::int64_t channels;
  std::array<std::int64_t, 2> kernel;
  std::int64_t stride = 1;
  bool padded = true;
};
using Branch = std::vector<Unit>;
constexpr std::array<std::int64_t, 2> k1{1, 1}, k3{3, 3}, kRow7{1, 7}, kColumn7{7, 1}, kRow3{1, 3},
    kColumn3{3, 1};

class Inception {
 public:
  Inception(Builder& net, bool bn) : net_(net), bn_(bn) {}

  int branch(const Branch& units, int from) {
    for (const Unit& unit : units) {
      const std::array<std::int64_t, 2> padding{unit.padded ? unit.kernel[0] / 2 : 0,
                                                unit.padded ? unit.kernel[1] / 2 : 0};
      net_.conv(unit.channels, unit.kernel, unit.stride, padding, !bn_, from);
      if (bn_) net_.simple(NodeType::bn);
      from = net_.simple(NodeType::relu);
    }
    return from;
  }
  void block(const std::vector<Branch>& branches, std::int64_t pooled) {
    const int x = net_.last();
    std::vector<int> ends;
    for (const Branch& units : branches) ends.push_back(branch(units, x));
    ends.push_back(averages(pooled, x));
    net_.join(NodeType::concat, ends);
  }
  void reduction(const std::vector<Branch>& branches) {
    const int x = net_.last();
    std::vector<int> ends;
    for (const Branch& units : branches) ends.push_back(branch(units, x));
    ends.push_back(net_.pool(PoolKind::max, 3, 2, 0, x));
    net_.join(NodeType::concat, ends);
  }
  void stem() {
    int x = branch({{32, k3, 2, false}, {32, k3, 1, false}, {64, k3}}, 0);
    const int pooled = net_.pool(PoolKind::max, 3, 2, 0, x);
    x = net_.join(NodeType::concat, {pooled, branch({{96, k3, 2, false}}, x)});
    const int left = branch({{64, k1}, {96, k3, 1, false}}, x);
    const int right = branch({{64, k1}, {64, kRow7}, {64, kColumn7}, {96, k3, 1, false}}, x);
    net_.join(NodeType::concat, {left, right});
    reduction({{{192, k3, 2, false}}});
  }
  // The third kind of block, whose branches fork again.
  void block_c() {
    const int x = net_.last();
    std::vector<int> ends{branch({{256, k1}}, x)};
    const int second = branch({{384, k1}}, x);
    ends.push_back(branch({{256, kRow3}}, second));
    ends.push_back(branch({{256, kColumn3}}, second));
    const int third = branch({{384, k1}, {448, kColumn3}, {512, kRow3}}, x);
    ends.push_back(branch({{256, kRow3}}, third));
    ends.push_back(branch({{256, kColumn3}}, third));
    ends.push_back(averages(256, x));
    net_.join(NodeType::concat, ends);
  }

 private:
  int averages(std::int64_t channels, int from) {
    net_.pool(PoolKind::average, 3, 1, 1, from);
    return branch({{channels, k1}}, -1);
  }

  Builder& net_;
  bool bn_;
};

Graph inception_v4(const std::string& name, const Settings& settings) {
  Builder net(name, {3, 299, 299});
  Inception parts(net, settings.bn);
  parts.stem();
  for (int i = 0; i < 4; ++i) {
    parts.block({{{96, k1}}, {{64, k1}, {96, k3}}, {{64, k1}, {96, k3}, {96, k3}}}, 96);
  }
  parts.reduction({{{384, k3, 2, false}}, {{192, k1}, {224, k3}, {256, k3, 2, false}}});
  for (int i = 0; i < 7; ++i) {
    parts.block({{{384, k1}},
                 {{192, k1}, {224, kRow7}, {256, kColumn7}},
                 {{192, k1}, {192, kColumn7}, {224, kRow7}, {224, kColumn7}, {256, kRow7}}},
                128);
  }
  parts.reduction({{{192, k1}, {192, k3, 2, false}},
                   {{256, k1}, {256, kRow7}, {320, kColumn7}, {320, k3, 2, false}}});
  for (int i = 0; i < 3; ++i) parts.block_c();
  net.global_pool();
  net.dropout(0.2);
  net.fc(settings.classes);
  return net.finish();
}

}  // namespace

void add_inception(std::vector<Network>& list) {
  list.push_back({{"inception-v4", "Inception v4, 3x299x299; bn=0|1", "Szegedy et al. 2017"},
                  {},
                  [](OptionSet& set, Settings& settings) {
                    set.add("bn", settings.bn, "");
                    declare_classes(set, settings);
                  },
                  inception_v4});
}

}  // namespace hetsgd::networks
