#include "graph/networks.hpp"

#include "graph/graph_file.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

Graph built(const std::string& name) { return find_graph("NETWORK", name); }
// The expected values are the published ones. A 0 stands for a value that was not published.
TEST(Networks, HaveTheParametersNodesAndOperationsThatWerePublished) {
  struct Published {
    const char* name;
    std::int64_t parameters = 0;
    int nodes = 0;  // without the input
    double megas = 0, tolerance = 0;
  };
  for (const Published& each :
       std::initializer_list<Published>{{"lenet-5", 61'706, 12, 0.417, 0.0005},
                                        {"lenet-001", 21'840, 12, 0.481, 0.0006},
                                        {"lenet-002", 1'111'946},
                                        {"alexnet", 62'378'344, 23, 1135, 0.6},
                                        {"alexnet?groups=2", 60'965'224, 0, 724, 0.6},
                                        {"vgg-16", 138'357'544, 39, 15470, 1},
                                        {"vgg-19", 143'667'240, 45, 19632, 1},
                                        {"resnet-32", 466'906, 115, 69.1, 0.06},
                                        {"resnet-32?shortcut=A", 464'154, 113, 68.9, 0.06},
                                        {"vgg-16-cifar", 15'038'116},
                                        {"resnet-18-cifar", 11'173'962},
                                        {"resnet-50", 25'557'032, 175, 4089, 1},
                                        {"resnet-50?classes=1001", 25'559'081},
                                        {"resnet-50?stride=1x1", 0, 0, 3858, 1},
                                        {"resnet-101", 44'549'160, 345, 7801, 1},
                                        {"resnet-152", 60'192'808, 515, 11514, 1},
                                        {"inception-v4", 42'679'816, 488, 12254, 1},
                                        {"inception-v4?bn=0", 0, 339},
                                        {"lstm-video", 34'663'525}}) {
    const Graph graph = built(each.name);
    if (each.parameters > 0) {
      EXPECT_EQ(graph.parameters(), each.parameters) << each.name;
    }
    if (each.nodes > 0) {
      EXPECT_EQ(graph.size() - 1, each.nodes) << each.name;
    }
    if (each.megas > 0) {
      EXPECT_NEAR(multiply_adds(graph) / 1e6, each.megas, each.tolerance) << each.name;
    }
  }
}

// A copy for each of ResNet-32's 15 shortcuts; 95 nodes and the two that pad make Dymem's 190
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

TEST(Networks, ReadBackFromTheirFilesAsTheSame) {
  for (const NetworkInfo& info : builtin_networks()) {
    const Graph graph = built(info.name);
    EXPECT_TRUE(parse_graph("file", to_json_text(graph)) == graph) << info.name;
  }
}

TEST(Networks, AnUnknownNameOrKeyIsAnError) {
  const auto message = [](const std::string& name) {
    return test::error_of([&] { built(name); }, ExitCode::usage);
  };
  EXPECT_NE(message("resnet-5O").find("did you mean \"resnet-50\""), std::string::npos)
      << message("resnet-5O");
  EXPECT_NE(message("resnet-50?class=10").find("classes"), std::string::npos);
  EXPECT_NE(message("resnet-50?classes=x").find("\"x\""), std::string::npos);
}

}  // namespace
}  // namespace hetsgd
