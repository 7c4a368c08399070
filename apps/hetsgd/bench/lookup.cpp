// hetsgd bench lookup: times of the embedding part of a step by its stages, compared with the rate
// at which this machine reads cache lines at random.
#include <fmt/format.h>

#include "bench_command.hpp"
#include "core/median.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "lookup_bench.hpp"

namespace hetsgd {
namespace {

class LookupCommand final : public BenchCommand {
 public:
  LookupCommand() : BenchCommand("lookup", 20, 3) {}

  CommandInfo info() const override {
    return {
        .name = "bench lookup",
        .summary = "time of the embedding part of a step, by its stages",
        .examples = {"hetsgd bench lookup", "hetsgd bench lookup --rows 32M --zipf 0 --cores 2",
                     "hetsgd bench lookup --batch-size 1024,8192 --format json -o lookup.json"}};
  }

 protected:
  void declare_own(OptionSet& set) override {
    set.add("rows", o_.rows, "Rows of all tables together, divided equally among the fields.")
        .unit("rows")
        .range(1, 4294967295.0);
    set.add("fields", o_.fields, "Number of fields of a sample.").unit("fields").range(1, 4096);
    set.add("embedding_dim", o_.embedding, "Number of elements of an embedding.")
        .symbol("D")
        .range(1, 4096);
    set.add("own_weight", o_.own_weight,
            "Give each row one more element, as wide_deep and deepfm do. dcn does not.");
    set.add("zipf", o_.zipf,
            "Exponent of the Zipf distribution of the ids. 0 makes the distribution uniform.")
        .range(0, 10);
    set.add("dedup", o_.dedup, "Request a row once per batch, even if several samples have it.");
    set.add("batch_size", batches_, "Batch sizes to time, separated by commas.")
        .unit("samples")
        .range(1, kLargestBatch);
    set.add("cores", o_.cores, "Number of cores of the worker.").range(1, 1024);
    set.add("gpu", o_.gpu,
            "Number of the GPU that holds the rows and computes. cores: no GPU does.")
        .range(0, 1024)
        .absent("cores");
  }

  Report measure() override {
    o_.iterations = iterations();
    o_.warmup = warmup();
    const LookupBench bench(o_);
    const double rate = bench.memory_bytes_per_s();
    Report report{.list = "batches", .facts = facts(rate), .notes = {note(rate)}};
    for (const std::uint64_t batch : batches_) report.rows.push_back(row_of(bench, batch, rate));
    return report;
  }

 private:
  // A row of medians. `rate` is that of the memory, in bytes per second.
  Row row_of(const LookupBench& bench, std::uint64_t batch, double rate) const {
    const LookupTimes t = bench.measure(batch);
    const double look_up_s = median(t.look_up), sum_s = median(t.sum), update_s = median(t.update);
    const double gather_per_s = t.entries * bench.gather_bytes_per_row() / look_up_s;
    const double update_floor_s = bench.update_bytes(t) / rate;
    Row row;
    row.both("batch", "batch_size", batch)
        .show("distinct", fmt::format("{:.3f}", t.entries / static_cast<double>(t.lookups)))
        .keep("lookups", t.lookups)
        .keep("entries", t.entries);
    double all_s = 0;
    for (const auto& [name, times] : {std::pair("request", &t.request),
                                      {"look_up", &t.look_up},
                                      {"spread", &t.spread},
                                      {"sum", &t.sum},
                                      {"update", &t.update}}) {
      const double stage_s = median(*times);
      all_s += stage_s;
      row.both(fmt::format("{} us", name), fmt::format("{}_s", name), stage_s, "{:.1f}", 1e6);
    }
    row.both("samples/s", "samples_per_s", static_cast<double>(batch) / all_s, "{:.0f}")
        .both("gather GB/s", "gather_bytes_per_s", gather_per_s, "{:.2f}", 1e-9)
        .both(o_.gpu ? "of copy" : "of random", "gather_share", gather_per_s / rate, "{:.2f}");
    if (o_.gpu) {
      row.show("of reads", "-").show("of copies", "-");
    } else {
      row.both("of reads", "reads_share", median(t.random_reads) / look_up_s, "{:.2f}")
          .both("of copies", "copies_share", median(t.random_copies) / look_up_s, "{:.2f}");
    }
    return row.show("update/floor", fmt::format("{:.2f}", (sum_s + update_s) / update_floor_s))
        .keep("update_floor_s", update_floor_s)
        .keep("update_share", t.entries * bench.update_bytes_per_row() / update_s / rate);
  }

  nlohmann::json facts(double rate) const {
    const nlohmann::json none;
    return {{"rows", o_.rows},
            {"fields", o_.fields},
            {"embedding_dim", o_.embedding},
            {"own_weight", o_.own_weight},
            {"zipf", o_.zipf},
            {"dedup", o_.dedup},
            {"cores", o_.cores},
            {"gpu", o_.gpu ? nlohmann::json(*o_.gpu) : none},
            {"random_read_bytes_per_s", o_.gpu ? none : nlohmann::json(rate)},
            {"copy_bytes_per_s", o_.gpu ? nlohmann::json(rate) : none}};
  }

  std::string note(double rate) const {
    if (o_.gpu) {
      return fmt::format("gather: bytes moved per second, and their share of the {}/s of a copy",
                         format_bytes(rate));
    }
    return fmt::format(
        "gather: bytes of cache lines of rows per second, and their share of the {}/s at which {} "
        "core{} read{} lines at random; of reads, of copies: the time of as many random reads, and "
        "of as many random copies, over the time of look_up; update/floor: the time of sum and "
        "update over the time that their bytes take at that rate",
        format_bytes(rate), o_.cores, o_.cores == 1 ? "" : "s", o_.cores == 1 ? "s" : "");
  }

  LookupBenchOptions o_;
  std::vector<std::uint64_t> batches_ = {1024, 8192};
};

}  // namespace

const bool bench_lookup_registered = register_command<LookupCommand>(CommandGroup::machines, 6);

}  // namespace hetsgd
