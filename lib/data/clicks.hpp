// From click data, as a text or the generator gives them, to a data set with a vocabulary.
#pragma once

#include <string>

#include "data/fields.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// The data set of the clicks, with the vocabulary of options.vocabulary_of. If that is null, the
// vocabulary is made from these rows without the held-out ones. `path` names them in messages.
// Throws Error(data).
ParsedData with_vocabulary(RawClicks&& clicks, const std::string& path, const LoadOptions& options);

// The same with the vocabulary that these fields have.
ParsedData with_vocabulary(RawClicks&& clicks, const CategoricalFields<View>& fields,
                           const LoadOptions& options);

}  // namespace hetsgd
