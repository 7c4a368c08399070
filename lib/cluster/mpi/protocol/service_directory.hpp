// ServiceDirectory: services that one rank opens and another, their host, runs.
//
//   opener                                 host
//   ask(name)    --- kAskService(name) -->  is the service there, or its serialised factory on its
//                                           way?
//   take_wanted <--- kServiceWanted ------    yes: false to the opener
//                                             no:  true to the first opener
//   send_factory --- kFactory ----------->  make(), unless the host's own worker has opened it
//
// One opener alone is asked for its serialised factory, which may hold much (a model's parameters):
// all others know that somebody else has sent it. An opener does not wait for the service to exist,
// as a request that comes before it waits in the host's MPI library.
//
// Every worker that ends tells the host, so that services know which workers are left. These
// messages carry no epoch: outside of a run they reach nobody and are dropped.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cluster/mpi/protocol/messages.hpp"
#include "cluster/process_group.hpp"
#include "cluster/serialised_factory.hpp"

namespace hetsgd::mpi {

// The rank where services are. Called by the thread of the Control, so none of these may block for
// long.
class ServiceHost {
 public:
  // The worker of `rank` has ended.
  virtual void left(int rank) = 0;
  // The service exists.
  virtual bool has(const std::string& name) const = 0;
  // Makes the service, unless it exists already. Throws what make_service_handler() throws.
  virtual void make(const std::string& name, const SerialisedFactory& serialised_factory) = 0;

 protected:
  ~ServiceHost() = default;
};

class ServiceDirectory {
 public:
  explicit ServiceDirectory(Control& control);

  // A run begins: messages go to `host`, which the caller owns, and old names are forgotten.
  // Null: the run has ended, and nobody acts on the last host any more.
  void attach(ServiceHost* host);

  // The calls of an opener. Any thread; `host` is the rank that runs the services. ask() is
  // followed by polling take_wanted(), and that by send_factory() where it is true.
  void ask(int host, const std::string& name);
  // Whether the host wants the factory from this rank; empty: no answer has come yet.
  std::optional<bool> take_wanted(const std::string& name);
  void send_factory(int host, const std::string& name, const SerialisedFactory& serialised_factory);
  // Called by every worker when it ends.
  void worker_left(int host);

 private:
  Control& control_;
  Attached<ServiceHost> host_;
  // Guards the rest.
  std::mutex mutex_;
  // On the host: services whose serialised factory an opener was asked for.
  std::set<std::string> asked_for_;
  // Answers by service, each for one ask(): several threads of a rank may open services of one
  // name.
  std::map<std::string, std::deque<bool>> wanted_;
};

}  // namespace hetsgd::mpi
