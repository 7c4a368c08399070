// A model's parameters as one vector, and as a file of raw little-endian float32 for references
// outside (--dump-parameters, tests/reference).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "table/shard.hpp"

namespace hetsgd {

// rows: those of sharded tables, which come first, as in a replica's vector; null: the tables are
// among the parameters.
std::vector<float> whole_model(std::span<const float> parameters, const RowSource* rows);

// what: names the file in messages. Errors: those of writing a file.
void write_parameters(const std::string& path, std::span<const float> parameters, const char* what);

}  // namespace hetsgd
