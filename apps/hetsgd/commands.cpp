#include "commands.hpp"

#include <utility>

namespace hetsgd {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : {make_train,
                          make_tune,
                          make_sweep,
                          make_score,
                          make_compare,
                          make_report,
                          make_validate,
                          make_rerun,
                          make_data_info,
                          make_data_convert,
                          make_data_generate,
                          make_data_fetch,
                          make_data_verify,
                          make_algorithms,
                          make_models,
                          make_stragglers,
                          make_memory,
                          make_devices,
                          make_calibrate_network,
                          make_calibrate}) {
    commands.push_back(make());
  }
  for (auto& bench : make_benches()) commands.push_back(std::move(bench));
  commands.push_back(make_bench_lookup());
  commands.push_back(make_doctor());
  commands.push_back(make_completion());
  return commands;
}

}  // namespace hetsgd
