// Writing data sets: as XC text, libSVM text, or the binary .hsgd form.
//
// All write to a temporary file that takes the name at the end, and throw Error(runtime) if that
// fails. The text holds the shortest decimal of every value, so that reading it gives the same
// bits.
#pragma once

#include <string>

#include "data/load.hpp"

namespace hetsgd {

// XC-repository text with its header. A binary data set gets two labels, 0 and 1, since the format
// has no other way to tell a negative row from one without labels.
void write_xc(const std::string& path, const Dataset& data);

// libSVM text with indices from `base` (zero or one; detect means one). Labels are the texts of
// `report` (LoadReport::label_names) or, without any, the label columns; binary: 0 and 1.
void write_libsvm(const std::string& path, const Dataset& data, const LoadReport& report,
                  IndexBase base = IndexBase::one);

// The binary form, which load_dataset() recognises and reads without parsing.
void save_dataset(const std::string& path, const Dataset& data, const LoadReport& report);

}  // namespace hetsgd
