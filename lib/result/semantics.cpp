// The checks of a result that no schema can express.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "result/time_to_accuracy.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

class Checker {
 public:
  Checker(const json& result, std::vector<Finding>& findings)
      : result_(result), findings_(findings) {}

  void run() {
    check_curve();
    check_workers();
    check_machine();
    check_events();
    check_targets();
    check_ledger();
    check_samples();
    check_status();
    check_tuning();
    check_reasons();
  }

 private:
  template <class... Args>
  void find(std::string pointer, fmt::format_string<Args...> text, Args&&... args) {
    findings_.push_back({std::move(pointer), fmt::format(text, std::forward<Args>(args)...)});
  }

  void check_curve() {
    const json& curve = result_["curve"];
    for (std::size_t i = 1; i < curve.size(); ++i) {
      for (const char* key : {"time_s", "samples_count", "epoch_num", "updates", "bytes_sent",
                              "prepare_s", "wall_s"}) {
        if (!curve[i].contains(key) || !curve[i - 1].contains(key)) continue;
        const double before = curve[i - 1][key].get<double>(), now = curve[i][key].get<double>();
        if (now < before) {
          find(fmt::format("/curve/{}/{}", i, key), "found {} after {}, expected no decrease", now,
               before);
        }
      }
    }
  }

  void check_workers() {
    const json& workers = result_["workers"];
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const json& worker = workers[i];
      const std::string place = fmt::format("/workers/{}", i);
      if (worker["rank"] != i) {
        find(place + "/rank", "found {}, expected {}", worker["rank"].dump(), i);
      }
      for (const json& whom : worker.value("waited_for", json::array())) {
        const bool service = whom["rank"].is_null();
        if (service ? whom.contains("service")
                    : whom["rank"] < workers.size() && whom["rank"] != i) {
          continue;
        }
        find(place + "/waited_for", "found {}, expected another worker or a service", whom.dump());
      }
      for (const char* key : {"bytes_sent", "bytes_received"}) {
        std::uint64_t sum = 0;
        for (const json& kind : worker[std::string(key) + "_by_kind"]) {
          sum += kind.get<std::uint64_t>();
        }
        if (worker[key] != sum) {
          find(fmt::format("{}/{}", place, key), "found {}, expected {}, the sum over its kinds",
               worker[key].dump(), sum);
        }
      }
    }
  }

  // Checks that the ranks of all hosts are 0, 1, ..., and that a worker is on its rank's host.
  void check_machine() {
    if (!result_["cluster"].contains("machine")) return;
    const json& machine = result_["cluster"]["machine"];
    std::map<std::size_t, std::string> hosts;  // by rank
    for (std::size_t n = 0; n < machine["nodes"].size(); ++n) {
      const json& node = machine["nodes"][n];
      for (const json& rank : node["ranks"]) {
        if (!hosts.emplace(rank["rank"].get<std::size_t>(), node["host"]).second) {
          find(fmt::format("/cluster/machine/nodes/{}", n), "found rank {} twice, expected it once",
               rank["rank"].dump());
        }
      }
    }
    const json& workers = result_["workers"];
    const std::size_t ranks = workers.size() + (machine["service_rank"].is_null() ? 0 : 1);
    if (hosts.size() != ranks || hosts.rbegin()->first + 1 != ranks) {
      find("/cluster/machine/nodes", "found {} ranks up to {}, expected 0 to {}", hosts.size(),
           hosts.rbegin()->first, ranks - 1);
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (hosts.contains(i) && workers[i].value("host", json(nullptr)) != hosts[i]) {
        find(fmt::format("/workers/{}/host", i), "found {}, but cluster/machine says {}",
             workers[i].value("host", json(nullptr)).dump(), hosts[i]);
      }
    }
  }

  void check_events() {
    const json& events = result_["events"];
    double before = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const json& event = events[i];
      if (event["type"] != "merge") continue;
      const std::string place = fmt::format("/events/{}", i);
      const double now = event["time_s"].get<double>();
      if (now < before) {
        find(place + "/time_s", "found {} after {}, expected merges in the order of time", now,
             before);
      }
      before = now;
      const json& whose = event.contains("workers") ? event["workers"] : result_["workers"];
      const std::size_t size = whose.size();
      for (const char* key : {"batch_size", "learning_rate", "updates", "weight", "norm"}) {
        if (size > 0 && event[key].size() != size) {
          find(fmt::format("{}/{}", place, key), "found {} entries, expected one per worker ({})",
               event[key].size(), size);
        }
      }
    }
  }

  void check_targets() {
    const json& targets = result_["time_to_accuracy"];
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const json& target = targets[i];
      const Target meant{target["metric"], target["at_least"], target["value"]};
      const TimeToAccuracy found = time_to(result_, meant);
      const std::string place = fmt::format("/time_to_accuracy/{}", i);
      // In schema version 1.0 a target was reached at the first crossing.
      const bool is_old = !target.contains("first_crossing_s");
      const auto& counts = is_old ? found.first_crossing : found.held;
      const std::string status =
          is_old && found.first_crossing ? "reached" : to_string(found.outcome());
      check_time(target["time_s"], place + "/time_s", counts);
      if (!is_old) {
        check_time(target["first_crossing_s"], place + "/first_crossing_s", found.first_crossing);
      }
      if (target["status"] != status) {
        find(place + "/status", "found {}, but by the curve it is {}", target["status"].dump(),
             status);
      }
      if (target.contains("clocks")) check_clocks(target["clocks"], place + "/clocks", counts);
    }
  }

  void check_time(const json& time_s, const std::string& place,
                  const std::optional<Evaluation>& evaluation) {
    const json expected = evaluation ? json(evaluation->time_s) : json(nullptr);
    if (time_s != expected) {
      find(place, "found {}, but by the curve it is {}", time_s.dump(), expected.dump());
    }
  }

  void check_clocks(const json& clocks, const std::string& place,
                    const std::optional<Evaluation>& evaluation) {
    const json expected =
        evaluation ? clocks_json(*evaluation, RunStart::of(result_)) : json(nullptr);
    if (clocks != expected) {
      find(place, "found {}, but by curve and wall it is {}", clocks.dump(), expected.dump());
    }
  }

  // Checks that the phases of a run add up to its wall-clock time.
  void check_ledger() {
    const json& wall = result_["wall"];
    if (!wall.contains("prepare_s")) return;  // older result: total_s was defined as their sum
    double sum = 0;
    for (const char* key : {"load_s", "init_s", "train_s", "prepare_s", "eval_s", "record_s"}) {
      sum += wall[key].get<double>();
    }
    sum += wall.value("checkpoint_s", 0.0);
    const double total = wall["total_s"];
    if (std::abs(sum - total) > 0.01 * total + 0.02) {
      find("/wall/total_s", "found {}, but the phases add up to {}", total, sum);
    }
  }

  void check_samples() {
    const json& summary = result_["summary"];
    const json& curve = result_["curve"];
    if (summary["evaluations"] != curve.size()) {
      find("/summary/evaluations", "found {}, but the curve has {} points",
           summary["evaluations"].dump(), curve.size());
    }
    if (!curve.empty() && summary["samples_count"] != curve.back()["samples_count"]) {
      find("/summary/samples_count", "found {}, but the curve ends at {}",
           summary["samples_count"].dump(), curve.back()["samples_count"].dump());
    }
    check_tokens();
    if (result_["status"] != "completed") return;
    std::uint64_t samples = 0;
    for (const json& worker : result_["workers"]) samples += worker["samples"].get<std::uint64_t>();
    // Samples that were lost with their worker, and those that others learnt from again.
    std::uint64_t wasted = 0;
    for (const json& failure : result_.value("failures", json::array())) {
      wasted += failure["lost_samples"].get<std::uint64_t>();
      wasted += failure["redone_samples"].get<std::uint64_t>();
    }
    samples -= std::min(samples, wasted);
    // After the last point, asynchronous workers complete or discard their current step. At the
    // loss of a worker each has one that may count or not.
    const auto counted = summary["samples_count"].get<std::uint64_t>();
    const std::uint64_t under_way = result_["workers"].size() *
                                    result_["config"].value("batch_size", std::uint64_t{0}) *
                                    (1 + result_.value("failures", json::array()).size());
    if (samples + under_way < counted || samples > counted + under_way) {
      find("/summary/samples_count", "found {}, but the workers' samples add up to {}",
           summary["samples_count"].dump(), samples);
    }
  }

  // Absent for other data, so that their results stay as they were.
  void check_tokens() {
    const json& summary = result_["summary"];
    const json& train = result_["dataset"]["train"];
    if (!train.is_object() || !train.contains("targets") || !summary.contains("tokens")) return;
    const double expected = summary["samples_count"].get<double>() *
                            train["targets"].get<double>() / train["rows"].get<double>();
    if (std::abs(summary["tokens"].get<double>() - expected) > 1) {
      find("/summary/tokens", "found {}, but the samples have {:.0f}", summary["tokens"].dump(),
           expected);
    }
  }

  void check_status() {
    const bool ended = result_["status"] != "running";
    if (ended == result_["finished_at"].is_null()) {
      find("/finished_at", "found {} with status {}, expected {}", result_["finished_at"].dump(),
           result_["status"].dump(), ended ? "a time" : "null");
    }
    if (result_["status"] == "failed" && result_["status_reason"].is_null()) {
      find("/status_reason", "found null, expected the reason why the run failed");
    }
  }

  void check_tuning() {
    const json tuning = result_.value("tuning", json(nullptr));
    if (tuning.is_null()) return;
    const json rate = result_["config"].value("learning_rate", json(nullptr));
    if (tuning["learning_rate"] != rate) {
      find("/tuning/learning_rate", "found {}, but the run had {}", tuning["learning_rate"].dump(),
           rate.dump());
    }
  }

  // Checks that a null in measurements, which replaces a non-finite number, has its reason beside
  // it or beside its list.
  void check_reasons() {
    for (const char* part : {"curve", "events"}) {
      check_reasons(result_[part], fmt::format("/{}", part), false);
    }
  }

  void check_reasons(const json& value, const std::string& place, bool explained) {
    if (value.is_null() && !explained) {
      find(place, "found null without its reason (KEY_reason)");
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        check_reasons(value[i], fmt::format("{}/{}", place, i), explained);
      }
    } else if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        check_reasons(member, fmt::format("{}/{}", place, key), value.contains(key + "_reason"));
      }
    }
  }

  const json& result_;
  std::vector<Finding>& findings_;
};

}  // namespace

void check_semantics(const json& result, std::vector<Finding>& findings) {
  Checker(result, findings).run();
}

}  // namespace hetsgd
