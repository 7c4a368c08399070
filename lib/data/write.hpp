// Writes data sets as XC text, libSVM text, or in the binary .hsgd form, and click data as Criteo's
// text.
//
// All functions write to a temporary file that takes the name at the end, and throw Error(runtime)
// if that fails. The text holds the shortest decimal of every value, so that reading it gives the
// same bits.
#pragma once

#include <string>

#include "data/generate_ctr.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// write_xc and write_libsvm throw Error(usage) for click data and images, which have no sparse
// features.
//
// XC-repository text with its header. A binary data set gets two labels, 0 and 1, since the format
// has no other way to tell a negative row from one without labels.
void write_xc(const std::string& path, const Dataset& data);

// libSVM text with indices from `base` (zero or one; detect means one). Labels are the texts of
// `report` (LoadReport::label_names) or, without any, the label columns; binary: 0 and 1.
void write_libsvm(const std::string& path, const Dataset& data, const LoadReport& report,
                  IndexBase base = IndexBase::one);

// Criteo's text of one part of synthetic click data. It is made on up to `threads` threads and is
// never whole in memory. Throws Error(usage) for data without Criteo's columns. A data set cannot
// be written so, because its rare values are one category.
void write_criteo(const std::string& path, const ClickGenerator& clicks, DataPart part,
                  std::optional<int> threads);

// The binary form, which load_dataset() recognises and reads without parsing.
void save_dataset(const std::string& path, const Dataset& data, const LoadReport& report);

}  // namespace hetsgd
