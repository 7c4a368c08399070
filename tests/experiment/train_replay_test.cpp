// train --replay: the recorded conditions under the recorded algorithm, and under another one.

#include "core/error.hpp"
#include "result/result.hpp"
#include "support/failure.hpp"
#include "support/recorded.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

// Everything of a result that follows from the options but `config` itself.
nlohmann::json outcome_of(const Record& record) {
  nlohmann::json result = result_json(record, {});
  for (const char* key : {"config", "environment", "wall", "started_at", "finished_at", "args"}) {
    result.erase(key);
  }
  return result;
}

// A record in a file, and the run that it comes from.
struct Recording {
  explicit Recording(const Settings& settings) {
    Trace trace(TraceDetail::causes);
    const Record traced = run_training(settings, {.trace = &trace});
    write_timeline(path, trace, traced);
    record = run_training(settings);
  }
  TemporaryFolder folder;
  std::string path = folder / "run.jsonl.zst";
  Record record;
};

const Settings kMachine = "--workers 4 --max-samples 2560 --mega-batch 20";
const Settings kConditions = with(
    kMachine,
    "--network ethernet-10g --profile k80*2,v100 --speed 1,0.9,0.8,0.7 --straggler "
    "kind=uniform,min=0ms,max=5ms --straggler kind=periodic,period=20ms,duration=5ms,factor=3");

// The recorded algorithm under the recorded conditions is the recorded run, although nothing says
// what the conditions were: neither stragglers nor speeds, profiles or network.
TEST(TrainReplay, TheRecordedAlgorithmIsTheSameRun) {
  for (const char* algorithm : {"ssgd", "asgd", "dc-asgd", "ssp", "adpsgd", "rna", "eager-majority",
                                "elastic", "adaptive", "esync", "local-sgd", "sma", "easgd"}) {
    SCOPED_TRACE(algorithm);
    const Recording recording(tiny(algorithm, kConditions));
    const Record replayed =
        run_training(with(tiny(algorithm, kMachine), {{"replay", recording.path}}));
    const nlohmann::json was = outcome_of(recording.record), is = outcome_of(replayed);
    EXPECT_TRUE(was == is) << nlohmann::json::diff(was, is).dump().substr(0, 400);
  }
}

// Another algorithm under the recorded conditions is that algorithm under the conditions
// themselves, where delays go by the number of the step.
TEST(TrainReplay, AnotherAlgorithmRunsUnderTheRecordedConditions) {
  const Settings straggler =
      "--straggler kind=constant,worker=1,factor=3 --straggler "
      "kind=uniform,min=1ms,max=3ms";
  const Recording recording(tiny("ssgd", with(kMachine, straggler)));
  for (const char* algorithm : {"elastic", "adaptive", "esync", "asgd", "local-sgd"}) {
    SCOPED_TRACE(algorithm);
    const Record predicted =
        run_training(with(tiny(algorithm, kMachine), {{"replay", recording.path}}));
    const Record real = run_training(tiny(algorithm, with(kMachine, straggler)));
    EXPECT_NEAR(predicted.elapsed / real.elapsed, 1, 0.1);
  }
}

// Delays of --straggler do not go with the size of a batch: steps of 4 times as many samples have
// the same ones.
TEST(TrainReplay, InjectedDelaysStayWithLargerBatches) {
  const Settings straggler =
      "--straggler kind=constant,worker=1,factor=3 --straggler kind=pareto,scale=1ms,shape=2";
  const Settings larger = with(kMachine, "--batch-size 128 --max-samples 10240");
  const Recording recording(tiny("ssgd", with(kMachine, straggler)));
  for (const char* algorithm : {"ssgd", "elastic", "asgd"}) {
    SCOPED_TRACE(algorithm);
    const Record predicted =
        run_training(with(tiny(algorithm, larger), {{"replay", recording.path}}));
    const Record real = run_training(tiny(algorithm, with(larger, straggler)));
    EXPECT_NEAR(predicted.elapsed / real.elapsed, 1, 1e-6);
  }
}

// A record in BF16 knows the rate of its steps; their bytes and launches cost as in FP32.
TEST(TrainReplay, StepsInBf16StayAtTheirRateWithLargerBatches) {
  DeviceProfile profile = load_device_profile("cpu");
  profile.bf16_operations_per_s = 16 * profile.operations_per_s;
  const TemporaryFile file("profile", to_json_text(profile));
  const Settings settings = with(kMachine, "--precision bf16 --profile {}", file.path());
  const Recording recording(tiny("ssgd", settings));
  const Settings larger = "--batch-size 128 --max-samples 10240";
  const Record predicted = run_training(with(tiny("ssgd", with(kMachine, larger)),
                                             {{"precision", "bf16"}, {"replay", recording.path}}));
  const Record real = run_training(tiny("ssgd", with(settings, larger)));
  EXPECT_NEAR(predicted.elapsed / real.elapsed, 1, 1e-6);
}

TEST(TrainReplay, ByTimeAnInterferenceStaysWhereItWas) {
  const Settings straggler = "--straggler kind=pause,at=5ms,duration=50ms,worker=0";
  const Recording recording(tiny("ssgd", with(kMachine, straggler)));
  const Record again = run_training(
      with(tiny("ssgd", kMachine), {{"replay", recording.path}, {"replay_by", "time"}}));
  EXPECT_NEAR(again.elapsed / recording.record.elapsed, 1, 0.05);
}

TEST(TrainReplay, StepTimesOfOtherToolsAreConditions) {
  const TemporaryFolder folder;
  const std::string path = folder.write("steps.csv", "worker,step,seconds\n0,0,1\n1,0,3\n");
  const Record record =
      run_training(tiny("ssgd", {{"workers", "2"}, {"max_samples", "640"}, {"replay", path}}));
  EXPECT_NEAR(record.elapsed.count(), 10 * 3, 0.1);  // 10 steps of 3 s
}

TEST(TrainReplay, ARunThatIsLongerThanTheRecordSaysSo) {
  const Recording recording(tiny("ssgd", kMachine));
  const auto note = [&](const Settings& more) {
    const Record record =
        run_training(with(tiny("ssgd", with(kMachine, more)), {{"replay", recording.path}}));
    for (const std::string& warning : record.warnings) {
      if (warning.starts_with("--replay: ")) return warning;
    }
    return std::string();
  };
  for (const char* by : {"iteration", "time"}) {
    EXPECT_EQ(note(Settings{{"replay_by", by}}), "") << by;
    EXPECT_THAT(note({{"replay_by", by}, {"max_samples", "6400"}}),  // of 2560
                AllOf(HasSubstr("the run is 2.5"), HasSubstr("which starts over 2 times")))
        << by;
  }
}

// A real run again in simulation: all of its steps, and no more than its time. A host that is busy
// lets threads come late, which no step shows.
TEST(TrainReplay, ARunOfThreadsHasItsStepsAgain) {
  const Recording recording(tiny("ssgd",
                                 "--cluster threads --devices cpu:1 --workers 2 --straggler "
                                 "kind=uniform,min=5ms,max=15ms --max-samples 3200"));
  const Timeline timeline = read_timeline(recording.path);
  const Record replayed = run_training(
      with(tiny("ssgd", "--workers 2 --max-samples 3200"), {{"replay", recording.path}}));
  for (const TraceLine& line : timeline.processes) {
    Seconds steps{0};
    for (const RecordedCall& range : line.ranges) {
      if (range.name == "step") steps += range.end - range.begin;
    }
    EXPECT_GE(replayed.elapsed, 0.99 * steps);
  }
  EXPECT_LE(replayed.elapsed, 1.05 * timeline.elapsed);
}

TEST(TrainReplay, ErrorsNameTheOption) {
  const TemporaryFolder folder;
  const std::string path = folder.write("steps.csv", "worker,step,seconds\n0,0,1\n1,0,3\n");
  const auto refused = [&](const Settings& more) {
    return usage_error_of([&] {
      run_training(with(tiny("ssgd", "--max-samples 640"), with({{"replay", path}}, more)));
    });
  };
  EXPECT_THAT(refused("--workers 3"), HasSubstr("--workers: found 3 with --replay"));
  EXPECT_THAT(refused("--workers 2 --straggler kind=uniform,min=0ms,max=1ms"),
              HasSubstr("--straggler: found a straggler beside --replay"));
  EXPECT_THAT(refused("--workers 2 --speed 1,2"), HasSubstr("--speed: found speeds"));
  EXPECT_THAT(refused("--workers 2 --cluster threads"), HasSubstr("--replay: found --cluster"));
}

}  // namespace
}  // namespace hetsgd::test
