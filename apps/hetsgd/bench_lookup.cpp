// hetsgd bench lookup: the embedding part of a step by its stages, beside the rate at which this
// machine reads cache lines at random.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "core/limits.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "result/output.hpp"
#include "result/statistics.hpp"
#include "result/table.hpp"
#include "table/lookup_bench.hpp"

namespace hetsgd {
namespace {

enum class LookupFormat { text, markdown, csv, json };

// Of one batch size; medians, in seconds.
struct LookupRow {
  std::uint64_t batch = 0;
  LookupTimes times;
  double stage_s[5] = {};
  double samples_per_s = 0;  // of all stages together
  double gather_per_s = 0;   // bytes of cache lines
  double gather_share = 0;   // of the memory's rate
  // Of a CPU: what its lines take by themselves in the same iterations, over the time of look_up.
  double reads_share = 0, copies_share = 0;
  double update_floor_s = 0;  // of sum and update together, at that rate
  double update_ratio = 0;    // what they took over it
  double update_share = 0;    // of the memory's rate, of the update alone
};

constexpr const char* kStages[] = {"request", "look_up", "spread", "sum", "update"};

class LookupCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "bench lookup",
        .summary = "time of the embedding part of a step, by its stages",
        .examples = {"hetsgd bench lookup", "hetsgd bench lookup --rows 32M --zipf 0 --cores 2",
                     "hetsgd bench lookup --batch-size 1024,8192 --format json -o lookup.json"}};
  }

  void declare(OptionSet& set) override {
    set.add("rows", o_.rows, "rows of all tables, equally many of each field")
        .unit("rows")
        .range(1, 4294967295.0);
    set.add("fields", o_.fields, "fields of a sample").unit("fields").range(1, 4096);
    set.add("embedding_dim", o_.embedding, "numbers of a category's embedding")
        .symbol("D")
        .range(1, 4096);
    set.add("own_weight", o_.own_weight,
            "a row has one number more, as in wide_deep and deepfm; without it as in dcn");
    set.add("zipf", o_.zipf, "exponent of the popularity of ids; 0: uniform").range(0, 10);
    set.add("dedup", o_.dedup, "a batch asks once for a row that several of its samples have");
    set.add("batch_size", batches_, "samples of a batch, comma-separated")
        .unit("samples")
        .range(1, kLargestBatch);
    set.add("cores", o_.cores, "cores of the worker").range(1, 1024);
    set.add("gpu", o_.gpu, "number of the GPU that has the rows and computes")
        .range(0, 1024)
        .absent("cores");
    set.add("iterations", o_.iterations, "timed iterations").range(1, 1e6);
    set.add("warmup", o_.warmup, "iterations before them").range(0, 1e6);
    set.add_choice("format", format_,
                   {{"text", LookupFormat::text},
                    {"markdown", LookupFormat::markdown},
                    {"csv", LookupFormat::csv},
                    {"json", LookupFormat::json}},
                   "how to print");
    set.add("output", output_, "file to write; - is stdout").writes_file("the table");
    set.add("overwrite", overwrite_, "replace an existing file");
  }

  int run(OptionSet&, const std::vector<std::string>&) override {
    const LookupBench bench(o_);
    const double read_rate = bench.memory_bytes_per_s();
    std::vector<LookupRow> rows;
    for (const std::uint64_t batch : batches_) {
      rows.push_back(measure(bench, batch, read_rate));
    }
    write_text(output_, format_ == LookupFormat::json ? json_of(rows, read_rate).dump(1) + "\n"
                                                      : table_of(rows));
    if (output_ != "-") log_info("lookup: {}", output_);
    if (format_ == LookupFormat::text && o_.gpu) {
      log_info("gather: bytes moved per second, and their share of the {}/s of a copy",
               format_bytes(read_rate));
    } else if (format_ == LookupFormat::text) {
      log_info(
          "gather: cache lines of rows per second, and its share of the {}/s at which {} "
          "core{} read{} lines at random; of reads, of copies: the time of as many such reads, and "
          "of "
          "copies from such places, among the stages, over that of look_up; update/floor: sum and "
          "update over the time of their "
          "bytes at that rate",
          format_bytes(read_rate), o_.cores, o_.cores == 1 ? "" : "s", o_.cores == 1 ? "s" : "");
    }
    return 0;
  }

 private:
  static LookupRow measure(const LookupBench& bench, std::uint64_t batch, double read_rate) {
    LookupRow row{.batch = batch, .times = bench.measure(batch)};
    const LookupTimes& t = row.times;
    const std::vector<double>* const lists[] = {&t.request, &t.look_up, &t.spread, &t.sum,
                                                &t.update};
    double all = 0;
    for (std::size_t i = 0; i < std::size(lists); ++i) {
      row.stage_s[i] = median(*lists[i]);
      all += row.stage_s[i];
    }
    row.samples_per_s = static_cast<double>(batch) / all;
    row.gather_per_s = t.entries * bench.gather_bytes_per_row() / row.stage_s[1];
    row.gather_share = row.gather_per_s / read_rate;
    if (!t.random_reads.empty()) {
      row.reads_share = median(t.random_reads) / row.stage_s[1];
      row.copies_share = median(t.random_copies) / row.stage_s[1];
    }
    row.update_floor_s = bench.update_bytes(t) / read_rate;
    row.update_ratio = (row.stage_s[3] + row.stage_s[4]) / row.update_floor_s;
    row.update_share = t.entries * bench.update_bytes_per_row() / row.stage_s[4] / read_rate;
    return row;
  }

  std::string table_of(const std::vector<LookupRow>& rows) const {
    Table table({"batch", "distinct", "request us", "look_up us", "spread us", "sum us",
                 "update us", "samples/s", "gather GB/s", o_.gpu ? "of copy" : "of random",
                 "of reads", "of copies", "update/floor"});
    for (const LookupRow& row : rows) {
      std::vector<std::string> cells = {
          std::to_string(row.batch),
          fmt::format("{:.3f}", row.times.entries / static_cast<double>(row.times.lookups))};
      for (const double seconds : row.stage_s)
        cells.push_back(fmt::format("{:.1f}", 1e6 * seconds));
      cells.push_back(fmt::format("{:.0f}", row.samples_per_s));
      cells.push_back(fmt::format("{:.2f}", 1e-9 * row.gather_per_s));
      cells.push_back(fmt::format("{:.2f}", row.gather_share));
      for (const double share : {row.reads_share, row.copies_share}) {
        cells.push_back(o_.gpu ? "-" : fmt::format("{:.2f}", share));
      }
      cells.push_back(fmt::format("{:.2f}", row.update_ratio));
      table.add(std::move(cells));
    }
    return table.format(format_ == LookupFormat::text       ? TableFormat::text
                        : format_ == LookupFormat::markdown ? TableFormat::markdown
                                                            : TableFormat::csv);
  }

  nlohmann::json json_of(const std::vector<LookupRow>& rows, double read_rate) const {
    nlohmann::json list = nlohmann::json::array();
    for (const LookupRow& row : rows) {
      nlohmann::json entry = {{"batch_size", row.batch},
                              {"lookups", row.times.lookups},
                              {"entries", row.times.entries},
                              {"samples_per_s", row.samples_per_s},
                              {"gather_bytes_per_s", row.gather_per_s},
                              {"gather_share", row.gather_share},
                              {"update_floor_s", row.update_floor_s},
                              {"update_share", row.update_share}};
      if (!o_.gpu) {
        entry["reads_share"] = row.reads_share;
        entry["copies_share"] = row.copies_share;
      }
      for (std::size_t i = 0; i < std::size(kStages); ++i) {
        entry[fmt::format("{}_s", kStages[i])] = row.stage_s[i];
      }
      list.push_back(std::move(entry));
    }
    nlohmann::json gpu, random_read = read_rate, copy;
    if (o_.gpu) {
      gpu = *o_.gpu;
      std::swap(random_read, copy);
    }
    return {{"rows", o_.rows},
            {"fields", o_.fields},
            {"embedding_dim", o_.embedding},
            {"own_weight", o_.own_weight},
            {"zipf", o_.zipf},
            {"dedup", o_.dedup},
            {"cores", o_.cores},
            {"gpu", gpu},
            {"iterations", o_.iterations},
            {"warmup", o_.warmup},
            {"random_read_bytes_per_s", random_read},
            {"copy_bytes_per_s", copy},
            {"batches", std::move(list)}};
  }

  LookupBenchOptions o_;
  std::vector<std::uint64_t> batches_ = {1024, 8192};
  LookupFormat format_ = LookupFormat::text;
  std::string output_ = "-";
  bool overwrite_ = false;
};

}  // namespace

const bool bench_lookup_registered = register_command<LookupCommand>(CommandGroup::machines, 6);

}  // namespace hetsgd
