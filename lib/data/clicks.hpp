// From click data as they come, a text or the generator, to a data set with a vocabulary.
#pragma once

#include <string>

#include "data/fields.hpp"
#include "data/load.hpp"
#include "data/text_parser.hpp"

namespace hetsgd {

// The data set, with the vocabulary of options.vocabulary_of or, where that is null, of those of these
// rows that are not held out. `path` names them in messages. Throws Error(data).
ParsedData with_vocabulary(RawClicks&& clicks, const std::string& path, const LoadOptions& options);

// The part of generate:... (data/generate_ctr.hpp) that the options ask for. Without
// options.vocabulary_of, the test part has the training part's vocabulary too.
ParsedData generate_clicks(const std::string& spec, const LoadOptions& options);

}  // namespace hetsgd
