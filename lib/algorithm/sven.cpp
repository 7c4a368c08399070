// sven: embedding tables are sharded over the workers, an asynchronous all_to_all exchanges rows
// and their gradients, and the stages of neighbouring batches overlap. Dense parameters are never
// stale; rows are read up to L + 1 updates late, always the same number, so that a run's result
// does not depend on its timing.
//
// Paper:      Sven (Yang 2022, chapter 6).
// Implements: figure 6.2 and equations 6.1 and 6.2. For batch k: ids; SFP gather of rows at their
//             owners; fA2A rows to the requesters; FP, BP dense forward and backward; AR all_reduce
//             of the dense gradient; opt dense update; bA2A sums of rows' gradients to the owners;
//             SBP update of rows.
//               none, input   ids(k) SFP(k) fA2A(k) FP(k) BP(k) AR(k) opt(k) bA2A(k) SBP(k), (6.1);
//                             with input the ids are prepared ahead by processes of their own
//               full          interval k, (6.2), L batches looked up before the first:
//                               stage       communication process   worker
//                               1 (blue)    bA2A(k-1)               SFP(k+L), FP(k)
//                               2 (green)   fA2A(k+L)               BP(k)
//                               3 (red)     AR(k)                   SBP(k-1)
//                               end                                 opt(k)
// Symbols:    L --lookahead, b --batch-size (of each worker, or split over them), P workers.
// Cost:       per iteration two all_to_alls of the rows that a batch asks for, one of their row
//             numbers, one all_reduce of the dense gradient. Time of an interval: none the sum of
//             all stages, full max(SFP + FP, bA2A) + max(BP, fA2A) + max(AR, SBP) + opt.
// Records:    histogram "staleness", one count for each batch that a worker looks up: row updates
//             of earlier batches that it does not see. workers[].stages.
// Deviations: L = 2 and the bA2A one interval after BP are read from the text's iteration numbers
//             and its staleness of three; in (6.2) the two all_to_alls have the reverse order, as
//             in the figure's colours. --join data (ours) waits only for what a stage needs. A
//             measurement sees the dense part after opt(k) and rows after SBP(k-1): the pipeline is
//             not drained for it, nor at the end. With L = 0 the rows of batch k are exchanged in
//             stage 1, before FP(k).

#include "algorithm/algorithm.hpp"
#include "algorithm/parts/global_batch.hpp"
#include "algorithm/parts/sven_stages.hpp"

namespace hetsgd {
namespace {

enum class SvenPipeline { full, input, none };

constexpr std::uint64_t kMostAhead = 8, kPaperAhead = 2;

class Sven final : public Algorithm {
 public:
  void declare(OptionSet& set) override {
    set.add_choice(
        "pipeline", pipeline_,
        {{"full", SvenPipeline::full},
         {"input", SvenPipeline::input},
         {"none", SvenPipeline::none}},
        "Overlap of stages. full runs stages of neighbouring batches at the same time. input only "
        "prepares requests ahead. none runs one stage after the other.");
    set.add("lookahead", lookahead_,
            "Number of batches whose rows are looked up before the batch in training. It has an "
            "effect with --pipeline full.")
        .symbol("L")
        .unit("batches")
        .range(0, kMostAhead);
    set.add_choice(
        "join", joins_data_, {{"stages", false}, {"data", true}},
        "When a stage ends. stages waits for worker and communication (the paper), and data only "
        "for what the worker needs. The result is the same, to the bit.");
    set.add_choice(
        "exchange", exchange_,
        {{"scatter", Exchange::scatter},
         {"blocking", Exchange::blocking},
         {"nonblocking", Exchange::nonblocking}},
        "How rows are exchanged. scatter posts messages (the paper), blocking makes a collective "
        "as NCCL does, and nonblocking sends messages as MPI_Ialltoallv does.");
    batch_.declare(set);
    set.add("input_rate", input_rate_,
            "Throughput of the machines that prepare requests, in samples/s.")
        .above(0)
        .absent("unlimited");
  }

  void check(const Plan& plan) const override { batch_.check(plan); }

  std::vector<std::string> warnings(const Plan&, const Layout&) const override {
    if (pipeline_ != SvenPipeline::full || lookahead_ <= kPaperAhead) return {};
    return {fmt::format("--lookahead {} reads rows {} updates late, the paper {} updates late",
                        lookahead_, lookahead_ + 1, kPaperAhead + 1)};
  }

  void worker(Worker& self) const override {
    SvenStages stages(self, options_of(self));
    pipeline_ == SvenPipeline::full ? full(self, stages) : one_by_one(self, stages);
    stages.close();
  }

 private:
  SvenStages::Options options_of(Worker& self) const {
    const auto p = static_cast<std::uint64_t>(self.size());
    const std::uint64_t b = batch_.samples(self.plan(), p);
    const bool full = pipeline_ == SvenPipeline::full;
    return {.exchange = exchange_,
            .overlapped = full,
            .prepared = pipeline_ != SvenPipeline::none,
            .in_flight = full ? lookahead_ + 2 : 1,
            .input_rate = input_rate_,
            .global_batch = b,
            .mine = self.comm().block_of(self.rank(), b)};
  }

  // Equation 6.1.
  static void one_by_one(Worker& self, SvenStages& s) {
    for (std::uint64_t k = s.first(); self.running(); ++k) {
      if (k == s.first()) s.begin();
      s.sfp(k);
      s.exchange_rows(k);
      s.fp(k);
      s.bp(k);
      s.all_reduce();
      s.opt(k);
      s.exchange_sums(k);
      s.sbp(k);
      s.evaluate_here(k);
    }
  }

  // A segment of a run begins with an empty pipeline. One that is followed by another ends with all
  // rows updated; rows that were read ahead are read again.
  void full(Worker& self, SvenStages& s) const {
    std::uint64_t k = s.first();
    for (; self.running(); ++k) {
      if (k == s.first()) s.begin();
      for (std::uint64_t m = k; k == s.first() && m < k + lookahead_; ++m) {
        s.sfp(m);
        s.start_rows(m);
      }
      joins_data_ ? interval_by_data(s, k) : interval_by_stages(s, k);
      s.evaluate_here(k);
    }
    if (!self.is_followed() || k == s.first()) return;
    if (!joins_data_) s.start_sums(k - 1);
    s.wait_sums(k - 1);
    s.sbp(k - 1);
  }

  // Equation 6.2.
  void interval_by_stages(SvenStages& s, std::uint64_t k) const {
    if (k > s.first()) s.start_sums(k - 1);  // 1 (blue)
    s.sfp(k + lookahead_);
    if (lookahead_ == 0) s.start_rows(k);
    s.wait_rows(k);
    s.fp(k);
    if (k > s.first()) s.wait_sums(k - 1);

    if (lookahead_ > 0) s.start_rows(k + lookahead_);  // 2 (green)
    s.bp(k);
    if (lookahead_ > 0) s.wait_rows(k + lookahead_);

    s.start_all_reduce();  // 3 (red)
    if (k > s.first()) s.sbp(k - 1);
    s.wait_all_reduce();

    s.opt(k);
  }

  // The same stages in the same order; the all_reduce before the sums, as opt(k) waits for it.
  void interval_by_data(SvenStages& s, std::uint64_t k) const {
    s.sfp(k + lookahead_);
    s.start_rows(k + lookahead_);
    s.wait_rows(k);
    s.fp(k);
    s.bp(k);
    s.start_all_reduce();
    s.start_sums(k);
    if (k > s.first()) {
      s.wait_sums(k - 1);
      s.sbp(k - 1);
    }
    s.wait_all_reduce();
    s.opt(k);
  }

  SvenPipeline pipeline_ = SvenPipeline::full;
  std::uint64_t lookahead_ = kPaperAhead;
  bool joins_data_ = false;
  Exchange exchange_ = Exchange::scatter;
  GlobalBatch batch_;
  std::optional<double> input_rate_;
};

const bool sven_registered = register_algorithm<Sven>({
    .name = "sven",
    .title = "Sven",
    .idea =
        "Embedding tables are sharded over the workers, which exchange rows and their gradients "
        "without waiting for each other. Exchange overlaps with computing, so the rows "
        "that a batch reads are a fixed number of updates old.",
    .paper = "Sven (Yang 2022, chapter 6)",
    .cost = "per iteration two all_to_alls of rows, one of row numbers, one all_reduce of the "
            "dense gradient",
    .result = "the common model",
    .identities = "--pipeline none = input, and ssgd with --per-worker-batch full; one worker with "
                  "none = sgd, up to rounding; --join and --exchange change no bit",
    .lockstep = true,
    .sharded_tables_only = "exchanges rows of sharded tables",
});

}  // namespace
}  // namespace hetsgd
