// Parses XC-repository, libSVM and Criteo's text, and text of tokens, that lies in memory.
// load_dataset() is the usual way; this one is for tests, fuzzers and callers that have the bytes
// already.
//
// XC and libSVM text has lines `labels index:value index:value ...`:
//   XC      a header `points features labels` comes first; labels and indices count from 0 and stay
//           below the header's numbers; every following line is a row, also an empty one (surplus
//           empty lines at the end are not).
//   libSVM  no header; the label is an integer (-1/+1 or 0/1: binary; others: multiclass, one class
//           per distinct number) or a comma-separated list (multilabel, a label is its own index);
//           empty lines are skipped.
//   Criteo  see data/criteo.hpp
//   text    see data/text/read_text.hpp
// In XC and libSVM text, a line that begins with a blank has no labels. `#` starts a comment; a
// line with nothing else is skipped. Blanks are spaces, tabs and carriage returns. A row's entries
// may come in any order, none twice.
#pragma once

#include <string>
#include <string_view>

#include "data/load_options.hpp"

namespace hetsgd {

// Parses `bytes` as load_dataset() would parse a file with these bytes. `path` only names the place
// in messages, the data set and the report. Uses these of `options`: format, index_base, threads,
// text, and the demands of the training data. The bytes need no padding and no final newline.
// Throws Error(data).
LoadedData parse_text(std::string_view bytes, const std::string& path, const LoadOptions& options);

// The same without the adjustment to training data and without a content hash, as the cache keeps
// it.
ParsedData parse_text_alone(std::string_view bytes, const std::string& path,
                            const LoadOptions& options);

}  // namespace hetsgd
