#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/rank_index.hpp"
#include "memory/dymem.hpp"
#include "memory/ledger.hpp"
#include "memory/policy.hpp"

namespace hetsgd {
namespace {

// The states of a map that moves. Its bytes are in the pool, on the host (on_host_) or in both.
//
//   forward              in pool --offload begins--> in both --it ends, no use is left--> on host
//
//   backward   on host --the search offers it (queued_)--> in the queue
//              in the queue --its turn comes and there is room, or its step comes--> in pool
//              on host --its step comes--> in pool
//              in pool --cancelled before it was of use, the latest next use first--> in the queue
//              in pool --after its last use--> gone
//
// A map in the pool is in flight until its arrival; fetched_ stays set. With a cache, evict_one
// moves maps out of the pool in both passes, and only maps for the next step are fetched.
class Timeline final : public FetchQueue {
 public:
  Timeline(const Policy& policy, const PlanRequest& request)
      : policy_(policy),
        request_(request),
        training_(*request.training),
        ledger_(request, policy.has_arenas(request)),
        queued_(training_.tensors.size(), false),
        fetched_(training_.tensors.size(), false),
        on_host_(training_.tensors.size(), false),
        searched_(training_.forward_steps() + 1) {}

  MemoryPlan run() {
    step_ = 1;
    bool fits = place(training_.feature[0]);
    for (int k = 1; fits && k <= training_.forward_steps(); ++k) fits = forward(k);
    now_ = std::max(now_, ledger_.transfers_end());
    step_ = training_.forward_steps() + 1;
    end_offloads(now_);
    for (int k = training_.forward_steps() + 1; fits && k <= training_.total_steps(); ++k) {
      fits = backward(k);
    }
    return ledger_.finish(std::max(now_, ledger_.transfers_end()));
  }

  bool is_absent(int id) const override {
    return on_host_[at(id)] && !ledger_.is_resident(id) && !queued_[at(id)] &&
           training_.tensor(id).last_use() >= step_;
  }
  bool was_fetched(int id) const override { return fetched_[at(id)]; }
  void push(int id) override {
    queue_.push_back(id);
    queued_[at(id)] = true;
  }
  int& searched() override { return searched_; }

 private:
  struct Offload {
    int tensor;
    double end_s;
  };

  bool moves(const StepTensor& tensor) const {
    return !policy_.caches(request_) && policy_.moves(training_, tensor);
  }
  bool restarts() const {
    return policy_.traits().cancels && request_.on_shortage == OnShortage::restart;
  }
  bool is_serial() const { return policy_.traits().overlap == Overlap::none; }
  bool is_forward() const { return training_.step(step_).pass == Pass::forward; }

  // Both allocate at the present time. They make room where there is none, or note the shortage and
  // return false.
  bool place(int id) {
    while (!ledger_.allocate(id, step_, now_)) {
      if (!make_room()) return ledger_.fail(id, step_);
    }
    return true;
  }
  bool place_workspace() {
    while (!ledger_.take_workspace(step_, now_)) {
      if (!make_room()) return ledger_.fail(kWorkspaceTensor, step_);
    }
    return true;
  }

  bool make_room() {
    return is_forward() ? wait_for_offload() || evict_one() : cancel_one() || evict_one();
  }

  // The time at which the next step begins if this one's computation ends at `end`.
  double next_start(double end) const {
    return policy_.traits().overlap == Overlap::asynchronous
               ? end
               : std::max(end, ledger_.transfers_end());
  }

  // The tensors that a step makes or fetches, in the order in which they are allocated.
  std::vector<int> in_order(std::vector<int> tensors) {
    const Pass pass = training_.step(step_).pass;
    if (policy_.traits().groups_tensors) sort_allocations(training_, pass, tensors);
    if (request_.allocation_order) {
      RandomStream random(*request_.allocation_order, Purpose::search,
                          static_cast<std::uint64_t>(step_));
      for (std::size_t i = tensors.size(); i > 1; --i) {
        std::swap(tensors[i - 1], tensors[random.below(i)]);
      }
    }
    return tensors;
  }

  // --- forward -----------------------------------------------------------------------------------
  bool forward(int k) {
    step_ = k;
    end_offloads(now_);
    std::vector<int> wanted = training_.step(k).produces;
    std::erase(wanted, training_.feature[0]);
    for (const int id : in_order(std::move(wanted))) {
      if (!place(id)) return false;
    }
    if (!place_workspace()) return false;
    const double end = ledger_.compute(k, now_);
    start_offloads(k, end);
    ledger_.release_workspace(end);
    now_ = next_start(end);
    end_offloads(now_);
    for (const int id : training_.step(k).uses) {
      const StepTensor& tensor = training_.tensor(id);
      if (tensor.forward_uses.back() != k) continue;
      const bool gone =
          tensor.backward_uses.empty() || tensor.remade != Remade::no || on_host_[at(id)];
      if (gone && ledger_.is_resident(id)) ledger_.release(id, now_);
    }
    return true;
  }

  bool wait_for_offload() {
    if (offloads_.empty() || restarts()) return false;
    now_ = std::max(now_, offloads_.front().end_s);
    end_offloads(now_);
    return true;
  }

  // Moves the cache's least recently used map to the host, once, and frees its memory.
  bool evict_one() {
    if (!policy_.caches(request_)) return false;
    const Step& step = training_.step(step_);
    int victim = -1, oldest = step_;
    for (const int id : training_.feature) {
      const StepTensor& tensor = training_.tensor(id);
      if (!ledger_.is_resident(id) || tensor.last_use() <= step_) continue;
      if (tensor.remade != Remade::no) continue;
      if (step.has_use(id)) continue;
      // In the forward pass maps are never fetched.
      if (is_forward() && tensor.forward_uses.back() > step_) continue;
      const int used = last_use_before(tensor, step_);
      if (used < oldest) {
        oldest = used;
        victim = id;
      }
    }
    if (victim < 0) return false;
    if (on_host_[at(victim)]) {
      now_ = std::max(now_, ledger_.arrival(victim));
      ledger_.cancel(victim, now_);
    } else {
      now_ = ledger_.transfer(InstructionKind::offload, victim, step_, now_);
      on_host_[at(victim)] = true;
      ledger_.release(victim, now_);
    }
    return true;
  }

  static int last_use_before(const StepTensor& tensor, int step) {
    int last = 0;
    for (const auto* uses : {&tensor.forward_uses, &tensor.backward_uses}) {
      for (const int use : *uses) {
        if (use < step) last = use;
      }
    }
    return last;
  }

  void start_offloads(int k, double compute_end) {
    const OffloadTrigger trigger = policy_.traits().trigger;
    for (const int id : training_.step(k).uses) {
      const StepTensor& tensor = training_.tensor(id);
      if (tensor.kind != TensorKind::feature || tensor.backward_uses.empty()) continue;
      const bool produced = tensor.node == training_.step(k).node;
      const int last = tensor.forward_uses.back();
      const int first = tensor.forward_uses[tensor.node == 0 || tensor.forward_uses.size() == 1
                                                ? 0
                                                : 1];  // production is the first use
      const bool due = trigger == OffloadTrigger::production_end  ? produced
                       : trigger == OffloadTrigger::last_consumer ? !produced && last == k
                                                                  : !produced && first == k;
      if (!due || !moves(tensor)) continue;
      const bool at_end = trigger == OffloadTrigger::production_end || is_serial();
      const double end =
          ledger_.transfer(InstructionKind::offload, id, k, at_end ? compute_end : now_);
      offloads_.push_back({id, end});
    }
  }

  // Releases maps that have arrived on the host by `time` and have no forward use left.
  void end_offloads(double time) {
    while (!offloads_.empty() && offloads_.front().end_s <= time) {
      const int id = offloads_.front().tensor;
      const double end = offloads_.front().end_s;
      offloads_.pop_front();
      on_host_[at(id)] = true;
      // A map of the current step is released at the step's end.
      if (training_.tensor(id).forward_uses.back() < step_) ledger_.release(id, end);
    }
  }

  // --- backward ----------------------------------------------------------------------------------
  bool backward(int k) {
    step_ = k;
    const Step& step = training_.step(k);
    if (!step.again.empty() && !compute_again(step)) return false;
    std::vector<int> demanded;
    for (const int id : step.reads) {
      if (!ledger_.is_resident(id)) demanded.push_back(id);
    }
    std::vector<int> wanted = demanded;
    wanted.insert(wanted.end(), step.produces.begin(), step.produces.end());
    for (const int id : demanded) take_from_queue(id);
    for (const int id : in_order(std::move(wanted))) {
      if (!place(id)) return false;
    }
    policy_.search(request_, training_.total_steps() + 1 - k, *this);
    for (const int id : demanded) now_ = std::max(now_, fetch(id, now_));
    for (const int id : step.reads) {
      now_ = std::max(now_, ledger_.arrival(id));  // a prefetch may be in flight
    }
    start_fetches(now_, true);
    if (!place_workspace()) return false;
    const double end = ledger_.compute(k, now_);
    start_fetches(end, false);
    ledger_.release_workspace(end);
    now_ = next_start(end);
    for (const int id : step.uses) {
      const StepTensor& tensor = training_.tensor(id);
      if (tensor.last_use() == k || tensor.remade == Remade::each_step) ledger_.release(id, now_);
    }
    return true;
  }

  void take_from_queue(int id) {
    if (queued_[at(id)]) std::erase(queue_, id);
    queued_[at(id)] = false;
  }

  // Computes the dropped maps that the step reads, from the preceding checkpoint on. A map in
  // between is released once the next one is there.
  bool compute_again(const Step& step) {
    const Graph& graph = *training_.graph;
    const auto input_of = [&](int node) {
      return training_.feature[at(graph.node(node).from.front())];
    };
    const int checkpoint = input_of(step.again.front());
    if (!ledger_.is_resident(checkpoint)) {
      take_from_queue(checkpoint);
      if (!place(checkpoint)) return false;
      now_ = std::max(now_, fetch(checkpoint, now_));
    }
    now_ = std::max(now_, ledger_.arrival(checkpoint));
    for (const int node : step.again) {
      if (!place(training_.feature[at(node)])) return false;
      now_ = ledger_.compute_again(node, step_, now_);
      const int input = input_of(node);
      const bool passed = training_.tensor(input).remade != Remade::once && !step.has_read(input);
      if (passed) ledger_.release(input, now_);
    }
    return true;
  }

  // Starts queued fetches whose turn comes before `until`, or only the first, at once. Without
  // blocking, all of them start at once, one after the other, and those that do not fit are
  // skipped.
  void start_fetches(double until, bool at_once) {
    while (!queue_.empty()) {
      const double start = std::max(now_, ledger_.transfers_end());
      if (policy_.traits().blocks && (at_once ? start > until : start >= until)) return;
      const int id = queue_.front();
      const bool fits = ledger_.allocate(id, step_, policy_.traits().blocks ? start : now_);
      if (!fits && policy_.traits().blocks) return;
      queue_.pop_front();
      queued_[at(id)] = false;
      if (fits) fetch(id, start);
    }
  }

  double fetch(int id, double time) {
    fetched_[at(id)] = true;
    return ledger_.transfer(InstructionKind::fetch, id, step_, time);
  }

  // Drops the resident prefetch with the latest next use, and puts it back at the front of the
  // queue.
  bool cancel_one() {
    if (!policy_.traits().cancels || restarts()) return false;
    const Step& step = training_.step(step_);
    int victim = -1, latest = 0;
    for (const int id : training_.feature) {
      if (!fetched_[at(id)] || !ledger_.is_resident(id)) continue;
      if (step.has_use(id)) continue;
      const std::vector<int>& uses = training_.tensor(id).backward_uses;
      if (uses.front() < step_) continue;  // it has been used, and waits for its next use
      if (uses.front() > latest) {
        latest = uses.front();
        victim = id;
      }
    }
    if (victim < 0) return false;
    now_ = std::max(now_, ledger_.arrival(victim));
    ledger_.cancel(victim, now_);
    queue_.push_front(victim);
    queued_[at(victim)] = true;
    return true;
  }

  const Policy& policy_;
  const PlanRequest& request_;
  const TrainingStep& training_;
  Ledger ledger_;
  std::deque<int> queue_;                         // of fetches
  std::vector<bool> queued_, fetched_, on_host_;  // by tensor
  int searched_;
  std::deque<Offload> offloads_;  // in flight, in the order of their ends
  double now_ = 0;
  int step_ = 0;
};

}  // namespace

MemoryPlan run_timeline(const Policy& policy, const PlanRequest& request) {
  if (const auto total = policy.total_bytes(request)) {
    // The times are those of a pool without limit; the sizes are sums.
    PlanRequest roomy = request;
    roomy.capacity = kAmpleBytes;
    MemoryPlan plan = Timeline(policy, roomy).run();
    plan.peak_bytes = plan.backward_peak_bytes = plan.peak_live_bytes = *total;
    for (StepRecord& step : plan.steps) step.used_bytes = step.live_bytes = *total;
    plan.fragmentation_at_peak = plan.largest_unusable = 0;
    if (*total > request.capacity) plan.shortage = Shortage{1, *total, 0};
    return plan;
  }
  return Timeline(policy, request).run();
}

}  // namespace hetsgd
