#include "cluster/trace/traced_service.hpp"

#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace hetsgd {
namespace {

class TracedHandler final : public ServiceHandler {
 public:
  TracedHandler(std::unique_ptr<ServiceHandler> handler, const std::string& name, Trace& trace)
      : handler_(std::move(handler)),
        trace_(trace),
        calls_(trace.service(name).calls),
        requests_(trace.handled(name)),
        label_(calls_.label({.category = "served", .kind = CallKind::served})) {
    handler_->set_clock([this] { return now(); });
  }

  void handle_raw(int from, std::span<const std::byte> request, std::span<const float> payload,
                  std::unique_ptr<ReplyToken> reply) override {
    const Seconds begin = begun_.value_or(now());
    begun_.reset();
    if (!trace_.is_set_up()) {
      ++requests_[from];
      return handler_->handle_raw(from, request, payload, std::move(reply));
    }
    const std::uint64_t mine = calls_.calls();
    const CallLog::Open call = calls_.open({.label = label_,
                                            .begin = begin,
                                            .end = begin,
                                            .bytes = request.size() + payload.size_bytes(),
                                            .number = requests_[from]++,
                                            .peer = from});
    handling_ = mine;
    handler_->handle_raw(from, request, payload,
                         std::make_unique<Token>(*this, mine, call, std::move(reply)));
    handling_.reset();
    call.cell->end = now();
  }
  // A simulated cluster asks for the work when it turns to a request.
  Work work_raw(std::span<const std::byte> request, std::size_t payload_count) const override {
    begun_ = now();
    return handler_->work_raw(request, payload_count);
  }
  void left(int rank) override { handler_->left(rank); }
  void fields(Archive& fields) override { handler_->fields(fields); }

 private:
  // Notes when the request `number` is answered, and during which one.
  class Token final : public ReplyToken {
   public:
    Token(TracedHandler& handler, std::uint64_t number, const CallLog::Open& call,
          std::unique_ptr<ReplyToken> token)
        : handler_(handler),
          calls_(handler.calls_),
          number_(number),
          call_(call),
          token_(std::move(token)) {}
    ~Token() override { calls_.close(call_); }
    void answer(std::span<const std::byte> reply, std::span<const float> payload,
                Traffic kind) override {
      CallPoint& answered = call_.cell->cause;
      // An answer at the end of a worker comes during no request, so it depends on its own alone.
      answered.calls = handler_.handling_.value_or(number_);
      answered.rank = 0;
      answered.time = handler_.now();
      token_->answer(reply, payload, kind);
    }

   private:
    TracedHandler& handler_;
    CallLog& calls_;  // a token that is never answered may be destroyed after the handler
    const std::uint64_t number_;
    const CallLog::Open call_;
    const std::unique_ptr<ReplyToken> token_;
  };

  const std::unique_ptr<ServiceHandler> handler_;
  const Trace& trace_;
  CallLog& calls_;
  std::map<int, std::uint64_t>& requests_;  // of each rank so far
  const std::uint32_t label_;
  mutable std::optional<Seconds> begun_;
  std::optional<std::uint64_t> handling_;
};

}  // namespace

ServiceFactory traced_factory(const ServiceFactory& factory, const std::string& service,
                              Trace& trace) {
  ServiceFactory traced = factory;
  traced.make = [make = factory.make, service, &trace] {
    return std::make_unique<TracedHandler>(make(), service, trace);
  };
  return traced;
}

}  // namespace hetsgd
