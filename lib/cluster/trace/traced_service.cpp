#include "cluster/trace/traced_service.hpp"

#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace hetsgd {
namespace {

class TracedHandler final : public ServiceHandler {
 public:
  TracedHandler(std::unique_ptr<ServiceHandler> handler, TraceLine& line)
      : handler_(std::move(handler)), line_(line) {
    handler_->set_clock([this] { return now(); });
  }

  void handle_raw(int from, std::span<const std::byte> request, std::span<const float> payload,
                  std::unique_ptr<ReplyToken> reply) override {
    const std::size_t mine = line_.ranges.size();
    const Seconds begin = begun_.value_or(now());
    begun_.reset();
    TraceRange& range = line_.ranges.emplace_back();
    range.category = "served";
    range.begin = begin;
    range.bytes = request.size() + payload.size_bytes();
    range.place = {.kind = CallKind::served, .number = requests_[from]++, .peer = from};
    handling_ = mine;
    handler_->handle_raw(from, request, payload,
                         std::make_unique<Token>(*this, mine, std::move(reply)));
    handling_.reset();
    line_.ranges[mine].end = now();
  }
  // A simulated cluster asks for the work when it turns to a request.
  Work work_raw(std::span<const std::byte> request, std::size_t payload_count) const override {
    begun_ = now();
    return handler_->work_raw(request, payload_count);
  }
  void left(int rank) override { handler_->left(rank); }

 private:
  // Notes when the request `number` is answered, and during which one.
  class Token final : public ReplyToken {
   public:
    Token(TracedHandler& handler, std::size_t number, std::unique_ptr<ReplyToken> token)
        : handler_(handler), number_(number), token_(std::move(token)) {}
    void answer(std::span<const std::byte> reply, std::span<const float> payload,
                Traffic kind) override {
      CallPoint& answered = handler_.line_.ranges[number_].cause;
      // An answer at the end of a worker comes during no request, so it depends on its own alone.
      answered.calls = handler_.handling_.value_or(number_);
      answered.rank = 0;
      answered.time = handler_.now();
      token_->answer(reply, payload, kind);
    }

   private:
    TracedHandler& handler_;
    const std::size_t number_;
    const std::unique_ptr<ReplyToken> token_;
  };

  const std::unique_ptr<ServiceHandler> handler_;
  TraceLine& line_;
  std::map<int, std::uint64_t> requests_;  // of each rank so far
  mutable std::optional<Seconds> begun_;
  std::optional<std::size_t> handling_;
};

}  // namespace

ServiceFactory traced_factory(const ServiceFactory& factory, const std::string& service,
                              Trace& trace) {
  ServiceFactory traced = factory;
  traced.make = [make = factory.make, service, &trace] {
    return std::make_unique<TracedHandler>(make(), trace.service(service));
  };
  return traced;
}

}  // namespace hetsgd
