// A timeline is read as it was written, and a broken one is refused by its line.

#include <mutex>

#include "core/error.hpp"
#include "data/source.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd::test {
namespace {

using std::string_literals::operator""s;

struct Recorded {
  explicit Recorded(const Settings& settings) {
    record = run_training(settings, {.trace = &trace});
  }
  Trace trace{TraceDetail::causes};
  Record record;
};

const Settings kRecorded =
    tiny("ssgd", "--workers 3 --max-samples 1920 --straggler kind=uniform,min=0ms,max=5ms");

void expect_equal(const RecordedCall& a, const RecordedCall& b) {
  EXPECT_EQ(a.category, b.category);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.wait, b.wait);
  EXPECT_EQ(a.delay, b.delay);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.work.operations, b.work.operations);
  EXPECT_EQ(a.work.bytes, b.work.bytes);
  EXPECT_EQ(a.work.launches, b.work.launches);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.peer, b.peer);
  EXPECT_EQ(a.cause.rank, b.cause.rank);
  EXPECT_EQ(a.cause.calls, b.cause.calls);
  EXPECT_EQ(a.cause.time, b.cause.time);
}

void expect_equal(const std::vector<const TraceLine*>& written,
                  const std::vector<TraceLine>& read) {
  std::size_t next = 0;
  for (const TraceLine* line : written) {
    if (line->name.ends_with(kStartedCalls)) continue;
    ASSERT_LT(next, read.size());
    const TraceLine& again = read[next++];
    EXPECT_EQ(line->rank, again.rank);
    EXPECT_EQ(line->name, again.name);
    EXPECT_EQ(line->main, again.main);
    ASSERT_EQ(line->ranges.size(), again.ranges.size()) << line->name;
    for (std::size_t r = 0; r < line->ranges.size(); ++r) {
      expect_equal(line->ranges[r], again.ranges[r]);
    }
  }
  EXPECT_EQ(next, read.size());
}

TEST(TimelineFile, IsReadAsItWasWritten) {
  for (const char* algorithm : {"ssgd", "asgd", "adpsgd", "rna", "elastic", "adaptive"}) {
    SCOPED_TRACE(algorithm);
    const Recorded run(with(kRecorded, {{"algorithm", algorithm}}));
    for (const char* ending : {".jsonl", ".jsonl.zst"}) {
      const TemporaryFolder folder;
      const std::string path = folder / (std::string("run") + ending);
      write_timeline(path, run.trace, run.record);
      const Timeline timeline = read_timeline(path);
      EXPECT_FALSE(timeline.cut);
      EXPECT_EQ(timeline.config, run.record.config);
      EXPECT_EQ(timeline.network, run.record.network);
      EXPECT_EQ(timeline.elapsed, run.record.elapsed);
      EXPECT_EQ(timeline.workers, 3);
      expect_equal(run.trace.lines(), timeline.processes);
      expect_equal(run.trace.services(), timeline.services);
    }
  }
}

TEST(TimelineFile, TakesAtMost40BytesACall) {
  const Recorded run(with(kRecorded, "--algorithm asgd --max-samples 64000"));
  const TemporaryFolder folder;
  const std::string path = folder / "run.jsonl.zst";
  write_timeline(path, run.trace, run.record);
  std::size_t calls = 0;
  for (const auto& lines : {run.trace.lines(), run.trace.services()}) {
    for (const TraceLine* line : lines) calls += line->ranges.size();
  }
  EXPECT_GT(calls, 4000U);
  EXPECT_LE(read_file(path).size(), 40 * calls);
}

// A file that was cut off anywhere has whole rounds, or the error that there is none.
TEST(TimelineFile, ACutFileGivesItsWholeRounds) {
  const Recorded run(kRecorded);
  const TemporaryFolder folder;
  const std::string path = folder / "run.jsonl";
  write_timeline(path, run.trace, run.record);
  const std::string whole = read_file(path);
  const std::size_t header = whole.find('\n') + 1;
  std::size_t most = 0;
  for (std::size_t size = header; size + 1 < whole.size(); size += whole.size() / 37) {
    write_file(path, whole.substr(0, size));
    try {
      const Timeline timeline = read_timeline(path);
      EXPECT_TRUE(timeline.cut);
      std::size_t steps = 0;
      for (const TraceLine& line : timeline.processes) {
        const auto is_step = [](const RecordedCall& range) { return range.name == "step"; };
        const auto mine = static_cast<std::size_t>(std::ranges::count_if(line.ranges, is_step));
        EXPECT_TRUE(line.rank == 0 || mine == steps);
        steps = mine;
      }
      EXPECT_GE(steps, most);
      most = steps;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_EQ(most, 0U);
      EXPECT_THAT(error.what(), HasSubstr("no whole round"));
    }
  }
  EXPECT_GT(most, 15U);
}

// A small record is one block of zstd, so a cut file has nothing of it.
TEST(TimelineFile, AFileThatIsCutAtItsStartIsNamed) {
  const Recorded run(with(kRecorded, "--max-samples 192"));
  const TemporaryFolder folder;
  for (const auto& [name, block] : {std::pair("run.jsonl.zst", "first block of compressed lines"),
                                    std::pair("run.jsonl", "first line")}) {
    const std::string path = folder / name;
    write_timeline(path, run.trace, run.record);
    const std::string whole = read_file(path);
    for (const std::size_t size : {std::size_t{2}, std::size_t{20}, std::size_t{200}}) {
      write_file(path, whole.substr(0, size));
      EXPECT_THAT(
          error_of([&] { read_timeline(path); }),
          HasSubstr(fmt::format("{}: found {} bytes of a record that is cut off within its {}",
                                path, size, block)));
    }
    write_file(path, "");
    EXPECT_THAT(error_of([&] { read_timeline(path); }), HasSubstr(path + ": found an empty file"));
  }
}

// The record of a run that memory has no room for is the same.
TEST(TimelineFile, ARecordBeyondMemoryIsTheSame) {
  const TemporaryFolder folder;
  const auto text_of = [&](std::uint64_t most_bytes) {
    Trace trace(TraceDetail::causes, {.most_bytes = most_bytes, .folder = folder.string()});
    const Record record =
        run_training(with(kRecorded, "--algorithm asgd --max-samples 64000"), {.trace = &trace});
    EXPECT_EQ(trace.is_in_memory(), most_bytes > 0);
    EXPECT_EQ(record.workers[0].waited_for.has_value(), most_bytes > 0);
    write_timeline(folder / "run.jsonl", trace, record);
    return read_file(folder / "run.jsonl");
  };
  EXPECT_TRUE(text_of(0) == text_of(kMostCallBytes));
}

// Its background task computes when it starts, and once more long after its worker has ended.
class Lingering final : public Algorithm {
 public:
  void worker(Worker& self) const override {
    const std::uint64_t b = self.plan().batch_size;
    Replica& replica = self.state([&] { return self.replica(); });
    const std::shared_ptr<Monitor> monitor = self.make_monitor();
    const auto finished = std::make_shared<bool>(false);
    self.background_task("linger", [=](Worker& task) {
      task.compute_vectors(1, [] {});
      {
        const std::lock_guard guard(*monitor);
        monitor->wait([&] { return *finished; }, "the end of its worker");
      }
      task.endpoint().sleep(Seconds(0.05));
      task.compute_vectors(1, [] {});
    });
    while (self.running()) {
      self.learn(replica, self.batches().next(b), self.learning_rate(b));
      self.evaluate_here(replica.w);
    }
    const std::lock_guard guard(*monitor);
    *finished = true;
    monitor->notify_all();
  }
};

const bool lingering_registered = register_algorithm<Lingering>({.name = "lingering",
                                                                 .title = "Lingering",
                                                                 .idea = "Used by a test.",
                                                                 .paper = "none",
                                                                 .cost = "none",
                                                                 .result = "worker 0's model"});

// In real time a segment begins when the background tasks of the one before have ended, too.
TEST(TimelineFile, SegmentsDoNotOverlap) {
  const TemporaryFolder folder;
  const Recorded run(tiny("lingering",
                          "--cluster threads --devices cpu:1 --workers 2 --max-samples 1280 "
                          "--evaluate-every 320 --checkpoint-every 1 --checkpoint " +
                              (folder / "run.checkpoint")));
  EXPECT_GE(run.record.segments.size(), 2U);
  write_timeline(folder / "run.jsonl", run.trace, run.record);
  EXPECT_EQ(read_timeline(folder / "run.jsonl").processes.size(), 4U);
}

constexpr const char* kHeader =
    R"({"hetsgd_timeline":1,"config":{},"cluster":"sim","clock_resolution_s":0,"workers":1,)"
    R"("elapsed_s":3,"processes":[{"rank":0,"name":"worker 0","main":true}]})";

// The error of a file with this text.
std::string refusal(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.jsonl", text);
  const std::string message = error_of([&] { read_timeline(path); });
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

std::string refusal_of_calls(const std::string& calls) {
  return refusal(std::string(kHeader) + "\n" + calls);
}

TEST(TimelineFile, ErrorsNameTheLine) {
  const std::string call = R"({"p":0,"c":"compute","e":2})"
                           "\n";
  EXPECT_THAT(refusal_of_calls(call + R"({"p":0,"c":"compute","b":0,"e":1})"
                                      "\n"),
              HasSubstr(":3: e: found 1, expected at least 2"));
  EXPECT_THAT(refusal_of_calls(R"({"p":1,"c":"compute","e":2})"
                               "\n"),
              HasSubstr(":2: p: found 1, expected a process of the header, 0 to 0"));
  EXPECT_THAT(refusal_of_calls(R"({"p":0,"c":"compute","b":3,"e":2})"
                               "\n"),
              HasSubstr(":2: e: found 2, expected the end of the call, at least its begin 3"));
  EXPECT_THAT(refusal_of_calls(R"({"p":0,"z":3})"
                               "\n"),
              HasSubstr(":2: found key \"z\""));
  EXPECT_THAT(refusal_of_calls("{\"p\":0,\n"), HasSubstr(":2:"));
  EXPECT_THAT(refusal_of_calls(call + R"({"lines":2})"
                                      "\n"),
              HasSubstr(":3: lines: found 2, expected 1"));
  EXPECT_THAT(refusal_of_calls(R"({"p":0,"c":"monitor","e":2,"k":"monitor","a":[3,0,1,1]})"
                               "\n{\"lines\":1}\n"),
              HasSubstr(": worker 0: found a reference to line 0 of worker 3"));
  EXPECT_THAT(refusal("{\"hetsgd_timeline\":99}\n"), HasSubstr(":1: found version 99"));
  EXPECT_THAT(refusal("{\"schema_version\":1}\n"), HasSubstr("expected the header"));
}

// Whatever a reader of a record asks for has the right type, or is named by line and key.
TEST(TimelineFile, WrongTypesAndTimesAreNamed) {
  nlohmann::json header = nlohmann::json::parse(kHeader);
  header["stragglers"] = {"kind=constant,worker=0,factor=2"};
  header["device_profile"] = nlohmann::json::array({{{"workers", "0"}}});
  header["charge"] = {{"parameter_ratio", 2}};
  header["config"] = {{"speed", {1, 2}}, {"seed", 1}, {"algorithm", "ssgd"}};
  for (const char* part :
       {"/stragglers", "/stragglers/0", "/device_profile", "/device_profile/0",
        "/device_profile/0/workers", "/server_profile", "/network", "/charge",
        "/charge/parameter_ratio", "/config", "/config/speed", "/config/speed/0", "/config/seed",
        "/config/algorithm", "/elapsed_s", "/processes/0/parent"}) {
    for (const nlohmann::json& wrong : {nlohmann::json(-1), nlohmann::json({{"a", 1}}),
                                        nlohmann::json::array({nlohmann::json::array({1})})}) {
      nlohmann::json broken = header;
      broken[nlohmann::json::json_pointer(part)] = wrong;
      const bool is_object = wrong.is_object();
      if (is_object && (part == "/network"s || part == "/server_profile"s ||
                        part == "/device_profile"s || part == "/charge"s || part == "/config"s)) {
        continue;  // an object is the right type
      }
      EXPECT_THAT(refusal(broken.dump() + "\n"), StartsWith(":1: ")) << part << " " << wrong;
    }
  }
  for (const char* call : {R"("w":-1e308)", R"("d":-1)", R"("v":-1)", R"("w":3)", R"("d":3)",
                           R"("q":1,"v":3)", R"("a":[1e12,0,1,1])"}) {
    const std::string key(call + std::string_view(call).rfind(':') - 2, 1);
    EXPECT_THAT(refusal_of_calls(fmt::format(R"({{"p":0,"c":"compute","e":2,{}}})", call) + "\n"),
                StartsWith(":2: " + key + ": found "))
        << call;
  }
}

TEST(TimelineFile, AMarkAndEmptyLinesChangeNothing) {
  const std::string text = std::string(kHeader) + R"(
{"p":0,"c":"compute","n":"step","e":2,"d":2}
{"lines":1}
)";
  const TemporaryFolder folder;
  for (const std::string& same : {text, text + "\n \r\n", "\xef\xbb\xbf" + text}) {
    EXPECT_EQ(read_timeline(folder.write("run.jsonl", same)).processes[0].ranges.size(), 1U);
  }
  const std::string steps = "\xef\xbb\xbfworker,step,seconds\n0,0,1\n\n";
  EXPECT_EQ(read_timeline(folder.write("steps.csv", steps)).elapsed, Seconds(1));
}

TEST(StepTimesOfOtherTools, HaveColumnsAndUnitsOfTheirOwn) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "steps.csv", "time,\"rank\", iteration ,step (ms)\nx,0,0,1000\n# a comment\ny,0,1,500\n");
  EXPECT_EQ(read_timeline(path, "rank,iteration,step (ms)").elapsed, Seconds(1.5));
  const auto said = [&](const std::string& columns, ExitCode code) {
    return error_of([&] { read_timeline(path, columns); }, code);
  };
  EXPECT_THAT(said("rank,iteration,time", ExitCode::usage),
              HasSubstr("expected a name that ends with its unit"));
  EXPECT_THAT(said("rank,step_ms", ExitCode::usage), HasSubstr("expected three names"));
  EXPECT_THAT(
      said("worker,iteration,step (ms)", ExitCode::data),
      HasSubstr(":1:1: found \"time,\\\"rank\\\", iteration ,step (ms)\", expected a header "
                "with one column \"worker\""));
}

TEST(StepTimesOfOtherTools, AreStepsBetweenBarriers) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("steps.csv", "worker,step,seconds\n0,0,1\n1,0,3\n# a comment\n1,1,1\n0,1,2\n");
  const Timeline timeline = read_timeline(path);
  EXPECT_EQ(timeline.workers, 2);
  EXPECT_EQ(timeline.elapsed, Seconds(5));
  ASSERT_EQ(timeline.processes[0].ranges.size(), 4U);
  EXPECT_EQ(timeline.processes[0].ranges[1].wait, Seconds(2));
  EXPECT_EQ(timeline.processes[1].ranges[2].begin, Seconds(3));
  EXPECT_EQ(timeline.processes[1].ranges[2].end, Seconds(4));
  EXPECT_THAT(refusal("worker,step,ms\n0,0,1\n"),
              HasSubstr(":1:1: found \"worker,step,ms\", expected the header worker,step,seconds"));
  EXPECT_THAT(refusal("0,0\n"), HasSubstr(":1:1: found 2 fields"));
  EXPECT_THAT(refusal("0,0,x\n"), HasSubstr(":1:5: found \"x\", expected seconds: 0, or 1e-12"));
  EXPECT_THAT(refusal("0,0,1e-320\n"),
              HasSubstr(":1:5: found \"1e-320\", expected seconds: 0, or 1e-12"));
  EXPECT_THAT(refusal("0,0,0\n1,0,0\n"), HasSubstr("found steps of 0 s alone"));
  EXPECT_THAT(refusal("0,1.5,1\n"), HasSubstr(":1:3: found \"1.5\", expected a step"));
  EXPECT_THAT(refusal("0,0,1\n0,0,1\n"), HasSubstr(":2:1: found worker 0 and step 0 again"));
  EXPECT_THAT(refusal("0,0,1\n2,0,1\n"), HasSubstr("expected workers 0 to 2"));
  EXPECT_THAT(refusal("0,0,1\n1,1,1\n"), HasSubstr("expected steps 0 to 0"));
}

}  // namespace
}  // namespace hetsgd::test
