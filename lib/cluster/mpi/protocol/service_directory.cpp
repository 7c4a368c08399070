#include "cluster/mpi/protocol/service_directory.hpp"

#include "cluster/mpi/protocol/messages.hpp"

namespace hetsgd::mpi {

namespace {

struct Wanted {
  std::string name{};
  bool wanted = false;

  static constexpr auto members() { return std::tuple(&Wanted::name, &Wanted::wanted); }
};

struct NamedFactory {
  std::string name{};
  SerialisedFactory factory{};

  static constexpr auto members() {
    return std::tuple(&NamedFactory::name, &NamedFactory::factory);
  }
};

}  // namespace

// Without an attached host the three messages to it do nothing: its run has ended, and with it the
// services.
ServiceDirectory::ServiceDirectory(Control& control) : control_(control) {
  on_value<int>(control_, kLeft,
                [this](int from, int) { host_.call([&](ServiceHost& host) { host.left(from); }); });
  on_value<std::string>(control_, kAskService, [this](int from, const std::string& name) {
    host_.call([&](ServiceHost& host) {
      const std::lock_guard guard(mutex_);
      const bool wanted = !host.has(name) && asked_for_.insert(name).second;
      send_value(control_, from, kServiceWanted, Wanted{name, wanted});
    });
  });
  on_value<Wanted>(control_, kServiceWanted, [this](int, const Wanted& answer) {
    const std::lock_guard guard(mutex_);
    wanted_[answer.name].push_back(answer.wanted);
  });
  on_value<NamedFactory>(control_, kFactory, [this](int, const NamedFactory& sent) {
    host_.call([&](ServiceHost& host) { host.make(sent.name, sent.factory); });
  });
}

// Attaching a new host drops the names of the last run; each may be used anew.
void ServiceDirectory::attach(ServiceHost* host) {
  host_.attach(host);
  if (!host) return;
  const std::lock_guard guard(mutex_);
  wanted_.clear();
  asked_for_.clear();
}

void ServiceDirectory::ask(int host, const std::string& name) {
  send_value(control_, host, kAskService, name);
}

// Several threads of a rank may open services of one name, and each gets an answer of its own.
std::optional<bool> ServiceDirectory::take_wanted(const std::string& name) {
  const std::lock_guard guard(mutex_);
  const auto found = wanted_.find(name);
  if (found == wanted_.end() || found->second.empty()) return std::nullopt;
  const bool wanted = found->second.front();
  found->second.pop_front();
  return wanted;
}

void ServiceDirectory::send_factory(int host, const std::string& name,
                                    const SerialisedFactory& factory) {
  send_value(control_, host, kFactory, NamedFactory{name, factory});
}

void ServiceDirectory::worker_left(int host) { send_value(control_, host, kLeft, 0); }

}  // namespace hetsgd::mpi
