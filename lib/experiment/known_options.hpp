// The options of all algorithms and models, for those who read settings before, or without,
// choosing one: which keys are known at all, and whose they are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/options.hpp"

namespace hetsgd {

// The `config` of a configuration file: the document itself, or that of a result. Errors: data,
// usage.
nlohmann::json load_config(const std::string& path);

// Options of an algorithm or a model but not of every run.
struct ForeignOption {
  std::string owner;
  Option option;  // for its declaration: the value's owner is gone
};
std::vector<ForeignOption> options_of_all_algorithms();
std::vector<ForeignOption> options_of_all_models();
// Whose option it is (its flag or its key), "adaptive, elastic"; "": nobody's.
std::string owners_of(const std::vector<ForeignOption>& all, const std::string& option);
// A key of a configuration file that is no option of `set`: the error, with the nearest one.
Error unknown_key(const OptionSet& set, const std::string& key, const std::string& place);

}  // namespace hetsgd
