// What both calibrations share: where their model goes and what they show.
#pragma once

#include <string>

#include "result/table.hpp"

namespace hetsgd {

// The table of measured and predicted times and, below it, the model's source, for people.
void show_fit(const Table& table, const std::string& source);

// `what`: "profile" or "network", in the note that names the file.
void write_model(const std::string& model, const std::string& output, const char* what);

}  // namespace hetsgd
