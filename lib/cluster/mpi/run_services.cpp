// Services of a run: made by whoever opens one first, in the rank that runs them.
#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/mpi/run.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

using threads::ProcessKind;

namespace {

// So long the worker beside the services may take to open one that others have opened.
constexpr std::chrono::milliseconds kOpenPatience{200};

}  // namespace

bool Run::has_service(const std::string& name) const {
  return std::ranges::any_of(services_, [&](const auto& each) { return each->name() == name; });
}

void Run::make_service(const std::string& name,
                       const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  const std::lock_guard guard(services_mutex_);
  if (ended_ || has_service(name)) return;
  for (const auto& service : services_) {
    if (service_number(service->name()) == service_number(name)) {
      throw CheckFailure(fmt::format("services \"{}\" and \"{}\" have the same number: rename one",
                                     service->name(), name));
    }
  }
  auto service = std::make_shared<MpiService>(*transport_, name, factory(), ended_);
  for (const int rank : left_) service->left(rank);
  auto process = std::make_unique<Process>();
  process->name = service_name(name);
  process->kind = ProcessKind::service;
  world_.start(std::move(process), [this, service = service.get()](Process&) {
    threads::pin_to(placement_.cores);
    enter_thread();
    service->serve();
  });
  services_.push_back(service);
}

void Run::open_service(const std::string& name,
                       const std::function<std::unique_ptr<ServiceHandler>()>& factory,
                       const std::function<ServiceRecipe()>& recipe) {
  if (rank_ == host_) return make_service(name, factory);
  if (!recipe) {
    if (host_ < workers_) return;  // the worker there must open it
    throw CheckFailure(fmt::format(
        "{} is opened by rank {} and would run in rank {}, but its arguments do not travel",
        service_name(name), rank_, host_));
  }
  class ForAnswer final : public threads::Poll {
   public:
    ForAnswer(Coordinator& coordinator, const std::string& name)
        : coordinator_(coordinator), name_(name) {}
    bool done() override { return (wanted = coordinator_.take_wanted(name_)).has_value(); }
    void cancel() override {}
    std::string describe() const override { return "opens " + service_name(name_); }
    std::optional<bool> wanted;

   private:
    Coordinator& coordinator_;
    const std::string& name_;
  } answer(coordinator_, name);
  coordinator_.ask_for_service(host_, name);
  world_.poll_until(answer);
  if (!*answer.wanted) return;
  coordinator_.send_recipe(host_, name, recipe());
}

// Beside a worker it is most likely that this worker opens the same service.
void Run::opened(int from, const std::string& name) {
  const auto patience = host_ < workers_ ? kOpenPatience : std::chrono::milliseconds(0);
  {
    const std::lock_guard guard(services_mutex_);
    openers_.push_back({from, name, std::chrono::steady_clock::now() + patience});
  }
  answer_openers();
}

// Some are left.
bool Run::answer_openers() {
  const std::lock_guard guard(services_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(openers_, [&](const Opener& opener) {
    const bool exists = has_service(opener.name) || announced_.contains(opener.name);
    if (!exists && now < opener.until) return false;
    if (!exists) announced_.insert(opener.name);
    coordinator_.say_wanted(opener.rank, opener.name, !exists);
    return true;
  });
  return !openers_.empty();
}

void Run::make(const std::string& name, const ServiceRecipe& recipe) {
  make_service(name, [&] { return make_service_handler(recipe); });
}

void Run::left(int rank) {
  const std::lock_guard guard(services_mutex_);
  left_.push_back(rank);
  for (const auto& service : services_) service->left(rank);
}

}  // namespace hetsgd::mpi
