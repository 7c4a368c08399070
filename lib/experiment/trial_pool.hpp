// Trials carried out side by side, each by a process of its own (worker_pool.hpp) which writes its
// result into a folder that goes with the pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiment/configured_run.hpp"
#include "experiment/worker_pool.hpp"
#include "training/run_data.hpp"

namespace hetsgd {

struct EndedTrial {
  std::size_t tag = 0;
  nlohmann::json result;  // as `hetsgd train` writes it
  double wall_s = 0;
};

class TrialPool {
 public:
  // `data` has been read; the processes share its pages. `jobs`: how many run at once, which share
  // the cores. Errors: runtime (no folder can be made).
  TrialPool(DataCache& data, int jobs);
  ~TrialPool();  // kills what still runs
  TrialPool(const TrialPool&) = delete;
  TrialPool& operator=(const TrialPool&) = delete;

  bool has_room() const { return pool_.running() < static_cast<std::size_t>(jobs_); }
  std::size_t running() const { return pool_.running(); }
  // `signal`: as TrainHooks has it, in the process. Errors: runtime (no process can be made).
  void start(std::size_t tag, const std::shared_ptr<ConfiguredRun>& run,
             const std::atomic<int>* signal);
  // The next that has ended, waiting so long at most. None: none has. Errors: what kept a
  // run from beginning, as its process said it; runtime, a process that died.
  std::optional<EndedTrial> wait(Seconds most);
  // Ends all, in whatever state they are.
  void stop() { pool_.stop(); }

 private:
  std::string file(std::size_t tag, const char* ending) const;

  DataCache& data_;
  int jobs_;
  std::string folder_;
  WorkerPool pool_;
};

}  // namespace hetsgd
