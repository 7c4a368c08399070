// Checkpoints: a run that goes on from one makes the same steps as a run that was not interrupted.

#include "training/checkpoint.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "core/error.hpp"
#include "support/effort.hpp"
#include "support/failure.hpp"
#include "support/run.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

struct Outcome {
  Record record;
  SavedFields fields;  // what the record knows of itself, without host times
  std::string parameters;
};

// A run's results as bytes: its curve, events, histograms, warnings and segments.
SavedFields fields_of(Record& record) {
  SavedFields fields;
  for (CurvePoint& point : record.curve) point.measure_begin_s = point.wall_s = 0;
  Archive archive = Archive::saving(fields, fields);
  archive("record", record);
  std::erase_if(fields, [](const auto& field) {
    return field.first.starts_with("record/phases") || field.first == "record/started_at" ||
           field.first == "record/resumes" || field.first == "record/warnings";
  });
  return fields;
}

Outcome run(const Settings& settings) {
  const TemporaryFolder folder;
  const std::string path = folder / "parameters.f32";
  Outcome outcome{run_training(with(settings, {{"dump_parameters", path}})), {}, {}};
  outcome.fields = fields_of(outcome.record);
  outcome.parameters = read_file(path);
  return outcome;
}

std::vector<double> times_of(const Record& record) {
  std::vector<double> times;
  for (const WorkerRecord& worker : record.workers) {
    const TimeBreakdown& spent = worker.report.breakdown;
    times.insert(times.end(),
                 {spent.compute.count(), spent.communicate.count(), spent.wait.count(),
                  static_cast<double>(spent.steps), static_cast<double>(worker.samples),
                  static_cast<double>(worker.updates)});
  }
  return times;
}

// The warnings of the run itself. A resumed run with a trace, which ThreadSanitizer's runs have,
// also says where the trace begins.
std::vector<std::string> warnings_of(const Record& record) {
  std::vector<std::string> warnings = record.warnings;
  std::erase_if(warnings, [](const std::string& text) {
    return text.find("after the resume alone") != std::string::npos;
  });
  return warnings;
}

void expect_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.fields.size(), b.fields.size());
  for (const auto& [name, bytes] : a.fields) {
    ASSERT_TRUE(b.fields.contains(name)) << name;
    EXPECT_TRUE(std::ranges::equal(bytes.span(), b.fields.at(name).span())) << name;
  }
  EXPECT_EQ(warnings_of(a.record), warnings_of(b.record));
  EXPECT_EQ(times_of(a.record), times_of(b.record));
  EXPECT_TRUE(a.parameters == b.parameters);
}

struct Case {
  std::string name, algorithm;
  Settings more = {};
};

class EveryAlgorithm : public testing::TestWithParam<Case> {
 protected:
  // Five evaluations, a segment after the second and the fourth.
  Settings settings() const {
    const Case& test = GetParam();
    return with(with(tiny(test.algorithm), kRun), test.more);
  }
  const TemporaryFolder folder_;
  static inline const Settings kRun =
      "--workers 4 --max-samples 3200 --evaluate-every 640 --record-steps --mega-batch 8 "
      "--straggler kind=uniform,min=0ms,max=2ms --checkpoint-every 2 --checkpoint-keep 3";
};

TEST_P(EveryAlgorithm, GoesOnAsIfItHadNotBeenInterrupted) {
  if (kSanitizer == Sanitizer::thread) GTEST_SKIP() << "its workers are simulated";
  const std::string file = folder_ / "run.checkpoint";
  const Outcome whole = run(with(settings(), {{"checkpoint", file}}));
  ASSERT_EQ(whole.record.segments.size(), 2U);
  for (const char* const age : {"", ".1"}) {
    SCOPED_TRACE(age);
    const Outcome resumed = run(with(
        settings(), {{"checkpoint", folder_ / "again.checkpoint"}, {"resume_from", file + age}}));
    EXPECT_EQ(resumed.record.resumes.size(), 1U);
    expect_same(whole, resumed);
  }
}

const Settings kTables =
    "--train generate:ctr-tiny --test generate:ctr-tiny --min-frequency 5 --model deepfm "
    "--embedding-dim 8 --hidden 16,8 --tables sharded";

// Rows of unequal length, whose workers' batches have unequally many targets.
const Settings kLines =
    "--train generate:language?steps=8&lengths=lognormal&median=4&rows_train=500&rows_test=60 "
    "--test generate:language?steps=8&lengths=lognormal&median=4&rows_train=500&rows_test=60 "
    "--model gpt-micro?layers=1&width=16&block=8 --storage central";

const std::vector<Case> kCases = {
    {"sgd", "sgd", "--workers 1 --optimizer adam"},
    {"ssgd", "ssgd", "--optimizer momentum --schedule linear --decay-epochs 2"},
    {"ssgd_split", "ssgd", "--per-worker-batch split --partition iid --overlap"},
    {"ssgd_central", "ssgd", "--storage central --optimizer lamb"},
    {"ssgd_adasum", "ssgd", "--reduce adasum --optimizer adam --orthogonality-every 3"},
    {"ssgd_partitioned", "ssgd",
     "--reduce adasum --optimizer lamb --node-size 2 --optimizer-state partitioned"},
    {"ssgd_tables", "ssgd", kTables},
    {"ssgd_lines", "ssgd", kLines},
    {"ssgd_bf16", "ssgd", "--precision bf16"},
    {"elastic", "elastic", "--optimizer adagrad"},
    {"adaptive", "adaptive", "--speed 1,0.9,0.7,0.5"},
    {"adaptive_warmup", "adaptive", "--adaptive-warmup-epochs 1 --optimizer lars"},
    {"local_sgd", "local-sgd", "--outer-optimizer nesterov --optimizer adam --local-steps 5"},
    {"sma", "sma", "--learners-per-device 2 --optimizer momentum"},
    {"sma_tuned", "sma", "--learners-per-device auto --profile titan-x-pascal --tuner-every 3"},
    {"sma_restart", "sma", "--schedule step --step-epochs 0.5,1 --restart always"},
    {"easgd", "easgd", "--tau 3"},
    {"esync", "esync", "--speed 1,0.5,0.3,0.2 --optimizer adam"},
    {"esync_delayed", "esync", "--ack delayed --aggregate server --speed 1,0.5,0.3,0.2"},
    {"asgd", "asgd", "--optimizer adam"},
    {"dc_asgd", "dc-asgd", "--dc adaptive"},
    {"dc_asgd_server", "dc-asgd", "--dc-backup server"},
    {"ssp", "ssp", "--staleness 1 --speed 1,0.5,0.3,0.2"},
    {"adpsgd", "adpsgd", "--optimizer momentum --partition dirichlet"},
    {"eager_solo", "eager-solo", "--optimizer momentum"},
    {"eager_majority", "eager-majority", "--late drop"},
    {"rna", "rna", "--optimizer adam --speed 1,0.5,0.3,0.2"},
    {"rna_local", "rna", "--local-training --ahead 2 --trigger any --eta 8"},
    {"rna_groups", "rna", "--hierarchical --groups 0-1:2-3"},
    {"rna_grouped", "rna",
     "--hierarchical --group-after 3 --straggler kind=constant,worker=0,factor=6"},
    {"hogwild", "hogwild"},
    {"hogwild_models", "hogwild", "--models 0-1:2-3 --tau 5"},
    {"hogbatch", "hogbatch", "--profile v100,cpu"},
    {"slide", "slide", "--rehash 10 --hash-tables 8"},
    {"hashed", "elastic", "--objective hashed --negatives 20 --rehash 10 --hash-tables 8"},
    {"sampled", "ssgd", "--objective sampled --negatives 20"},
    {"sven", "sven", kTables},
    {"sven_none", "sven", with(kTables, "--pipeline none --optimizer adam")},
    {"sven_data", "sven", with(kTables, "--join data --lookahead 2 --table-capacity 4000")},
    {"served_tables", "asgd", kTables},
    {"resnet", "ssgd",
     "--train generate:images?size=28&channels=1&rows_train=200&rows_test=50 --test "
     "generate:images?size=28&channels=1&rows_train=200&rows_test=50 --model lenet-5 --workers 2 "
     "--max-samples 640 --evaluate-every 128 --batch-size 16 --mega-batch 2"},
};

INSTANTIATE_TEST_SUITE_P(Checkpoint, EveryAlgorithm, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

// Workers whose clocks differ record the events of two segments in another order.
void sort_events(SavedFields& fields) {
  FieldBytes& bytes = fields.at("record/events");
  nlohmann::json events;
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.span().data());
  events = nlohmann::json::from_cbor(first, first + bytes.span().size());
  std::sort(events.begin(), events.end());
  const auto sorted = nlohmann::json::to_cbor(events);
  bytes = FieldBytes(sorted.size());
  std::memcpy(bytes.span().data(), sorted.data(), sorted.size());
}

class Synchronous : public testing::TestWithParam<const char*> {};

// A segment begins where the one before has ended, worker by worker.
TEST_P(Synchronous, SegmentsChangeNothing) {
  const Settings settings =
      tiny(GetParam(),
           "--workers 4 --max-samples 3200 --evaluate-every 640 --record-steps --mega-batch 8 "
           "--optimizer momentum --straggler kind=uniform,min=0ms,max=2ms --speed 1,0.9,0.7,0.5");
  Outcome whole = run(settings);
  Outcome cut = run(with(settings, "--checkpoint-at 640,1920"));
  EXPECT_EQ(cut.record.segments.size(), 2U);
  for (Outcome* const each : {&whole, &cut}) {
    each->fields.at("record/segments") = FieldBytes();
    sort_events(each->fields);
  }
  expect_same(whole, cut);
}

// Its time moves the clock and nothing else.
TEST_P(Synchronous, ACheckpointTakesItsTime) {
  const Settings settings = tiny(GetParam(),
                                 "--workers 4 --max-samples 3200 --evaluate-every 640 --mega-batch "
                                 "8 --checkpoint-at 640,1920");
  const Outcome free = run(settings), paid = run(with(settings, "--checkpoint-time 2s"));
  EXPECT_EQ(test_losses(free.record), test_losses(paid.record));
  EXPECT_NEAR(paid.record.elapsed.count() - free.record.elapsed.count(), 4, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Synchronous,
                         testing::Values("ssgd", "elastic", "adaptive", "sma", "easgd", "esync"));

class OnThreads : public testing::TestWithParam<const char*> {};

TEST_P(OnThreads, LossesGoOnToTheBit) {
  const TemporaryFolder folder;
  const std::string file = folder / "run.checkpoint";
  const Settings settings =
      tiny(GetParam(),
           "--cluster threads --devices cpu:1 --workers 2 --max-samples 1920 --evaluate-every 640 "
           "--record-steps --mega-batch 4 --optimizer adam --learning-rate 0.01");
  const Record whole = run_training(settings);
  const Record cut =
      run_with(settings, "--checkpoint {} --checkpoint-every 1 --checkpoint-keep 3", file);
  const Record resumed = run_with(settings, "--checkpoint-every 1 --resume-from {}", file + ".1");
  EXPECT_EQ(cut.segments.size(), 2U);
  for (const Record* const other : {&cut, &resumed}) {
    EXPECT_EQ(step_losses(whole), step_losses(*other));
    EXPECT_EQ(test_losses(whole), test_losses(*other));
    for (std::size_t i = 1; i < other->curve.size(); ++i) {
      EXPECT_GT(other->curve[i].time, other->curve[i - 1].time);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, OnThreads, testing::Values("ssgd", "elastic", "sma", "easgd"));

TEST(Checkpoint, AnAsynchronousRunOnThreadsGoesOn) {
  const TemporaryFolder folder;
  const std::string file = folder / "run.checkpoint";
  for (const std::string algorithm :
       {"asgd", "adpsgd", "eager-solo", "rna", "hogwild", "adaptive", "esync"}) {
    SCOPED_TRACE(algorithm);
    // While a worker of esync waits for a core, the other goes on with its round, which may then
    // have more samples than a whole budget: so the budget of esync is rounds.
    const std::string budget =
        algorithm == "esync" ? "--max-samples 1000000000 --rounds 200" : "--max-samples 12800";
    const Settings settings =
        tiny(algorithm,
             "--cluster threads --devices cpu:1 --workers 2 --evaluate-every 640 --mega-batch 8 "
             "--checkpoint-every 2 " +
                 budget);
    const Record cut = run_with(settings, "--checkpoint {}", file);
    EXPECT_GE(cut.segments.size(), 1U);
    const Record resumed = run_with(settings, "--resume-from {}", file);
    EXPECT_GE(resumed.curve.back().samples_count, 12800U);
    EXPECT_LT(resumed.curve.back().test_loss(), resumed.curve.front().test_loss());
  }
}

// --- files ---------------------------------------------------------------------------------------

class CheckpointFiles : public testing::Test {
 protected:
  CheckpointFiles() { run_with(settings_, "--checkpoint {}", file_); }

  const TemporaryFolder folder_;
  const std::string file_ = folder_ / "run.checkpoint";
  const Settings settings_ =
      tiny("ssgd", "--workers 2 --max-samples 960 --evaluate-every 320 --checkpoint-every 1");
};

// Every byte is covered: a file that was changed or cut anywhere is refused.
TEST_F(CheckpointFiles, DamageIsFound) {
  const std::string whole = read_file(file_);
  const std::string damaged = folder_ / "damaged";
  const std::size_t step = std::max<std::size_t>(1, whole.size() / 400);
  for (std::size_t at = 0; at < whole.size(); at += step) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    std::ofstream(damaged, std::ios::binary) << bytes;
    EXPECT_THROW(read_checkpoint(damaged), Error) << "flipped at " << at;
    std::ofstream(damaged, std::ios::binary) << whole.substr(0, at);
    EXPECT_THROW(read_checkpoint(damaged), Error) << "cut at " << at;
  }
  std::ofstream(damaged, std::ios::binary) << whole << "x";
  EXPECT_THROW(read_checkpoint(damaged), Error);
  EXPECT_NO_THROW(read_checkpoint(file_));
}

TEST_F(CheckpointFiles, AnotherConfigurationIsRefused) {
  const Settings resumed = with(settings_, "--resume-from {}", file_);
  EXPECT_THAT(failure_of_run(with(resumed, "--batch-size 16")), HasSubstr("--batch-size"));
  EXPECT_THAT(failure_of_run(with(resumed, "--seed 7")), HasSubstr("--seed"));
  EXPECT_THAT(failure_of_run(with(resumed, "--workers 3")), HasSubstr("workers"));
  EXPECT_THAT(failure_of_run(with(settings_, "--resume-from {}", folder_ / "none")),
              HasSubstr("cannot open the checkpoint"));
}

TEST_F(CheckpointFiles, AnotherBudgetIsNot) {
  const Record longer = run_with(settings_, "--resume-from {} --max-samples 1920", file_);
  const Record whole = run_with(settings_, "--max-samples 1920");
  ASSERT_EQ(longer.curve.size(), whole.curve.size());
  EXPECT_EQ(longer.curve.back().test_loss(), whole.curve.back().test_loss());
}

// A schedule whose lengths hang on the budget is refused with the number that keeps it, and goes on
// with that number as it began.
TEST_F(CheckpointFiles, AnotherBudgetDoesNotMoveTheSchedule) {
  const std::string file = folder_ / "scheduled";
  for (const auto& [found, kept, hint] : std::vector<std::array<const char*, 3>>{
           {"--schedule cosine", "--schedule cosine --decay-epochs 0.64", "--decay-epochs 0.64"},
           {"--schedule linear --warmup-share 0.25",
            "--schedule linear --warmup-share 0.25 --decay-epochs 0.64", "--decay-epochs 0.64"},
           {"--warmup-share 0.25", "--warmup-epochs 0.16", "--warmup-epochs 0.16"}}) {
    SCOPED_TRACE(found);
    run_with(with(settings_, found), "--max-samples 1280 --checkpoint {} --overwrite", file);
    const Settings longer = with(settings_, "--max-samples 1920 --resume-from {}", file);
    EXPECT_THAT(error_of([&] { run_with(longer, found); }, ExitCode::usage), HasSubstr(hint));
    const Record resumed = run_with(longer, kept);
    const Record whole = run_with(with(settings_, "--max-samples 1920"), kept);
    EXPECT_EQ(resumed.curve.back().test_loss(), whole.curve.back().test_loss());
    EXPECT_NO_THROW(
        run_with(with(settings_, "--epochs 0.64 --max-samples 0 --resume-from {}", file), found));
  }
}

TEST_F(CheckpointFiles, OlderOnesAreKept) {
  EXPECT_TRUE(std::filesystem::exists(file_ + ".1"));
  EXPECT_FALSE(std::filesystem::exists(file_ + ".2"));
  const auto samples = [](const std::string& path) {
    return read_checkpoint(path).header.at("segment").get<int>();
  };
  EXPECT_EQ(samples(file_), 2);
  EXPECT_EQ(samples(file_ + ".1"), 1);
}

TEST_F(CheckpointFiles, OlderOnesLieBesideTheFileOfALink) {
  const std::string real = folder_.file("scratch/real"), link = folder_ / "link";
  std::filesystem::create_symlink(real, link);
  run_with(settings_, "--checkpoint {}", link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(std::filesystem::exists(link + ".1"));
  EXPECT_EQ(read_checkpoint(link).header.at("segment"), 2);
  EXPECT_EQ(read_checkpoint(real + ".1").header.at("segment"), 1);
}

// A checkpoint that cannot be written whole moves none of those that are kept.
TEST_F(CheckpointFiles, AFullDiskCostsNone) {
  const std::string last = read_file(file_), before = read_file(file_ + ".1");
  const Checkpoint checkpoint = read_checkpoint(file_);
  const auto write = [&] { write_checkpoint(file_, checkpoint.header, checkpoint.saved, 3); };
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit full{100, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &full);
  for (int again = 0; again < 3; ++again) EXPECT_THROW(write(), Error);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(file_), last);
  EXPECT_EQ(read_file(file_ + ".1"), before);
  write();
  EXPECT_EQ(read_file(file_ + ".1"), last);
  EXPECT_EQ(read_file(file_ + ".2"), before);
}

TEST_F(CheckpointFiles, AFreeSlotIsThatOfNoneThatIsKept) {
  Checkpoint checkpoint = read_checkpoint(file_);
  for (const std::uint64_t slot : {1, 2, 0, 1}) {  // the run has one process, all in slot 0
    EXPECT_EQ(free_slot(file_, 2), slot);
    checkpoint.header["slot"] = slot;
    write_checkpoint(file_, checkpoint.header, checkpoint.saved, 2);
  }
  EXPECT_EQ(free_slot(folder_ / "none", 2), 0U);
}

TEST_F(CheckpointFiles, ATraceSaysThatItBeginsAtTheResume) {
  Trace trace;
  const auto warnings = [&](const Settings& settings) {
    return run_training(settings, {.trace = &trace}).warnings;
  };
  const auto said = testing::Contains(HasSubstr("after the resume alone"));
  EXPECT_THAT(warnings(with(settings_, "--resume-from {}", file_)), said);
  EXPECT_THAT(warnings(settings_), testing::Not(said));
}

TEST_F(CheckpointFiles, TheProgressKnowsWhereTheRunWasResumed) {
  std::atomic<double> before = 0;
  TrainHooks hooks;
  hooks.on_progress = [&](const Progress& progress) { before = progress.share_before; };
  hooks.on_record = [](const Record&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  };
  run_training(with(settings_, "--resume-from {} --max-samples 2560 --progress-every 1ms", file_),
               hooks);
  if (before == 0) GTEST_SKIP() << "ended before the progress was looked at";
  EXPECT_EQ(before, 0.25);
}

TEST_F(CheckpointFiles, ARunGoesOnWithoutOneThatCannotBeWritten) {
  const std::string lost = folder_.file("gone/run.checkpoint");
  TrainHooks hooks;
  hooks.on_record = [&](const Record&) { std::filesystem::remove_all(folder_ / "gone"); };
  const Record record = run_training(with(settings_, {{"checkpoint", lost}}), hooks);
  EXPECT_THAT(record.warnings, testing::Contains(HasSubstr("no checkpoint after")));
}

}  // namespace
}  // namespace hetsgd::test
