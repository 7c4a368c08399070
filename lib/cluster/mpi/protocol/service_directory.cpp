#include "cluster/mpi/protocol/service_directory.hpp"

#include "cluster/mpi/protocol/messages.hpp"

namespace hetsgd::mpi {

// Without an attached host the three messages to it do nothing: its run has ended, and with it the
// services.
ServiceDirectory::ServiceDirectory(Control& control) : control_(control) {
  on_values(control_, kLeft,
            [this](int from) { host_.call([&](ServiceHost& host) { host.left(from); }); });
  on_values<std::string>(control_, kAskService, [this](int from, const std::string& name) {
    host_.call([&](ServiceHost& host) {
      const std::lock_guard guard(mutex_);
      const bool wanted = !host.has(name) && asked_for_.insert(name).second;
      send_values(control_, from, kServiceWanted, name, wanted);
    });
  });
  on_values<std::string, bool>(control_, kServiceWanted,
                               [this](int, const std::string& name, bool wanted) {
                                 const std::lock_guard guard(mutex_);
                                 wanted_[name].push_back(wanted);
                               });
  on_values<std::string, SerialisedFactory>(
      control_, kFactory, [this](int, const std::string& name, const SerialisedFactory& sent) {
        host_.call([&](ServiceHost& host) { host.make(name, sent); });
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
  send_values(control_, host, kAskService, name);
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
  send_values(control_, host, kFactory, name, factory);
}

void ServiceDirectory::worker_left(int host) { send_values(control_, host, kLeft); }

}  // namespace hetsgd::mpi
