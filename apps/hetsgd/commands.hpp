// The makers of all subcommands, each in the file of its name.
#pragma once

#include <memory>
#include <vector>

#include "command.hpp"

namespace hetsgd {

std::unique_ptr<Command> make_train();
std::unique_ptr<Command> make_tune();
std::unique_ptr<Command> make_sweep();
std::unique_ptr<Command> make_score();
std::unique_ptr<Command> make_rerun();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_validate();
std::unique_ptr<Command> make_data_info();
std::unique_ptr<Command> make_data_convert();
std::unique_ptr<Command> make_data_verify();
std::unique_ptr<Command> make_data_generate();
std::unique_ptr<Command> make_data_fetch();
std::unique_ptr<Command> make_algorithms();
std::unique_ptr<Command> make_models();
std::unique_ptr<Command> make_stragglers();
std::unique_ptr<Command> make_memory();
std::unique_ptr<Command> make_devices();
std::unique_ptr<Command> make_calibrate();
std::unique_ptr<Command> make_calibrate_network();
std::vector<std::unique_ptr<Command>> make_benches();  // one for each collective
std::unique_ptr<Command> make_bench_lookup();
std::unique_ptr<Command> make_doctor();
std::unique_ptr<Command> make_completion();

}  // namespace hetsgd
