#include "result/result.hpp"

#include "result/records.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
using test::json_of;
using test::record_of;

TEST(ResultJson, IsValidAtEveryStatus) {
  for (const Status status :
       {Status::running, Status::completed, Status::target_reached, Status::diverged,
        Status::aborted, Status::failed, Status::time_limit}) {
    Record record = record_of({0.1, 0.4, 0.5, 0.6});
    record.status = status;
    if (status == Status::running) record.finished_at.clear();
    if (status == Status::failed) record.status_reason = "disk on fire";
    const json result = json_of(record);
    EXPECT_EQ(result["status"], to_string(status));
    EXPECT_EQ(json::parse(result_text(result)), result);
  }
}

TEST(ResultJson, IsValidBeforeAnythingWasMeasured) {
  Record record = record_of({});
  record.workers.clear();
  record.events = json::array();
  record.train = record.test = nullptr;
  record.status = Status::failed;
  record.status_reason = "no such device";
  const json result = json_of(record);
  EXPECT_TRUE(result["summary"]["final"].is_null());
  EXPECT_TRUE(result["summary"]["samples_per_s"].is_null());
}

TEST(ResultJson, APointWithoutABatchIsNoDivergence) {
  Record record = record_of({0.1, 0.2, 0.2});
  record.curve[2].train_loss = std::numeric_limits<double>::quiet_NaN();
  record.curve[2].no_batch = true;
  const json point = json_of(record)["curve"][2];
  EXPECT_TRUE(point["train_loss"].is_null());
  EXPECT_NE(point["train_loss_reason"], "nan");
}

TEST(ResultJson, NumbersThatAreNotFiniteBecomeNullWithAReason) {
  Record record = record_of({0.1, 0.2});
  record.curve[1].train_loss = std::numeric_limits<double>::infinity();
  record.curve[1].metrics.back().value = std::numeric_limits<double>::quiet_NaN();
  record.events[0]["norm"] = {1.0, -std::numeric_limits<double>::infinity()};
  record.status = Status::diverged;
  const json result = json_of(record);
  EXPECT_EQ(result["curve"][0]["train_loss_reason"], "no batch yet");
  EXPECT_TRUE(result["curve"][1]["train_loss"].is_null());
  EXPECT_EQ(result["curve"][1]["train_loss_reason"], "inf");
  EXPECT_EQ(result["curve"][1]["test_loss_reason"], "nan");
  EXPECT_EQ(result["summary"]["final"]["test_loss_reason"], "nan");
  EXPECT_EQ(result["events"][0]["norm"], json({1.0, nullptr}));
  EXPECT_EQ(result["events"][0]["norm_reason"], "-inf");
  EXPECT_EQ(result["summary"]["best"]["test_loss"]["value"], 2.0);  // the finite one
}

TEST(ResultJson, ATargetIsReachedWhereItIsHeld) {
  // The first crossing, at 1 s, is lost again: 0.5 0.2 0.4 0.3 0.6. From 4 s on it is held.
  Record record = record_of({0.1, 0.5, 0.2, 0.4, 0.6, 0.3, 0.7, 0.6});
  record.targets.push_back({"p1", true, 0.65});
  record.targets.push_back({"p1", true, 0.9});
  record.targets.push_back({"test_loss", false, 2.0});
  const json result = json_of(record);
  const json& targets = result["time_to_accuracy"];
  EXPECT_EQ(targets[0]["time_s"], 4.0);
  EXPECT_EQ(targets[0]["samples_count"], 400);
  EXPECT_EQ(targets[0]["updates"], 40);
  EXPECT_EQ(targets[0]["evaluation"], 4);
  EXPECT_EQ(targets[0]["judged_by"], 4);
  EXPECT_EQ(targets[0]["first_crossing_s"], 1.0);
  EXPECT_EQ(targets[0]["status"], "reached");
  EXPECT_EQ(targets[1]["status"], "crossed");  // at 6 s, in the last evaluation but one
  EXPECT_TRUE(targets[1]["time_s"].is_null());
  EXPECT_EQ(targets[1]["first_crossing_s"], 6.0);
  EXPECT_EQ(targets[2]["status"], "not_reached");
  EXPECT_TRUE(targets[2]["first_crossing_s"].is_null());
  EXPECT_EQ(targets[3]["target"], "test_loss<=2");
  EXPECT_EQ(targets[3]["time_s"], 0.0);
  EXPECT_THAT(result["warnings"].dump(), HasSubstr("p1>=0.65 is crossed"));
}

// Delays all but the first evaluation, and lengthens the preparation of their models.
void later(Record& record, double wall_s, double prepare_s) {
  for (CurvePoint& point : std::span(record.curve).subspan(1)) {
    point.wall_s += wall_s;
    point.prepare += Seconds(prepare_s);
  }
}

// A real run: loading 1 s, initialisation 2 s, and the evaluation at 1 s of training after 10 s of
// wall-clock time, 0.25 s of them for making its model.
Record timed_record() {
  Record record = record_of({0.1, 0.5, 0.5, 0.5});
  record.virtual_time = false;
  record.phases.load_s = 1;
  record.phases.init_s = 2;
  record.phases.total_s = 3;
  record.curve[0].wall_s = 3;
  later(record, 10, 0.25);
  return record;
}

TEST(ResultJson, ClocksContainWhatTheirBenchmarksTime) {
  const auto clocks = [](const Record& record) {
    const json result = json_of(record);
    return result["time_to_accuracy"][0]["clocks"];
  };
  Record record = timed_record();
  EXPECT_EQ(clocks(record), json({{"algoperf_s", 1.25}, {"mlperf_s", 10.0}, {"dawnbench_s", 4.0}}));
  // 100 s more of loading or initialisation lie in both clocks that begin before training ...
  record.phases.load_s += 100;
  record.phases.total_s += 100;
  for (CurvePoint& point : record.curve) point.wall_s += 100;
  EXPECT_EQ(clocks(record),
            json({{"algoperf_s", 1.25}, {"mlperf_s", 110.0}, {"dawnbench_s", 104.0}}));
  // ... of making the model in AlgoPerf's and MLPerf's, of the evaluation in MLPerf's alone.
  record = timed_record();
  later(record, 100, 100);
  EXPECT_EQ(clocks(record),
            json({{"algoperf_s", 101.25}, {"mlperf_s", 110.0}, {"dawnbench_s", 4.0}}));
  record = timed_record();
  later(record, 100, 0);
  EXPECT_EQ(clocks(record),
            json({{"algoperf_s", 1.25}, {"mlperf_s", 110.0}, {"dawnbench_s", 4.0}}));
  record.targets = {{"p1", true, 0.9}};
  EXPECT_EQ(clocks(record), json(nullptr));
}

TEST(ResultJson, ASimulatedRunHasTheClockOfAlgoPerfAlone) {
  Record record = timed_record();
  record.virtual_time = true;
  const json result = json_of(record);
  const char* reason = "simulated: its time is not the host's";
  EXPECT_EQ(result["time_to_accuracy"][0]["clocks"], json({{"algoperf_s", 1.25},
                                                           {"mlperf_s", nullptr},
                                                           {"mlperf_s_reason", reason},
                                                           {"dawnbench_s", nullptr},
                                                           {"dawnbench_s_reason", reason}}));
  EXPECT_FALSE(result["curve"][1].contains("wall_s"));
}

// Evaluations lie a second apart; a target at the 20th is known to 5 % of its time.
TEST(ResultJson, ACoarseTimeToATargetIsAWarning) {
  const auto of_length = [](std::size_t before) {
    std::vector<double> p1(before, 0.1);
    p1.insert(p1.end(), 3, 0.6);
    return json_of(record_of(p1));
  };
  const json coarse = of_length(20);
  EXPECT_EQ(coarse["time_to_accuracy"][0]["evaluation"], 20);
  EXPECT_EQ(coarse["time_to_accuracy"][0]["resolution_s"], 1.0);
  EXPECT_EQ(coarse["warnings"].size(), 1U);
  EXPECT_EQ(coarse["warnings"][0],
            "p1>=0.5 was reached at evaluation 20: its time is exact to 1 s, the interval between "
            "evaluations; a smaller --evaluate-every makes it finer, down to one round");
  EXPECT_EQ(of_length(21)["warnings"], json::array());
  EXPECT_EQ(of_length(0)["warnings"], json::array());  // the initial model
  EXPECT_EQ(of_length(0)["time_to_accuracy"][0]["resolution_s"], 0.0);
}

TEST(ResultJson, SummaryFollowsFromCurveAndBreakdowns) {
  const json summary = json_of(record_of({0.1, 0.7, 0.6}))["summary"];
  EXPECT_EQ(summary["elapsed_s"], 2.0);
  EXPECT_EQ(summary["samples_count"], 200);
  EXPECT_EQ(summary["samples_per_s"], 100.0);
  EXPECT_EQ(summary["computing_ratio"], 0.75);  // 2 * 1.5 s of 2 * 2 s
  EXPECT_EQ(summary["bytes_sent"], 222);
  EXPECT_EQ(summary["final"]["p1"], 0.6);
  EXPECT_EQ(summary["best"]["p1"]["value"], 0.7);
  EXPECT_EQ(summary["best"]["p1"]["time_s"], 1.0);
}

TEST(ResultJson, RedactDropsHostAndFolders) {
  const json result =
      result_json(record_of({0.1}), {.args = {"train", "--train=/home/me/a.txt", "x/b.txt",
                                              "--straggler", "kind=trace,file=/home/me/t.csv"},
                                     .redact = true});
  EXPECT_TRUE(result["environment"]["hostname"].is_null());
  EXPECT_EQ(result["args"],
            json({"train", "--train=a.txt", "b.txt", "--straggler", "kind=trace,file=t.csv"}));
  EXPECT_EQ(result["config"]["train"], "train.txt");
  EXPECT_EQ(result["dataset"]["test"]["path"], "test.txt");
  EXPECT_EQ(result_text(result).find("/home"), std::string::npos);
}

// Two workers and a rank for services on two hosts.
Record record_of_ranks() {
  Record record = record_of({0.1, 0.4});
  record.cluster = "mpi";
  record.virtual_time = false;
  const auto rank = [](int r, int local) -> json {
    return {{"rank", r}, {"local_rank", local}, {"pid", 100 + r}, {"cores", {0, 1}}};
  };
  record.machine = {{"mpi_library", "Open MPI"},
                    {"thread_level", "MPI_THREAD_MULTIPLE"},
                    {"cuda_aware", false},
                    {"service_rank", 2},
                    {"nodes",
                     {{{"host", "red"}, {"cores", 2}, {"ranks", {rank(0, 0), rank(2, 1)}}},
                      {{"host", "blue"}, {"cores", 2}, {"ranks", json::array({rank(1, 0)})}}}}};
  for (std::size_t r = 0; r < 2; ++r) {
    WorkerReport& report = record.workers[r].report;
    report.host = r == 0 ? "red" : "blue";
    report.pid = 100 + static_cast<std::int64_t>(r);
    report.cores = {static_cast<int>(r)};
    report.clock_offset = Seconds(-0.25 * static_cast<double>(r));
  }
  return record;
}

TEST(ResultJson, ShowsWhereRanksRan) {
  const json result = json_of(record_of_ranks());
  EXPECT_EQ(result["workers"][1]["host"], "blue");
  EXPECT_EQ(result["workers"][1]["pid"], 101);
  EXPECT_EQ(result["workers"][1]["cores"], json({1}));
  EXPECT_EQ(result["workers"][1]["clock_offset_s"], -0.25);
  EXPECT_EQ(result["cluster"]["machine"]["service_rank"], 2);
  EXPECT_FALSE(json_of(record_of({0.1}))["workers"][0].contains("host"));
}

TEST(ResultJson, RedactReachesMessages) {
  Record record = record_of_ranks();
  record.config["train"] = "secret/folder/train.txt";
  record.machine["mpi_library"] = "Open MPI v4.1.4, package: Open MPI me@red Distribution, ident";
  record.warnings = {"red: 2 workers at 5 samples/s", "secret/folder/train.txt:3: redder than blue",
                     "cannot write '/home/me/x.json'"};
  record.status_reason = "rank 1 (blue) has sent no heartbeat";
  const json result = result_json(record, {.args = {"--log-dir=/home/me/logs"}, .redact = true});
  EXPECT_EQ(result["warnings"], json({"host 0: 2 workers at 5 samples/s",
                                      "train.txt:3: redder than host 1", "cannot write 'x.json'"}));
  EXPECT_EQ(result["status_reason"], "rank 1 (host 1) has sent no heartbeat");
  EXPECT_EQ(result["cluster"]["machine"]["mpi_library"], "Open MPI v4.1.4");
  const std::string text = result_text(result);
  EXPECT_NE(result["workers"][0]["host"], result["workers"][1]["host"]);
  for (const char* secret : {"/home", "folder", "me@red", "\"red\"", "\"blue\""}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << secret;
  }
}

// The result holds variables that tune a run, but no secrets and no addresses, which launchers set
// for every rank.
TEST(ResultJson, EnvironmentCarriesAllowedVariablesOnly) {
  const std::vector<std::pair<const char*, bool>> variables = {
      {"OMP_NUM_THREADS", true},
      {"OMPI_MCA_btl", true},
      {"NCCL_ALGO", true},
      {"MY_SECRET", false},
      {"OMPI_MCA_orte_hnp_uri", false},
      {"OMPI_MCA_orte_top_session_dir", false},
      {"OMPI_MCA_btl_tcp_if_include", false},
      {"SLURM_NODELIST", false},
      {"SLURM_SUBMIT_HOST", false},
      {"NCCL_COMM_ID", false}};
  for (const auto& [name, shown] : variables) ::setenv(name, "192.0.2.7", 1);
  const json found = json_of(record_of({0.1}))["environment"]["variables"];
  for (const auto& [name, shown] : variables) {
    EXPECT_EQ(found.contains(name), shown) << name;
    ::unsetenv(name);
  }
  EXPECT_EQ(found["OMPI_MCA_btl"], "192.0.2.7");
}

}  // namespace
}  // namespace hetsgd
