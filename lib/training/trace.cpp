#include "training/trace.hpp"

#include <algorithm>
#include <utility>

#include "training/nvtx.hpp"

namespace hetsgd {

namespace {

// From its making to its end, also when the run is unwound.
class Range {
 public:
  Range(const Node& node, TraceLine& line, const char* category, std::string name)
      : node_(node),
        line_(line),
        nvtx_(name.c_str()),
        range_{category, std::move(name), node.now(), {}} {}
  ~Range() {
    range_.end = node_.now();
    line_.ranges.push_back(std::move(range_));
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const Node& node_;
  TraceLine& line_;
  NvtxRange nvtx_;
  TraceRange range_;
};

class TracedComm final : public Comm {
 public:
  TracedComm(const Node& node, TraceLine& line, Comm& comm)
      : node_(node), line_(line), comm_(comm) {}
  TracedComm(const Node& node, TraceLine& line, std::unique_ptr<Comm> comm)
      : node_(node), line_(line), owned_(std::move(comm)), comm_(*owned_) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  bool poll(int from, int tag) override { return comm_.poll(from, tag); }
  void barrier() override {
    const Range range = noted("barrier");
    comm_.barrier();
  }
  std::unique_ptr<Comm> split(int color, int key) override {
    const Range range = noted("split");
    return std::make_unique<TracedComm>(node_, line_, comm_.split(color, key));
  }
  void send_bytes(int to, int tag, std::span<const std::byte> data, Traffic kind) override {
    const Range range = noted("send");
    comm_.send_bytes(to, tag, data, kind);
  }
  Envelope receive_bytes(int from, int tag, std::span<std::byte> data) override {
    const Range range = noted("receive");
    return comm_.receive_bytes(from, tag, data);
  }
  void exchange_bytes(int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                      Traffic kind) override {
    const Range range = noted("exchange");
    comm_.exchange_bytes(peer, tag, out, in, kind);
  }
  void all_reduce_raw(void* data, std::size_t count, Element element, ReduceOp op,
                      Traffic kind) override {
    const Range range = noted("all_reduce");
    comm_.all_reduce_raw(data, count, element, op, kind);
  }
  void broadcast_raw(void* data, std::size_t bytes, int root, Traffic kind) override {
    const Range range = noted("broadcast");
    comm_.broadcast_raw(data, bytes, root, kind);
  }
  void all_gather_raw(const void* mine, std::size_t bytes, void* all, Traffic kind) override {
    const Range range = noted("all_gather");
    comm_.all_gather_raw(mine, bytes, all, kind);
  }
  std::shared_ptr<const void> agree_raw(const void* mine, std::size_t bytes, const Maker& make,
                                        Traffic kind) override {
    const Range range = noted("agree");
    return comm_.agree_raw(mine, bytes, make, kind);
  }
  void reduce_scatter_raw(void* data, std::size_t count, Element element, ReduceOp op,
                          Traffic kind) override {
    const Range range = noted("reduce_scatter");
    comm_.reduce_scatter_raw(data, count, element, op, kind);
  }

 private:
  Range noted(const char* name) { return Range(node_, line_, "communicate", name); }

  const Node& node_;
  TraceLine& line_;
  std::unique_ptr<Comm> owned_;
  Comm& comm_;
};

class TracedPort final : public ServicePort {
 public:
  TracedPort(const Node& node, TraceLine& line, const std::string& service,
             std::shared_ptr<ServicePort> port)
      : node_(node), line_(line), name_("service " + service), port_(std::move(port)) {}

  void call_raw(std::span<const std::byte> request, std::span<const float> payload, Traffic kind,
                std::span<std::byte> reply, std::span<float> reply_payload) override {
    const Range range(node_, line_, "service", name_);
    port_->call_raw(request, payload, kind, reply, reply_payload);
  }

 private:
  const Node& node_;
  TraceLine& line_;
  const std::string name_;
  std::shared_ptr<ServicePort> port_;
};

class TracedNode final : public Node {
 public:
  TracedNode(Node& node, Trace& trace, const std::string& companion)
      : node_(node),
        trace_(trace),
        line_(trace.line(node.rank(), companion)),
        comm_(node_, line_, node.comm()) {}

  int rank() const override { return node_.rank(); }
  int size() const override { return node_.size(); }
  Seconds now() const override { return node_.now(); }
  Device& device() override { return node_.device(); }
  Comm& comm() override { return comm_; }
  Ledger& ledger() override { return node_.ledger(); }

  void compute(const Work& work, ComputeKind kind, FunctionRef fn) override {
    const Range range(node_, line_, "compute", name_of(kind));
    node_.compute(work, kind, fn);
  }
  bool compute_unless(Interrupt& interrupt, const Work& work, ComputeKind kind,
                      FunctionRef fn) override {
    const Range range(node_, line_, "compute", name_of(kind));
    return node_.compute_unless(interrupt, work, kind, fn);
  }
  std::unique_ptr<Interrupt> make_interrupt() override { return node_.make_interrupt(); }
  void sleep(Seconds duration) override {
    const Range range(node_, line_, "compute", "sleep");
    node_.sleep(duration);
  }

  void companion(std::string name, std::function<void(Node&)> fn) override {
    node_.companion(name, [&trace = trace_, name, fn = std::move(fn)](Node& node) {
      TracedNode traced(node, trace, name);
      fn(traced);
    });
  }
  std::unique_ptr<Monitor> make_monitor() override { return node_.make_monitor(); }

  std::shared_ptr<ServicePort> open_service(
      const std::string& name,
      const std::function<std::unique_ptr<ServiceHandler>()>& factory) override {
    return traced(name, node_.open_service(name, factory));
  }
  std::shared_ptr<ServicePort> open_portable_service(
      const std::string& name, const std::function<std::unique_ptr<ServiceHandler>()>& factory,
      const std::function<ServiceRecipe()>& recipe) override {
    return traced(name, node_.open_portable_service(name, factory, recipe));
  }

  void fence(FunctionRef fn) override {
    node_.fence([&] { evaluate(fn); });
  }
  void fence_together(FunctionRef fn) override {
    node_.fence_together([&] { evaluate(fn); });
  }

 private:
  static const char* name_of(ComputeKind kind) {
    return kind == ComputeKind::step ? "step" : "vector";
  }
  std::shared_ptr<ServicePort> traced(const std::string& name, std::shared_ptr<ServicePort> port) {
    return std::make_shared<TracedPort>(node_, line_, name, std::move(port));
  }
  // By whoever comes to it: rank 0 in a fence of all.
  void evaluate(FunctionRef fn) {
    const Range range(node_, line_, "off_clock", "evaluation");
    fn();
  }

  Node& node_;
  Trace& trace_;
  TraceLine& line_;
  TracedComm comm_;
};

}  // namespace

TraceLine& Trace::line(int rank, const std::string& companion) {
  const std::string name =
      "worker " + std::to_string(rank) + (companion.empty() ? "" : " " + companion);
  const std::lock_guard lock(mutex_);
  return lines_.emplace_back(TraceLine{rank, name, {}});
}

std::vector<const TraceLine*> Trace::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<const TraceLine*> all;
  for (const TraceLine& line : lines_) all.push_back(&line);
  std::sort(all.begin(), all.end(), [](const TraceLine* a, const TraceLine* b) {
    return a->rank != b->rank ? a->rank < b->rank : a->name < b->name;
  });
  return all;
}

bool trace_has_nvtx() {
#ifdef HETSGD_NVTX
  return true;
#else
  return false;
#endif
}

void with_traced_node(Node& node, Trace& trace, const std::function<void(Node&)>& fn) {
  TracedNode traced(node, trace, "");
  fn(traced);
}

}  // namespace hetsgd
