// The work of a group's workers: the use of their time, the workers that they waited for, and their
// batch sizes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "result/compare_parts.hpp"
#include "result/report/parts.hpp"

namespace hetsgd::report {
namespace {

using nlohmann::json;

constexpr std::size_t kMostWorkers = 64, kMostBatchWorkers = 16, kMostMerges = 80;
constexpr int kWorkerDigits = 4;

using Matrix = std::vector<std::vector<double>>;

std::vector<double> zeros(std::size_t n) { return std::vector<double>(n, 0.0); }

json list_of(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) list.push_back(rounded(value, kWorkerDigits));
  return list;
}

// The entries of `all` at `places`.
template <class Value>
std::vector<Value> chosen(const std::vector<Value>& all, const std::vector<std::size_t>& places) {
  std::vector<Value> some;
  for (const std::size_t place : places) some.push_back(all[place]);
  return some;
}

bool says_waited_for(const json& result) {
  const json& workers = result["workers"];
  return !workers.empty() && std::ranges::all_of(workers, [](const json& worker) {
    return worker.contains("waited_for");
  });
}

std::vector<std::string> services_of(const GroupResults& results) {
  std::set<std::string> services;
  for (const json* result : results) {
    for (const json& worker : (*result)["workers"]) {
      for (const json& whom : worker.value("waited_for", json::array())) {
        if (whom["rank"].is_null()) services.insert(whom.value("service", "a service"));
      }
    }
  }
  return {services.begin(), services.end()};
}

// Adds the waits of a result. The columns are the workers, then the services.
void add_waits(const json& result, const std::vector<std::string>& services, Matrix& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (const json& whom : result["workers"][i]["waited_for"]) {
      const auto service =
          std::find(services.begin(), services.end(), whom.value("service", "a service"));
      const std::size_t column =
          whom["rank"].is_number()
              ? whom["rank"].get<std::size_t>()
              : sums.size() + static_cast<std::size_t>(service - services.begin());
      if (column < sums[i].size()) sums[i][column] += whom["wait_s"].get<double>();
    }
  }
}

// The merge events that have batch sizes.
std::vector<const json*> merges_of(const json& result) {
  std::vector<const json*> merges;
  for (const json& event : result["events"]) {
    if (event["type"] == "merge" && !event["batch_size"].empty()) merges.push_back(&event);
  }
  return merges;
}

// The place of a worker's entries in a merge, which some workers may not take part in.
std::size_t place_of(std::size_t worker, const json& merge) {
  if (!merge.contains("workers")) return worker;
  const json& workers = merge["workers"];
  return static_cast<std::size_t>(std::ranges::find(workers, json(worker)) - workers.begin());
}

bool never_changes(const std::vector<const json*>& merges) {
  const json& first = (*merges.front())["batch_size"][0];
  return std::ranges::all_of(merges, [&](const json* merge) {
    const json& sizes = (*merge)["batch_size"];
    return std::ranges::all_of(sizes, [&](const json& size) { return size == first; });
  });
}

}  // namespace

nlohmann::json worker_shares(const GroupResults& results) {
  static const std::vector<std::string> kParts = {"compute", "communicate", "wait"};
  const std::size_t count = results.front()->at("workers").size();
  Matrix sums(kParts.size(), zeros(count));
  double runs = 0, elapsed_s = 0;
  for (const json* result : results) {
    const double elapsed = (*result)["summary"]["elapsed_s"];
    if (!(elapsed > 0) || (*result)["workers"].size() != count) continue;
    runs += 1;
    elapsed_s += elapsed;
    for (std::size_t part = 0; part < kParts.size(); ++part) {
      for (std::size_t i = 0; i < count; ++i) {
        sums[part][i] += (*result)["workers"][i][kParts[part] + "_s"].get<double>() / elapsed;
      }
    }
  }
  if (runs == 0 || count == 0) return nullptr;
  const std::vector<std::size_t> ranks = spread(count, kMostWorkers);
  json document = {{"count", count}, {"rank", ranks}, {"elapsed_s", elapsed_s / runs}};
  for (const std::size_t rank : ranks) {
    document["device"].push_back(results.front()->at("workers")[rank]["device"]);
  }
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    std::vector<double> shares = chosen(sums[part], ranks);
    for (double& share : shares) share /= runs;
    document[kParts[part]] = list_of(shares);
  }
  return document;
}

nlohmann::json waited_for(const GroupResults& results) {
  const std::size_t count = results.front()->at("workers").size();
  const std::vector<std::string> services = services_of(results);
  Matrix sums(count, zeros(count + services.size()));
  double runs = 0;
  for (const json* result : results) {
    if ((*result)["workers"].size() != count || !says_waited_for(*result)) continue;
    runs += 1;
    add_waits(*result, services, sums);
  }
  if (runs == 0) return nullptr;
  const std::vector<std::size_t> ranks = spread(count, kMostWorkers);
  std::vector<std::size_t> columns = ranks;
  for (std::size_t i = 0; i < services.size(); ++i) columns.push_back(count + i);
  json document = {
      {"count", count}, {"rank", ranks}, {"service", services}, {"wait_s", json::array()}};
  for (const std::size_t rank : ranks) {
    std::vector<double> row = chosen(sums[rank], columns);
    for (double& seconds : row) seconds /= runs;
    document["wait_s"].push_back(list_of(row));
  }
  return document;
}

nlohmann::json survival(const GroupResults& results) {
  std::map<std::string, std::pair<double, int>> sums;  // of the runs that have the number
  int runs = 0;
  const auto add = [&](const std::string& key, double value) {
    auto& [sum, count] = sums[key];
    sum += value;
    ++count;
  };
  for (const json* result : results) {
    if (!result->contains("survival")) continue;
    ++runs;
    add("lost_workers", static_cast<double>((*result)["failures"].size()));
    for (const auto& [key, value] : (*result)["survival"].items()) {
      if (value.is_number()) add(key, value);
    }
  }
  if (runs == 0) return nullptr;
  json document = {{"runs", runs}};
  for (const auto& [key, sum] : sums) {
    document[key] = rounded(sum.first / sum.second, kWorkerDigits);
  }
  return document;
}

nlohmann::json batch_sizes(const GroupResults& results) {
  const std::vector<const json*> merges = merges_of(*results.front());
  if (merges.empty() || never_changes(merges)) return nullptr;
  const std::size_t count = (*merges.front())["batch_size"].size();
  const std::vector<std::size_t> ranks = spread(count, kMostBatchWorkers);
  json document = {{"count", count},          {"merges", merges.size()},
                   {"rank", ranks},           {"seed", results.front()->at("config")["seed"]},
                   {"time_s", json::array()}, {"batch_size", json(ranks.size(), json::array())}};
  for (const std::size_t place : spread(merges.size(), kMostMerges)) {
    const json& merge = *merges[place];
    document["time_s"].push_back(rounded(merge["time_s"], kWorkerDigits + 2));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const json& sizes = merge["batch_size"];
      const std::size_t mine = place_of(ranks[i], merge);
      document["batch_size"][i].push_back(mine < sizes.size() ? sizes[mine] : json(nullptr));
    }
  }
  return document;
}

}  // namespace hetsgd::report
