// The interface of an algorithm: a name, its options, and blocking code for one worker. One file
// per algorithm; each ends with one registration line. See README.md of this folder for the shape
// of a file.
//
// The life of an algorithm in a run (training/):
//
//   registered          before main(), or when a plugin is loaded
//     -> made           one object, which all workers of this process share
//     -> declare()      the command line, the environment and configuration files set its options
//     -> check(plan)    everything but the data is known
//     -> check_model()  the data and the model are known; the last call that may refuse
//     -> warnings(...)
//     -> worker(self)   once per worker, at the same time on all of them
//     -> remarks(...)   the run is over
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/worker.hpp"
#include "core/options.hpp"

namespace hetsgd {

// By the histogram's name: the count of each value.
using Histograms = std::map<std::string, std::map<std::int64_t, std::uint64_t>>;

// The part of the header block that `hetsgd algorithms` prints.
struct AlgorithmInfo {
  std::string name;             // --algorithm
  std::string title;            // for tables and plots
  std::string idea;             // two sentences
  std::string paper;            // paper, algorithm or equation
  std::string cost;             // messages and bytes per iteration
  std::string result;           // which model is measured
  std::string identities = "";  // what it equals in a limit (each is a test); empty: none known
  // Synchronous: all workers make the same sequence of running()/evaluate_here() calls, and these
  // agree call by call. Otherwise running() turns false for all workers at once, and each leaves at
  // its next call. So an asynchronous worker must not wait for one that may have left. The flag
  // also decides how the shared pool is dealt (BatchSource) and which worker measures: rank 0 while
  // all others wait, or the first worker that arrives.
  bool synchronous = true;
  // Lockstep: all workers make the same sequence of learning calls (gradient, learn, apply), so
  // that they may look up and update sharded tables together. Workers of other algorithms ask the
  // owners one by one.
  bool lockstep = false;
  int max_workers = 1 << 20;
  // Why no other optimizer than plain SGD makes sense, e.g. "has an update rule of its own"; empty:
  // all do.
  std::string plain_sgd_only = "";
  // Why its workers must compute on CPUs, and why they must live in one process, e.g. "keeps one
  // model in memory that all workers share"; empty: they need not.
  std::string cpu_only = "";
  std::string one_process_only = "";
  // The only values of --optimizer that it supports, without weight decay and clipping; empty: all.
  std::vector<std::string> optimizers_only = {};
  // Why the model must be an MLP with one hidden layer; empty: any model will do.
  std::string one_hidden_layer_only = "";
  // Options of every run whose default differs here, by key: {"optimizer", "adam"}.
  std::vector<std::pair<std::string, std::string>> defaults = {};
  // Why the embedding tables must be sharded, e.g. "exchanges rows of sharded tables"; empty: they
  // need not be.
  std::string sharded_tables_only = "";
  // Why the tables must not be sharded, e.g. "keeps its whole model in shared memory"; empty: they
  // may be.
  std::string replicated_tables_only = "";
  // The default learning rate is divided by the number of workers. For methods whose workers each
  // move one common model. Gradients that are computed at the same time then move it together as
  // far as their mean would.
  bool rate_over_workers = false;
  // One worker is a usual run, as of a method that uses all cores of one machine.
  bool works_alone = false;

  // Multiplies the default learning rate, which comes from the model or from `defaults`.
  double rate_factor(int workers) const { return rate_over_workers ? 1.0 / workers : 1; }
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  // Binds the object's members to the names of its options. Their values come later, when the
  // command line is read. So the object must not move, and nothing is computed from the values
  // here.
  virtual void declare(OptionSet& set) { static_cast<void>(set); }
  // Throws Error(usage) naming the option for an invalid plan, before anything is loaded.
  virtual void check(const Plan& plan) const { static_cast<void>(plan); }
  // Throws Error(usage) for an unfitting model of these options and data, before the run reports or
  // does anything. `rows` and `max_samples` of the plan are known.
  virtual void check_model(const Plan& plan, const Model& model) const {
    static_cast<void>(plan);
    static_cast<void>(model);
  }
  // Warnings that follow from the plan: settings that may work but are likely not to, one sentence
  // each. They become warnings of the result. Called once before the run, with the complete plan
  // and the layout of the model that will be trained.
  virtual std::vector<std::string> warnings(const Plan& plan, const Layout& layout) const {
    static_cast<void>(plan);
    static_cast<void>(layout);
    return {};
  }
  // Remarks on the method's own settings that the run's histograms (Worker::observe) suggest, such
  // as a bound that never acted; one sentence each. Called after the run.
  virtual std::vector<std::string> remarks(const Histograms& histograms) const {
    static_cast<void>(histograms);
    return {};
  }
  // Maximum number of model-sized vectors that a worker holds, for the estimate of a run's memory:
  // as a rule a replica, two global models and a gradient.
  virtual double model_vectors(const Plan& plan) const {
    static_cast<void>(plan);
    return 4;
  }
  // The whole life of one worker. Const and shared between workers: shared state goes through Comm
  // or a Service. In one process several workers run it at the same time. When the run fails or is
  // interrupted, blocking calls of Worker throw, and the exception must pass through: state lies in
  // objects with destructors, and nothing is caught.
  virtual void worker(Worker& self) const = 0;
};

// For check(): throws Error(usage) naming both options if `value` is above `most`, the other's.
void check_at_most(std::string_view option, std::uint64_t value, std::string_view other,
                   std::uint64_t most);

// Declares the options of an algorithm in a set that has those of every run, and gives the latter
// the algorithm's own defaults.
void declare_options(Algorithm& algorithm, const AlgorithmInfo& info, OptionSet& set);

struct RegisteredAlgorithm {
  AlgorithmInfo info;
  std::function<std::unique_ptr<Algorithm>()> make;
};

// Not thread-safe: call it before main(), or from a plugin before anything runs. It accepts a name
// that exists already; the loader of plugins checks for that (training/plugins.hpp). An algorithm's
// own file calls: `const bool registered = register_algorithm<Elastic>({...});`
bool register_algorithm_raw(RegisteredAlgorithm algorithm);
template <class A>
bool register_algorithm(AlgorithmInfo info) {
  return register_algorithm_raw({std::move(info), [] { return std::make_unique<A>(); }});
}

// All algorithms, sorted by name. Valid until the next registration.
const std::vector<RegisteredAlgorithm>& algorithms();
// Throws Error(usage) for an unknown name. The message says `where` the name was given and lists
// the known names, nearest spelling first.
const RegisteredAlgorithm& find_algorithm(const std::string& name,
                                          const std::string& where = "--algorithm");

}  // namespace hetsgd
