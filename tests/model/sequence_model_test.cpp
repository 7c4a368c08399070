// Networks of lstm nodes on sequences of unequal lengths: padding, packing, work.

#include "core/random.hpp"
#include "graph/graph_file.hpp"
#include "graph/networks.hpp"
#include "graph/variants.hpp"
#include "graph/work.hpp"
#include "model/network/graph_context.hpp"
#include "model/network/graph_model.hpp"
#include "support/dataset.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

constexpr Index kNumbers = 4, kKinds = 3;

// Rows of these lengths.
DatasetPtr sequences_of(const std::vector<std::uint64_t>& lengths) {
  DatasetBuilder data = dataset_of(Task::multiclass, kKinds);
  data.sequences.numbers = kNumbers;
  data.sequences.begin.push_back(0);
  RandomStream random(5, Purpose::test);
  for (const std::uint64_t length : lengths) {
    for (std::uint64_t i = 0; i < length * kNumbers; ++i) {
      data.sequences.value.push_back(static_cast<float>(random.normal()));
    }
    data.sequences.begin.push_back(data.sequences.begin.back() + length);
    end_row(data, {static_cast<Index>(random.below(kKinds))});
  }
  return std::move(data).share();
}

// The same rows, all of one length, as images [numbers, steps, 1] whose normal form they are.
DatasetPtr images_of(const std::vector<std::uint8_t>& bytes, std::size_t rows, Index steps) {
  DatasetBuilder data = dataset_of(Task::multiclass, kKinds);
  data.images = {kNumbers,
                 steps,
                 1,
                 bytes,
                 std::vector<float>(kNumbers, 100.0F),
                 std::vector<float>(kNumbers, 64.0F)};
  for (std::size_t row = 0; row < rows; ++row) end_row(data, {static_cast<Index>(row % kKinds)});
  return std::move(data).share();
}

// An lstm on the output of every step of another, with a branch of its own.
Graph stacked(Index steps = 5) {
  return parse_graph("stacked", fmt::format(R"({{"name": "stacked", "input": [4,{},1], "nodes": [
    {{"name": "a", "type": "lstm", "units": 6, "output": "all"}},
    {{"name": "r", "type": "relu"}},
    {{"name": "s", "type": "add", "from": ["a", "r"]}},
    {{"name": "b", "type": "lstm", "units": 5}},
    {{"name": "f", "type": "fc", "units": 3}}, {{"type": "softmax"}}]}})",
                                            steps));
}

Graph small_video_network() {
  return find_graph("test", "lstm-video?size=4&units=6&dense=5&classes=3&dropout=0");
}

template <class Real>
struct SequenceRun {
  SequenceRun(DatasetPtr of, const Graph& graph, const GraphModelOptions& options = {},
              int cores = 1)
      : data(std::move(of)),
        model(make_graph_model<Real>(graph, DataShape::of(*data), options)),
        device(make_cpu_device<Real>(cores)),
        context(model->make_context(*device)),
        w(initial_parameters<Real>(model->layout(), 1)) {
    RandomStream random(8, Purpose::test);
    for (Real& value : w) value += static_cast<Real>(0.1 * random.normal());  // also biases
  }

  std::vector<Real> gradient(std::vector<Index> rows) {
    auto g = make_gradient(*model, *device);
    loss = model->gradient(*context, {*data, std::move(rows)}, w.data(), g);
    return {g.flat.span().begin(), g.flat.span().end()};
  }
  std::vector<Real> scores(std::vector<Index> rows) {
    std::vector<Real> logits(rows.size() * kKinds);
    const auto n = static_cast<double>(rows.size());
    loss = model->scores(*context, {*data, std::move(rows)}, w.data(), logits.data()) / n;
    return logits;
  }

  DatasetPtr data;
  std::unique_ptr<BasicModel<Real>> model;
  std::unique_ptr<BasicDevice<Real>> device;
  std::unique_ptr<BasicModelContext<Real>> context;
  std::vector<Real> w;
  double loss = 0;
};

template <class Real>
double largest_difference(const std::vector<Real>& a, const std::vector<Real>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return largest;
}

const std::vector<std::uint64_t> kUnequal = {3, 40, 1, 7, 33, 7, 32, 12};
const std::vector<Index> kAllRows = {0, 1, 2, 3, 4, 5, 6, 7};

// Rows of one length are images of that height, to the bit, also where the plan has more steps.
TEST(SequenceModel, EqualLengthsAreTheLstmOfOneShape) {
  for (const Index steps : {5U, 32U}) {
    constexpr std::size_t kRows = 6;
    RandomStream random(2, Purpose::test);
    std::vector<std::uint8_t> bytes(kRows * kNumbers * steps);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(200));
    const DatasetPtr images = images_of(bytes, kRows, steps);
    DatasetBuilder rows = dataset_of(Task::multiclass, kKinds);
    rows.sequences.numbers = kNumbers;
    rows.sequences.begin.push_back(0);
    for (std::size_t row = 0; row < kRows; ++row) {
      for (Index step = 0; step < steps; ++step) {
        for (Index j = 0; j < kNumbers; ++j) {
          const std::uint8_t byte = bytes[(row * kNumbers + j) * steps + step];
          rows.sequences.value.push_back((static_cast<float>(byte) - 100.0F) / 64.0F);
        }
      }
      rows.sequences.begin.push_back((row + 1) * steps);
      end_row(rows, {images->labels(row)[0]});
    }
    const DatasetPtr sequences = std::move(rows).share();
    const std::vector<Index> batch = {4, 0, 3, 5, 1};
    for (const Lengths lengths : {Lengths::padded, Lengths::packed}) {
      SequenceRun<float> expected(images, stacked(steps));
      SequenceRun<float> found(sequences, stacked(), {.lengths = lengths});
      EXPECT_EQ(found.gradient(batch), expected.gradient(batch));
      EXPECT_EQ(found.loss, expected.loss);
      EXPECT_EQ(found.scores(batch), expected.scores(batch));
    }
  }
}

// Only dropout makes batches differ, and its masks follow the places of rows.
TEST(SequenceModel, PackedNumbersArePaddedOnes) {
  for (const Graph& graph : {stacked(), small_video_network(),
                             find_graph("test", "lstm-video?size=4&units=6&dense=50&classes=3")}) {
    SequenceRun<double> padded(sequences_of(kUnequal), graph);
    SequenceRun<double> packed(sequences_of(kUnequal), graph, {.lengths = Lengths::packed});
    EXPECT_LT(largest_difference(padded.gradient(kAllRows), packed.gradient(kAllRows)), 1e-13);
    EXPECT_NEAR(padded.loss, packed.loss, 1e-13);
    EXPECT_EQ(padded.scores(kAllRows), packed.scores(kAllRows));
  }
}

// The gradient of a batch is the mean of those of its rows alone, where nothing is padded.
TEST(SequenceModel, ARowDoesNotDependOnWhoSharesItsBatch) {
  for (const Lengths lengths : {Lengths::padded, Lengths::packed}) {
    SequenceRun<double> t(sequences_of(kUnequal), stacked(), {.lengths = lengths});
    const std::vector<double> together = t.gradient(kAllRows);
    const double loss = t.loss;
    const std::vector<double> scores = t.scores(kAllRows);
    EXPECT_NEAR(t.loss, loss, 1e-13);
    std::vector<double> mean(together.size());
    double mean_loss = 0;
    for (const Index row : kAllRows) {
      const std::vector<double> alone = t.gradient({row});
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += alone[i] / 8;
      mean_loss += t.loss / 8;
      const std::vector<double> own = t.scores({row});
      for (Index label = 0; label < kKinds; ++label) {
        EXPECT_NEAR(own[label], scores[row * kKinds + label], 1e-13);
      }
    }
    EXPECT_NEAR(mean_loss, loss, 1e-13);
    EXPECT_LT(largest_difference(mean, together), 1e-13);
  }
}

TEST(SequenceModel, HasTheSameBitsUnderEveryPolicyAndNumberOfCores) {
  for (const Lengths lengths : {Lengths::padded, Lengths::packed}) {
    SequenceRun<float> t(sequences_of(kUnequal), stacked(), {.lengths = lengths});
    const std::vector<float> expected = t.gradient(kAllRows);
    for (const std::string policy : {"none", "dymem", "vdnn-all"}) {
      SequenceRun<float> other(sequences_of(kUnequal), stacked(),
                               {.lengths = lengths, .memory_policy = policy}, 2);
      EXPECT_EQ(other.gradient(kAllRows), expected) << policy;
    }
  }
}

TEST(SequenceModel, PlansAreKeptForStepsRoundedUpTo32) {
  EXPECT_EQ(planned_steps(1), 32);
  EXPECT_EQ(planned_steps(32), 32);
  EXPECT_EQ(planned_steps(33), 64);
  EXPECT_EQ(planned_steps(1776), 1792);
  const DatasetPtr data = sequences_of(kUnequal);
  const Graph graph = stacked();
  const auto device = make_cpu_device<float>(1);
  GraphContext<float> context(*device, graph, {find_policy("test", "liveness"), {}}, host_rates());
  const auto executor = [&](const Batch& batch) {
    return &context.executor(BatchPart(batch, 0, batch.size()));
  };
  const auto* const three_and_seven = executor({*data, {0, 3}});
  EXPECT_EQ(executor({*data, {6, 2}}), three_and_seven);
  EXPECT_NE(executor({*data, {4, 2}}), three_and_seven);
  EXPECT_NE(executor({*data, {0, 3, 5}}), three_and_seven);
}

// An lstm of T steps takes T times 3 (8 n h (i + h) + 30 n h) operations and 6 launches; the other
// nodes take the work of one shape.
TEST(SequenceModel, WorkGrowsWithTheSteps) {
  const Graph graph = small_video_network();
  const DatasetPtr data = sequences_of(kUnequal);
  const DataShape shape = DataShape::of(*data);
  const auto padded = make_graph_model<float>(graph, shape, {});
  const auto packed = make_graph_model<float>(graph, shape, {.lengths = Lengths::packed});
  const auto work = [](const auto& model, double steps, double frames) {
    return model->gradient_work({.samples = 8, .steps = steps, .frames = frames});
  };
  const double h = 6, i = 4, n = 8;
  const Work a = work(padded, 40, 135), b = work(padded, 41, 300);
  EXPECT_NEAR(b.operations - a.operations, 3 * (8 * n * h * (i + h) + 30 * n * h), 1e-6);
  EXPECT_NEAR(b.launches - a.launches, 6, 1e-9);
  const auto fixed =
      make_graph_model<float>(with_steps(graph, 40), data_shape(with_steps(graph, 40)), {});
  const Work of_one_shape = fixed->gradient_work({.samples = 8});
  EXPECT_NEAR(a.operations, of_one_shape.operations, 1e-6 * a.operations);
  EXPECT_NEAR(a.bytes, of_one_shape.bytes, 1e-6 * a.bytes);
  EXPECT_NEAR(a.launches, of_one_shape.launches, 1e-9);
  // Packed: the sum of the lengths over the rows, in place of the longest.
  const Work c = work(packed, 40, 8 * 17);
  EXPECT_NEAR(c.operations, work(padded, 17, 17).operations, 1e-6 * c.operations);
  const Batch batch(*data, kAllRows);
  EXPECT_EQ(padded->counted_steps(batch.shape()), 40);
  EXPECT_EQ(packed->counted_steps(batch.shape()), 135.0 / 8);
}

TEST(SequenceModel, RefusesWhatItDoesNotFit) {
  const auto refusal = [](const Graph& graph, const DataShape& shape) {
    const Failure failure = failure_of([&] { make_graph_model<float>(graph, shape, {}); });
    return failure.message + failure.hint;
  };
  DataShape shape = DataShape::of(*sequences_of(kUnequal));
  EXPECT_EQ(refusal(stacked(), shape), "");
  EXPECT_THAT(refusal(find_graph("test", "lenet-5"), shape),
              HasSubstr("the training data have sequences, and its node input"));
  shape.frame_numbers = 9;
  EXPECT_THAT(refusal(stacked(), shape), HasSubstr("reads frames of 4 elements"));
  shape.frame_numbers = kNumbers;
  shape.label_count = 4;
  EXPECT_THAT(refusal(stacked(), shape), HasSubstr("3 classes"));
  const DataShape sparse{.feature_count = 7, .label_count = 3, .task = Task::multiclass};
  EXPECT_THAT(refusal(stacked(), sparse),
              AllOf(HasSubstr("have none"), HasSubstr("generate:video?size=4")));
}

}  // namespace
}  // namespace hetsgd::test
