// hetsgd bench all_reduce: time and bandwidth of all_reduce by size and operator, with the columns
// and size flags of nccl-tests.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/profile.hpp"
#include "collective/all_reduce_bench.hpp"
#include "commands.hpp"
#include "core/error.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "overwrite.hpp"
#include "result/environment.hpp"
#include "result/output.hpp"
#include "result/statistics.hpp"
#include "result/table.hpp"

namespace hetsgd {
namespace {

enum class Format { text, markdown, csv, json };

constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;

struct Row {
  std::size_t bytes = 0;
  std::string op;
  BenchTimes times = {};
  double time_s = 0;   // median
  double floor_s = 0;  // median; 0: the clock is simulated
};

class BenchAllReduce final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "bench all_reduce",
            .summary = "time and bandwidth of all_reduce by size and operator, as nccl-tests do",
            .examples = {"hetsgd bench all_reduce --op sum,adasum -b 4K -e 64M -f 4",
                         "hetsgd bench all_reduce --op ring,adasum --cluster sim --workers 64 "
                         "--network ethernet-1g",
                         "hetsgd bench all_reduce -n 100 --format json -o all_reduce.json"}};
  }

  void declare(OptionSet& set) override {
    std::vector<std::string> names;
    for (const BenchOperator& op : bench_operators()) names.push_back(op.name + ": " + op.help);
    set.add("op", ops_, fmt::format("operators, separated by commas; {}", fmt::join(names, "; ")));
    set.add("min_bytes", min_bytes_, "smallest buffer of one worker, e.g. 4K").unit("bytes");
    set.add("max_bytes", max_bytes_, "largest buffer").unit("bytes");
    set.add("factor", factor_, "between one size and the next").at_least(2);
    set.add("iterations", iterations_, "timed iterations per size and operator").at_least(1);
    set.add("warmup", warmup_, "iterations before them, off the clock").at_least(0);
    set.add("check", check_, "compare the result with that of one process");
    set.add("workers", workers_, "number of workers").symbol("P").range(1, 1 << 16);
    set.add("cluster", cluster_, "threads (real time) or sim (virtual time)");
    set.add("devices", devices_, "threads: a device per worker, e.g. cpu:1; the last repeats");
    set.add("profile", profile_, "sim: device profile, built-in name or JSON file");
    set.add("network", network_, "sim: network model, built-in name or JSON file");
    set.add_choice("format", format_,
                   {{"text", Format::text},
                    {"markdown", Format::markdown},
                    {"csv", Format::csv},
                    {"json", Format::json}},
                   "how to print");
    set.add("output", output_, "file to write; - is stdout");
    set.add("overwrite", overwrite_, "replace an existing file");
  }

  int run(OptionSet&, const std::vector<std::string>&) override {
    const std::vector<const BenchOperator*> ops = operators();
    const std::vector<std::size_t> all_sizes = sizes();
    if (output_ != "-") {
      refuse_to_overwrite(output_, overwrite_);
      check_writable(output_);
    }
    const ClusterOptions options = cluster_options();
    shared_memory_ = !make_cluster(cluster_, options)->is_virtual();
    const AllReduceBench bench(cluster_, options, iterations_, warmup_);
    std::vector<Row> rows;
    for (const std::size_t bytes : all_sizes) measure(bench, bytes, ops, rows);
    show_status("");
    write(format_ == Format::json ? rows_json(rows).dump(1) + "\n" : rows_table(rows));
    if (shared_memory_ && format_ == Format::text) {
      note(
          "floor: every worker adds 1 to its buffer, all at the same time: the reads and writes "
          "that an all_reduce cannot do without");
    }
    return verdict(rows);
  }

 private:
  std::vector<const BenchOperator*> operators() const {
    std::vector<const BenchOperator*> list;
    for (const std::string_view name : split(ops_, ',')) {
      list.push_back(&find_bench_operator("--op", std::string(trim(name))));
    }
    return list;
  }

  // Whole numbers of float32, from --min-bytes times --factor up to --max-bytes.
  std::vector<std::size_t> sizes() const {
    const std::uint64_t first = parse_bytes("--min-bytes", min_bytes_);
    const std::uint64_t last = parse_bytes("--max-bytes", max_bytes_);
    if (first < sizeof(float)) {
      throw with_hint(usage_error("--min-bytes: found {}, expected at least one number of 4 bytes",
                                  quote(min_bytes_)),
                      "for example --min-bytes 4K");
    }
    if (last < first || last > kLargest) {
      throw with_hint(usage_error("--max-bytes: found {}, expected between --min-bytes {} and 1T",
                                  quote(max_bytes_), min_bytes_),
                      "sizes have binary suffixes: 64K is 65,536 bytes");
    }
    std::vector<std::size_t> list;
    for (std::uint64_t bytes = first; bytes <= last; bytes *= factor_) {
      list.push_back(bytes / sizeof(float) * sizeof(float));
    }
    return list;
  }

  ClusterOptions cluster_options() const {
    ClusterOptions options;
    options.workers = workers_;
    options.profile = load_device_profile(profile_);
    options.network = load_network_model(network_);
    for (const std::string_view device : split(devices_, ',')) options.devices.emplace_back(device);
    return options;
  }

  void measure(const AllReduceBench& bench, std::size_t bytes,
               const std::vector<const BenchOperator*>& ops, std::vector<Row>& rows) const {
    const std::size_t count = bytes / sizeof(float);
    const auto status = [&](const std::string& what) {
      if (!detect_terminal().terminal) return;
      show_status(fmt::format("{}, {}", format_bytes(static_cast<double>(bytes)), what));
    };
    double floor_s = 0;
    if (shared_memory_) {
      status("floor");
      floor_s = median(bench.floor(count).time_s);
    }
    for (const BenchOperator* op : ops) {
      status(op->name);
      Row row{.bytes = bytes, .op = op->name, .floor_s = floor_s};
      row.times = bench.measure(*op, count, check_);
      row.time_s = median(row.times.time_s);
      rows.push_back(std::move(row));
    }
  }

  // Bytes over time, and what of it every link must carry at least: 2 (P-1)/P of the bytes.
  static double algbw(const Row& row) {
    return row.time_s > 0 ? static_cast<double>(row.bytes) / row.time_s : 0;
  }
  double busbw(const Row& row) const { return algbw(row) * 2 * (workers_ - 1) / workers_; }

  std::string rows_table(const std::vector<Row>& rows) const {
    std::vector<std::string> header = {"size(B)",  "count",       "type",        "redop",
                                       "time(us)", "algbw(GB/s)", "busbw(GB/s)", "#wrong"};
    if (shared_memory_) header.insert(header.end(), {"floor(us)", "time/floor"});
    Table table(header);
    for (const Row& row : rows) {
      std::vector<std::string> cells = {fmt::format("{}", row.bytes),
                                        fmt::format("{}", row.bytes / sizeof(float)),
                                        "float",
                                        row.op,
                                        fmt::format("{:.2f}", 1e6 * row.time_s),
                                        fmt::format("{:.3f}", 1e-9 * algbw(row)),
                                        fmt::format("{:.3f}", 1e-9 * busbw(row)),
                                        check_ ? fmt::format("{}", row.times.wrong) : "-"};
      if (shared_memory_) {
        cells.push_back(fmt::format("{:.2f}", 1e6 * row.floor_s));
        cells.push_back(fmt::format("{:.2f}", row.time_s / row.floor_s));
      }
      table.add(std::move(cells));
    }
    return table.format(format_ == Format::text       ? TableFormat::text
                        : format_ == Format::markdown ? TableFormat::markdown
                                                      : TableFormat::csv);
  }

  nlohmann::json rows_json(const std::vector<Row>& rows) const {
    nlohmann::json list = nlohmann::json::array();
    for (const Row& row : rows) {
      const auto [least, most] =
          std::minmax_element(row.times.time_s.begin(), row.times.time_s.end());
      list.push_back(
          {{"size_bytes", row.bytes},
           {"count", row.bytes / sizeof(float)},
           {"type", "float"},
           {"redop", row.op},
           {"time_s", {{"median", row.time_s}, {"min", *least}, {"max", *most}}},
           {"algbw_bytes_per_s", algbw(row)},
           {"busbw_bytes_per_s", busbw(row)},
           {"wrong", check_ ? nlohmann::json(row.times.wrong) : nlohmann::json()},
           {"floor_s", shared_memory_ ? nlohmann::json(row.floor_s) : nlohmann::json()}});
    }
    nlohmann::json result = {{"benchmark", "all_reduce"},
                             {"version", version_json()},
                             {"environment", environment_json()},
                             {"cluster", cluster_},
                             {"workers", workers_},
                             {"iterations", iterations_},
                             {"warmup", warmup_},
                             {"results", std::move(list)}};
    if (!shared_memory_) result.update({{"profile", profile_}, {"network", network_}});
    return result;
  }

  void write(const std::string& text) const {
    if (output_ == "-") {
      fmt::print("{}", text);
    } else {
      write_text(output_, text);
      note("all_reduce: {}", output_);
    }
  }

  int verdict(const std::vector<Row>& rows) const {
    std::uint64_t wrong = 0;
    for (const Row& row : rows) wrong += row.times.wrong;
    if (wrong == 0) return 0;
    talk(TalkLevel::error, fmt::format("{} numbers are wrong", wrong));
    return static_cast<int>(ExitCode::runtime);
  }

  std::string ops_ = "sum,adasum";
  std::string min_bytes_ = "4K", max_bytes_ = "64M";
  std::uint64_t factor_ = 2;
  int iterations_ = 20, warmup_ = 5;
  bool check_ = true;
  int workers_ = 2;
  std::string cluster_ = "threads";
  std::string devices_ = "cpu:1";
  std::string profile_ = "v100", network_ = "pcie3";
  Format format_ = Format::text;
  std::string output_ = "-";
  bool overwrite_ = false;
  bool shared_memory_ = false;  // the cluster's workers run on this machine, at once
};

}  // namespace

std::unique_ptr<Command> make_bench_all_reduce() { return std::make_unique<BenchAllReduce>(); }

}  // namespace hetsgd
