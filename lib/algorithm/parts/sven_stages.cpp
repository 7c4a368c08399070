#include "algorithm/parts/sven_stages.hpp"

namespace hetsgd {

namespace {

// Tags of the exchanges' messages. Rows and sums may be in flight at the same time on different
// ranks.
constexpr int kRowsTag = 1, kSumsTag = 2;

// Finds the rows that a batch needs and sends their numbers to the owners, on the worker or its
// input process. The caller charges it.
void request_rows(const TableStages& tables, Comm& comm, const Batch& batch, Lookup& lookup,
                  Traffic kind) {
  tables.request(batch, lookup);
  CollectiveRequest counts = tables.exchange_counts(lookup);
  counts.call.kind = kind;
  comm.make(counts);
  CollectiveRequest ids = tables.exchange_ids(lookup);
  ids.call.kind = kind;
  comm.make(ids);
}

}  // namespace

SvenStages::SvenStages(Worker& self, const Options& options)
    : self_(self),
      options_(options),
      tables_(self.tables()->stages()),
      context_(self.model().make_context(self.device())),
      state_(self.shared_state([&] { return State{self.replica()}; })) {
  replica_.gradient = self.make_gradient();
  const std::uint64_t slots = options.in_flight + (options.prepared ? kAhead : 0);
  for (std::uint64_t i = 0; i < slots; ++i) {
    slots_.push_back(std::make_shared<Slot>());
    slots_.back()->lookup = tables_.make_lookup();
  }
}

void SvenStages::begin() {
  if (options_.overlapped) communication_.emplace(self_.endpoint(), "communication");
  if (options_.prepared) input_.emplace(self_.endpoint(), "input");
}

// Charges the computation, and adds its time to the stage.
void SvenStages::compute(Stage stage, std::uint64_t k, const Work& tables, FunctionRef fn) {
  const Seconds begin = self_.now();
  const ComputeKind kind = stage == Stage::bp ? ComputeKind::step : ComputeKind::stage;
  self_.endpoint().compute(self_.costs().stage_work(stage, slot(k).batch.shape(), tables), kind,
                           fn);
  self_.stage_times()[stage] += self_.now() - begin;
}

void SvenStages::make(Stage stage, const CollectiveRequest& request, int tag) {
  const Seconds begin = self_.now();
  exchange_parts(options_.exchange, self_.comm(), self_.device(), tag, request);
  self_.stage_times()[stage] += self_.now() - begin;
}

// The slot lives as long as the operation.
SvenStages::Ticket SvenStages::start(std::uint64_t k, const CollectiveRequest& request, int tag) {
  self_.device().synchronize();  // another device of this GPU reads it next
  return communication_->add([slot = slots_[k % slots_.size()], how = options_.exchange, request,
                              tag](Endpoint& endpoint, Comm& comm) {
    exchange_parts(how, comm, endpoint.device(), tag, request);
  });
}

void SvenStages::wait(std::optional<OperationQueue>& queue, Ticket& ticket, Stage stage) {
  if (!ticket) return;
  const Seconds begin = self_.now();
  const CallTime time = queue->wait(ticket);
  ticket = nullptr;
  self_.stage_times()[stage] += time.end - time.begin;
  self_.stage_times()[Stage::stall] += self_.now() - begin;
}

void SvenStages::take_batch(std::uint64_t k) {
  const std::uint64_t size = options_.mine.size();
  const bool shared = self_.plan().partition == Partition::shared;
  const std::uint64_t begin =
      shared ? k * options_.global_batch + options_.mine.begin : k * size;  // of the pool or shard
  slot(k).batch = self_.batches().at({begin, size});
}

// Gives the input process the batches up to k. Machines that only prepare samples compute at no
// cost, but not faster than their rate.
void SvenStages::prepare_until(std::uint64_t k) {
  for (; prepared_ <= k; ++prepared_) {
    take_batch(prepared_);
    const auto samples = static_cast<double>(prepared_ * options_.global_batch);
    const double due_s = options_.input_rate ? samples / *options_.input_rate : 0;
    slot(prepared_).requested =
        input_->add([slot = slots_[prepared_ % slots_.size()], &tables = tables_, due_s](
                        Endpoint& endpoint, Comm& comm) {
          if (const Seconds early = Seconds(due_s) - endpoint.now(); early > Seconds(0)) {
            endpoint.sleep(early);
          }
          request_rows(tables, comm, slot->batch, *slot->lookup, Traffic::input);
        });
  }
}

void SvenStages::ids(std::uint64_t k) {
  if (input_) {
    prepare_until(k + kAhead);
    return wait(input_, slot(k).requested, Stage::ids);
  }
  take_batch(k);
  compute(Stage::ids, k, tables_.request_work(slot(k).batch), [] {});
  const Seconds charged = self_.now();
  request_rows(tables_, self_.comm(), slot(k).batch, lookup(k), Traffic::ids);
  self_.stage_times()[Stage::ids] += self_.now() - charged;
}

void SvenStages::sfp(std::uint64_t k) {
  ids(k);
  self_.observe("staleness", static_cast<std::int64_t>(k - updated_));
  compute(Stage::sfp, k, tables_.gather_work(lookup(k)), [&] { tables_.gather(lookup(k)); });
  self_.tables()->count(lookup(k));
}

void SvenStages::fp(std::uint64_t k) {
  Lookup& rows = lookup(k);
  slot(k).learning_rate = self_.learning_rate(self_.plan().batch_size);
  const Seconds begin = self_.now();
  double loss = 0;
  compute(Stage::fp, k, tables_.spread_work(rows), [&] {
    tables_.spread(rows);
    loss = self_.model().forward(*context_, rows.batch(), rows.embedded, replica_.w.data());
  });
  self_.completed(rows.batch(), loss, begin);
}

// Scales the gradient by this worker's mean loss to its share in that by the global batch's.
void SvenStages::bp(std::uint64_t k) {
  Lookup& rows = lookup(k);
  const auto share =
      static_cast<double>(options_.mine.size()) / static_cast<double>(options_.global_batch);
  compute(Stage::bp, k, tables_.sum_work(rows), [&] {
    self_.model().backward(*context_, rows.batch(), rows.embedded, replica_.w.data(),
                           replica_.gradient, rows.gradient);
    tables_.sum(rows);
    const std::span<float> g = replica_.gradient.flat.span();
    if (self_.size() > 1) {
      self_.device().axpby(g.size(), static_cast<float>(share), g.data(), 0.0F, g.data());
    }
  });
}

void SvenStages::sbp(std::uint64_t k) {
  compute(Stage::sbp, k, tables_.update_work(lookup(k)),
          [&] { tables_.update(lookup(k), slot(k).learning_rate); });
  ++updated_;
}

void SvenStages::opt(std::uint64_t k) {
  const Seconds begin = self_.now();
  self_.apply_dense(replica_, slot(k).learning_rate);
  self_.stage_times()[Stage::opt] += self_.now() - begin;
}

void SvenStages::evaluate_here(std::uint64_t k) {
  state_->next = k + 1;
  self_.evaluate_here(replica_.w, (k + 1) * options_.global_batch);
}

void SvenStages::exchange_rows(std::uint64_t k) {
  make(Stage::f_exchange, tables_.exchange_rows(lookup(k)), kRowsTag);
}

void SvenStages::exchange_sums(std::uint64_t k) {
  make(Stage::b_exchange, tables_.exchange_sums(lookup(k)), kSumsTag);
}

void SvenStages::all_reduce() {
  if (self_.size() == 1) return;
  const Seconds begin = self_.now();
  self_.all_reduce(replica_.gradient.flat, Traffic::gradients);
  self_.stage_times()[Stage::all_reduce] += self_.now() - begin;
}

void SvenStages::start_rows(std::uint64_t k) {
  slot(k).rows = start(k, tables_.exchange_rows(lookup(k)), kRowsTag);
}

void SvenStages::start_sums(std::uint64_t k) {
  slot(k).sums = start(k, tables_.exchange_sums(lookup(k)), kSumsTag);
}

void SvenStages::start_all_reduce() {
  if (self_.size() == 1) return;
  self_.device().synchronize();
  all_reduce_ = communication_->add([state = state_](Endpoint&, Comm& comm) {
    comm.all_reduce(state->replica.gradient.flat.span(), ReduceOp::sum, Traffic::gradients);
  });
}

void SvenStages::close() {
  for (const auto& each : slots_) {
    wait(communication_, each->rows, Stage::f_exchange);
    wait(communication_, each->sums, Stage::b_exchange);
    if (input_) input_->wait(each->requested);
  }
  if (communication_) communication_->close();
  if (input_) input_->close();
}

}  // namespace hetsgd
