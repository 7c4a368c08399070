// Services of a run: made by whoever opens one first, in the rank that runs them.
//
//    the worker beside the services opens it:   made at once
//    another rank opens it:                     kAskService to the host
//      it exists, or its factory is on its way: kServiceWanted(no)
//      else, when the patience is over:         kServiceWanted(yes), then kFactory, then made
//
// The host's openers_ hold those who wait. Making a service holds the mutex of services_, so two
// openers never make it twice.
#include <algorithm>

#include "cluster/blocking.hpp"
#include "cluster/mpi/run.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

// The worker beside the services may take so long to open one that others have opened.
constexpr std::chrono::milliseconds kOpenPatience{200};

}  // namespace

void Run::make_service(const std::string& name,
                       const std::function<std::unique_ptr<ServiceHandler>()>& factory) {
  // A factory that comes after the end has nobody to serve.
  if (ended_) return;
  // Names are tags: two names with one number would take each other's requests.
  services_.open(name, [&](const auto& others) {
    for (const auto& other : others) {
      if (service_number(other->name()) == service_number(name)) {
        throw CheckFailure(fmt::format(
            "services \"{}\" and \"{}\" have the same number: rename one", other->name(), name));
      }
    }
    auto service = std::make_shared<MpiService>(*transport_, name, factory(), ended_);
    // Its thread posts the first receive; requests that have come before wait in MPI.
    start_service(name, [this, service = service.get()](Process&) {
      enter_thread();
      service->serve();
    });
    return service;
  });
}

void Run::open_service(const std::string& name,
                       const std::function<std::unique_ptr<ServiceHandler>()>& factory,
                       const std::function<SerialisedFactory()>& serialised_factory) {
  if (rank_ == host_) return make_service(name, factory);
  if (!serialised_factory) {
    // The worker there must open it: a handler that cannot be sent can be made there alone.
    if (host_ < workers_) return;
    throw CheckFailure(fmt::format(
        "{} is opened by rank {} and would run in rank {}, but its arguments do not travel",
        service_name(name), rank_, host_));
  }
  // The answer comes on the channel's thread; the process polls, so that a pause or an abort
  // reaches it.
  class ForAnswer final : public Poll {
   public:
    ForAnswer(ServiceDirectory& directory, const std::string& name)
        : directory_(directory), name_(name) {}
    bool done() override { return (wanted = directory_.take_wanted(name_)).has_value(); }
    void cancel() override {}
    std::string describe() const override { return "opens " + service_name(name_); }
    std::optional<bool> wanted;

   private:
    ServiceDirectory& directory_;
    const std::string& name_;
  } answer(coordinator_.services(), name);
  coordinator_.services().ask(host_, name);
  poll_until(world_, answer);
  if (!*answer.wanted) return;
  coordinator_.services().send_factory(host_, name, serialised_factory());
}

// On the channel's thread. Beside a worker it is most likely that this worker opens the same
// service.
void Run::opened(int from, const std::string& name) {
  const auto patience = host_ < workers_ ? kOpenPatience : std::chrono::milliseconds(0);
  {
    const std::lock_guard guard(openers_mutex_);
    openers_.push_back({from, name, std::chrono::steady_clock::now() + patience});
  }
  answer_openers();
}

// On the channel's thread, at each of its looks. True: some are left.
bool Run::answer_openers() {
  const std::lock_guard guard(openers_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(openers_, [&](const PendingOpen& opener) {
    const bool exists = services_.has(opener.name) || announced_.contains(opener.name);
    if (!exists && now < opener.until) return false;
    // Only the first opener of a name is asked for its factory.
    if (!exists) announced_.insert(opener.name);
    coordinator_.services().say_wanted(opener.rank, opener.name, !exists);
    return true;
  });
  return !openers_.empty();
}

void Run::make(const std::string& name, const SerialisedFactory& serialised_factory) {
  make_service(name, [&] { return make_service_handler(serialised_factory); });
}

}  // namespace hetsgd::mpi
