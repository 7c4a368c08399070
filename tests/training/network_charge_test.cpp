// --charge NETWORK: the simulated clock charges the work and the parameters of a network. A network
// that learns itself is charged by the plan of its memory.

#include "graph/networks.hpp"
#include "memory/policy.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"
#include "training/simulation/charge.hpp"
#include "training/simulation/estimate.hpp"
#include "training/simulation/machine.hpp"

namespace hetsgd::test {
namespace {

// Charged time of a step; an update of plain SGD is part of it.
double step_of(const Record& run) {
  return compute_s(run) / static_cast<double>(run.workers[0].report.breakdown.steps);
}

Settings charged(const std::string& algorithm, const std::string& charge,
                 const Settings& more = {}) {
  return with(tiny(algorithm, fmt::format("--charge {} --max-samples 640", charge)), more);
}

// x inputs, y classes, a batch of n:
//   fc       forward and backward (no gradient by the input): 2nyx each; nx + ny + P words each
//   softmax  5ny, 2ny; 2ny words each
// and four launches.
constexpr const char* kTinyNetwork =
    R"({"name": "net", "input": [2,3,4],)"
    R"( "nodes": [{"type": "fc", "units": 5}, {"type": "softmax"}]})";
constexpr double kInputs = 24, kClasses = 5, kParameters = 24 * 5 + 5;

double closed_form(double n) {
  const double ny = n * kClasses;
  const double operations = 2 * 2 * ny * kInputs + 7 * ny;
  const double words = 2 * (n * kInputs + ny + kParameters) + 4 * ny;
  return 4 * 1e-3 + operations / 1e6 + 4 * words / 1e7;
}

constexpr const char* kProfile =
    R"({"name": "p", "launch_overhead_s": 1e-3, "operations_per_s": 1e6, "bytes_per_s": 1e7,)"
    R"( "memory_bytes": 1e9, "host_link_bytes_per_s": 1e6, "host_link_latency_s": 0})";

TEST(NetworkCharge, IsTheSumOfTheStepsOfTheGraph) {
  const TemporaryFile network("charge_net", kTinyNetwork), profile("charge_profile", kProfile);
  const auto step = [&](const Settings& more) {
    return step_of(run_with(charged("sgd", network.path(), {{"profile", profile.path()}}), more));
  };
  EXPECT_NEAR(step({}), closed_form(32), 1e-9);
  EXPECT_NEAR(step("--batch-size 8 --charge-batch 100"), closed_form(100), 1e-9);
  EXPECT_NEAR(step("--straggler kind=constant,worker=0,factor=3"), 3 * closed_form(32), 1e-9);
}

// Charge of a built-in network on a device that convolves few filters slowly: the steps of its
// plans.
TEST(NetworkCharge, CountsConvolutionsAsTheProfileSays) {
  const auto sum_of_steps = [](const std::string& profile) {
    const Graph graph = find_graph("test", "resnet-20");
    const TrainingStep training = training_step(graph, {.batch = 64});
    const StepTimes times = step_times(training, device_rates(profile));
    return std::accumulate(
        times.steps.begin(), times.steps.end(), 0.0,
        [](double sum, const StepTime& step) { return sum + step.convolution_s + step.other_s; });
  };
  for (const char* profile : {"titan-x-maxwell", "v100"}) {
    const Record run = run_training(
        charged("sgd", "resnet-20", fmt::format("--profile {} --batch-size 64", profile)));
    EXPECT_NEAR(step_of(run), sum_of_steps(profile), 1e-9 * step_of(run)) << profile;
  }
  // Each worker by its own device.
  const Record mixed = run_training(charged(
      "ssgd", "resnet-20",
      "--profile titan-x-maxwell,v100 --workers 2 --per-worker-batch full --batch-size 64"));
  EXPECT_GT(compute_s(mixed, 0) - compute_s(mixed, 1),
            0.99 * 5 * (sum_of_steps("titan-x-maxwell") - sum_of_steps("v100")));
}

// In a ring of two workers each sends 4 P bytes for an all_reduce, which takes 4 P / rate.
TEST(NetworkCharge, MessagesHaveTheNetworksParameters) {
  const TemporaryFile network("charge_net", kTinyNetwork);
  const TemporaryFile links("charge_links",
                            R"({"name": "l", "latency_s": 0, "bytes_per_s": 1e5,)"
                            R"( "server_latency_s": 0, "server_bytes_per_s": 1e5})");
  const Record run = run_training(
      charged("ssgd", network.path(), fmt::format("--workers 2 --network {}", links.path())));
  const TimeBreakdown& worker = run.workers[1].report.breakdown;
  const double sums = static_cast<double>(worker.steps);
  const auto gradients =
      static_cast<double>(worker.bytes_sent[static_cast<std::size_t>(Traffic::gradients)]);
  EXPECT_NEAR(gradients, sums * 4 * kParameters, 0.5 * sums);
  EXPECT_NEAR(worker.communicate.count(), sums * 4 * kParameters / 1e5, 1e-9);
}

// Communication behind the backward pass neither saves nor adds computing time, except for
// launches.
TEST(NetworkCharge, PartsAddUpToTheStep) {
  const TemporaryFile profile("charge_profile",
                              R"({"name": "p", "launch_overhead_s": 0, "operations_per_s": 1e9,)"
                              R"( "bytes_per_s": 1e8, "memory_bytes": 1e9})");
  const auto compute = [&](const char* overlap) {
    return compute_s(run_training(charged(
        "ssgd", "lenet-5",
        fmt::format("--workers 2 --profile {} --overlap {} --bucket 1", profile.path(), overlap))));
  };
  EXPECT_NEAR(compute("true"), compute("false"), 1e-9 * compute("false"));
}

TEST(NetworkCharge, TheResultAndThePlanSayWhatIsCharged) {
  const Settings settings = charged("sgd", "vgg-16-cifar?classes=100", "--charge-batch 128");
  const nlohmann::json charge = run_training(settings).charge;
  EXPECT_EQ(charge["network"], "vgg-16-cifar?classes=100");
  EXPECT_EQ(charge["parameters"], 15'038'116);
  EXPECT_EQ(charge["samples_per_real"], 4.0);
  EXPECT_NEAR(charge["multiply_adds_per_sample"].get<double>(), 313e6, 2e6);
  const nlohmann::json plan = plan_of_run(Configuration(settings).spec());
  EXPECT_EQ(plan["charge"], charge);
  EXPECT_NEAR(plan["estimate"]["step_s"].get<double>(), step_of(run_training(settings)), 1e-12);
}

TEST(NetworkCharge, IsToldFromOtherCharges) {
  const auto failure = [](const std::string& charge, const Settings& more = {}) {
    return test::failure_of([&] { run_training(charged("sgd", charge, more)); });
  };
  const TemporaryFile neither("charge_neither", R"({"name": "x"})");
  EXPECT_EQ(failure(neither.path()).code, ExitCode::data);
  EXPECT_NE(failure(neither.path()).message.find("found none of the keys nodes and stages_s"),
            std::string::npos)
      << failure(neither.path()).message;
  const TemporaryFile broken("charge_broken", R"({"name": "x", "nodes": [{"type": "sofmax"}]})");
  EXPECT_EQ(failure(broken.path()).code, ExitCode::data);
  EXPECT_NE(failure("resnet-5O").hint.find("resnet-50"), std::string::npos);
  EXPECT_NE(failure("resnet-50?class=3").message.find("class"), std::string::npos);
  for (const char* other : {"amazon670k", "lstm-video"}) {
    EXPECT_NE(failure(other, {{"charge_batch", "3"}}).message.find("--charge-batch"),
              std::string::npos)
        << other;
  }
  EXPECT_NE(
      test::usage_error_of([] { run_training(charged("slide", "resnet-50")); }).find("--charge"),
      std::string::npos);
}

// A network that learns is charged its plan's iteration: under `sequential` computing and transfers
// one after the other, each map that moves there and back.
TEST(PlannedNetwork, IsChargedItsPlansIteration) {
  const TemporaryFile profile("charge_profile", kProfile);
  const auto step = [&](const char* policy) {
    return step_of(run_training(fmt::format(
        "--model lenet-5 --train generate:images?size=28&channels=1&rows_train=32&rows_test=4 "
        "--test generate:images?size=28&channels=1&rows_train=32&rows_test=4 --cache false "
        "--algorithm sgd --cluster sim --profile {} --batch-size 16 --learning-rate 0.01 "
        "--max-samples 32 --memory-policy {}",
        profile.path(), policy)));
  };
  const Graph graph = find_graph("test", "lenet-5");
  const TrainingStep training =
      training_step(graph, {.batch = 16, .needs = BackwardNeeds::minimal});
  const Policy& sequential = find_policy("test", "sequential");
  double moved = 0;
  for (const StepTensor& tensor : training.tensors) {
    const bool map = tensor.kind == TensorKind::feature && !tensor.backward_uses.empty();
    if (map && sequential.moves(training, tensor)) moved += 2 * static_cast<double>(tensor.bytes);
  }
  ASSERT_GT(moved, 0);
  const double transfer = moved / 1e6, compute = step("liveness");
  EXPECT_NEAR(step("none"), compute, 1e-9 * compute);
  EXPECT_NEAR(step("sequential"), compute + transfer, 1e-9 * compute);
  EXPECT_GE(step("dymem"), std::max(compute, transfer));
  EXPECT_LE(step("dymem"), compute + transfer);
}

}  // namespace
}  // namespace hetsgd::test
