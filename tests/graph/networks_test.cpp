#include "graph/networks.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "graph/graph_file.hpp"
#include "graph/needs.hpp"
#include "graph/work.hpp"

namespace hetsgd {
namespace {

Graph built(const std::string& name) { return find_graph("NETWORK", name); }
int nodes(const std::string& name) { return built(name).size() - 1; }  // without the input
double megas(const std::string& name) { return multiply_adds(built(name)) / 1e6; }

TEST(Networks, HaveTheParametersThatWerePublished) {
  const std::vector<std::pair<std::string, std::int64_t>> kPublished{
      {"lenet-5", 61'706},
      {"lenet-001", 21'840},
      {"lenet-002", 1'111'946},
      {"alexnet", 62'378'344},
      {"alexnet?groups=2", 60'965'224},
      {"vgg-16", 138'357'544},
      {"vgg-19", 143'667'240},
      {"resnet-32", 466'906},
      {"resnet-32?shortcut=A", 464'154},
      {"vgg-16-cifar", 15'038'116},
      {"resnet-18-cifar", 11'173'962},
      {"resnet-50", 25'557'032},
      {"resnet-50?classes=1001", 25'559'081},
      {"resnet-101", 44'549'160},
      {"resnet-152", 60'192'808},
      {"inception-v4", 42'679'816},
      {"lstm-video", 34'663'525}};
  for (const auto& [name, parameters] : kPublished) {
    EXPECT_EQ(built(name).parameters(), parameters) << name;
  }
}

// A copy for each of ResNet-32's 15 shortcuts; 95 nodes and the two that pad make paper 004's 190
// steps.
TEST(ForkCopies, GiveEachConsumerItsOwn) {
  const Graph shared = built("resnet-32?bn=0&shortcut=A");
  const Graph copied = with_fork_copies(shared);
  EXPECT_EQ(copied.size() - 1, 95 + 2);
  EXPECT_EQ(copied.size(), shared.size() + 15);
  EXPECT_EQ(copied.parameters(), shared.parameters());
  for (int node = 0; node < copied.size(); ++node) {
    // But for the output that is copied, which the copy and the first consumer read.
    EXPECT_LE(copied.consumers(node).size(), 2U);
    const Node& copy = copied.node(node);
    if (!copy.name.starts_with("fork_")) continue;
    EXPECT_EQ(copy.shape, copied.input_shape(node));
    EXPECT_EQ(copied.consumers(node).size(), 1U);
  }
  EXPECT_TRUE(with_fork_copies(built("vgg-16")) == built("vgg-16"));
}

TEST(Networks, HaveTheNodesAndOperationsThatWerePublished) {
  EXPECT_EQ(nodes("lenet-5"), 12);
  EXPECT_EQ(nodes("lenet-001"), 12);
  EXPECT_EQ(nodes("alexnet"), 23);
  EXPECT_EQ(nodes("vgg-16"), 39);
  EXPECT_EQ(nodes("vgg-19"), 45);
  EXPECT_EQ(nodes("resnet-32"), 115);
  EXPECT_EQ(nodes("resnet-32?shortcut=A"), 113);
  EXPECT_EQ(nodes("resnet-50"), 175);
  EXPECT_EQ(nodes("resnet-101"), 345);
  EXPECT_EQ(nodes("resnet-152"), 515);
  EXPECT_EQ(nodes("inception-v4"), 488);
  EXPECT_EQ(nodes("inception-v4?bn=0"), 339);
  EXPECT_NEAR(megas("lenet-5"), 0.417, 0.0005);
  EXPECT_NEAR(megas("lenet-001"), 0.481, 0.0006);
  EXPECT_NEAR(megas("alexnet"), 1135, 0.6);
  EXPECT_NEAR(megas("alexnet?groups=2"), 724, 0.6);
  EXPECT_NEAR(megas("vgg-16"), 15470, 1);
  EXPECT_NEAR(megas("vgg-19"), 19632, 1);
  EXPECT_NEAR(megas("resnet-32"), 69.1, 0.06);
  EXPECT_NEAR(megas("resnet-32?shortcut=A"), 68.9, 0.06);
  EXPECT_NEAR(megas("resnet-50"), 4089, 1);
  EXPECT_NEAR(megas("resnet-50?stride=1x1"), 3858, 1);
  EXPECT_NEAR(megas("resnet-101"), 7801, 1);
  EXPECT_NEAR(megas("resnet-152"), 11514, 1);
  EXPECT_NEAR(megas("inception-v4"), 12254, 1);
}

TEST(Networks, ReadBackFromTheirFilesAsTheSame) {
  for (const NetworkInfo& info : builtin_networks()) {
    const Graph graph = built(info.name);
    EXPECT_TRUE(parse_graph("file", to_json_text(graph)) == graph) << info.name;
  }
}

TEST(Networks, AnUnknownNameOrKeyIsAnError) {
  const auto message = [](const std::string& name) {
    try {
      built(name);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string();
  };
  EXPECT_NE(message("resnet-5O").find("did you mean \"resnet-50\""), std::string::npos)
      << message("resnet-5O");
  EXPECT_NE(message("resnet-50?class=10").find("classes"), std::string::npos);
  EXPECT_NE(message("resnet-50?classes=x").find("\"x\""), std::string::npos);
}

}  // namespace
}  // namespace hetsgd
