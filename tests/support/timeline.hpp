// Golden timelines: 3 workers, one straggler, 10 iterations. Every kernel launch takes 1 ms, every
// message 10 ms (5 ms to a service and 5 back), bytes and operations nothing (tests/support/data),
// so each line of tests/algorithm/golden can be checked by hand:
//   a step of the MLP is 9 launches = 9 ms (27 ms on the straggler); a vector operation 1 ms; a
//   ring over 3 workers 2 (P - 1) 10 ms = 40 ms for an all_reduce, 20 ms for an all_gather; a
//   service call 2 * 5 ms and the service time, on a host with the workers' profile; a vector
//   operation of a background task makes the step that it falls into 1 ms longer.
// HETSGD_UPDATE_GOLDEN=1 rewrites the files; read the difference before you commit it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "support/run.hpp"

namespace hetsgd::test {

inline std::string milliseconds(const nlohmann::json& seconds) {
  return fmt::format("{:7.1f}", 1000 * seconds.get<double>());
}

inline std::string join(const nlohmann::json& list) {
  std::string text;
  for (const auto& value : list) text += (text.empty() ? "" : " ") + value.dump();
  return text;
}

// "key value" of every field of an event but its type and time; times in ms.
inline std::string fields(const nlohmann::json& event) {
  std::string text;
  for (const auto& [key, value] : event.items()) {
    if (key == "type" || key == "time_s") continue;
    if (key.ends_with("_s") && value.is_number()) {
      text +=
          fmt::format("  {} {:.1f} ms", key.substr(0, key.size() - 2), 1000 * value.get<double>());
    } else {
      text += fmt::format("  {} {}", key, value.is_array() ? join(value) : value.dump());
    }
  }
  return text;
}

// One line per event, in order of (time, rank): what a reader checks against the paper's figure.
inline std::string timeline(const Record& record) {
  std::vector<std::pair<std::pair<double, int>, std::string>> lines;
  for (const auto& e : record.events) {
    const double time = e["time_s"].get<double>();
    if (e["type"] == "step") {
      const int rank = e["rank"].get<int>();
      lines.push_back({{time, rank},
                       fmt::format("{} .. {} ms  worker {}  step {}  {} samples",
                                   milliseconds(e["start_s"]), milliseconds(e["time_s"]), rank,
                                   e["iteration"].get<int>(), e["samples"].get<int>())});
    } else if (e["type"] == "merge") {
      lines.push_back(
          {{time, 99},
           fmt::format("           {} ms  merge  updates {}  batch {}{}", milliseconds(e["time_s"]),
                       join(e["updates"]), join(e["batch_size"]),
                       e["perturbed"].get<bool>() ? "  perturbed" : "")});
    } else {
      lines.push_back({{time, e.value("rank", 99)},
                       fmt::format("           {} ms  {}{}", milliseconds(e["time_s"]),
                                   e["type"].get<std::string>(), fields(e))});
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& line : lines) text += line.second + "\n";
  for (const WorkerRecord& w : record.workers) {
    const TimeBreakdown& l = w.report.breakdown;
    text += fmt::format(
        "worker {}: compute {:.1f} ms, communicate {:.1f} ms, wait {:.1f} ms, {} samples, {} "
        "updates\n",
        w.report.rank, 1000 * l.compute.count(), 1000 * l.communicate.count(),
        1000 * l.wait.count(), w.samples, w.updates);
  }
  return text + fmt::format("end {:.1f} ms\n", 1000 * record.elapsed.count());
}

inline void expect_golden(const std::string& name, const std::string& got) {
  const std::string path = std::string(HETSGD_GOLDEN) + "/" + name + ".txt";
  if (std::getenv("HETSGD_UPDATE_GOLDEN")) std::ofstream(path) << got;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(got, expected.str()) << "differs from " << path;
}

// The run of a golden timeline; the straggler is 3 times slower.
inline Settings timeline_settings(const std::string& algorithm, int straggler = 1) {
  return tiny(algorithm,
              fmt::format("--straggler kind=constant,worker={},factor=3 --workers 3 --batch-size "
                          "24 --record-steps --profile @latency_only_profile --server-profile "
                          "@latency_only_profile --network @latency_only_network",
                          straggler));
}

}  // namespace hetsgd::test
