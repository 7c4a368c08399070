#include "data/dataset.hpp"

#include <utility>

namespace hetsgd {

Dataset DatasetBuilder::build() && {
  const auto arrays = std::make_shared<const DataArrays<Owned>>(std::move(*this));
  Dataset data;
  static_cast<DatasetHeader&>(data) = std::move(*this);
  data.sparse = view_of(arrays->sparse);
  data.dense = {arrays->dense.columns, arrays->dense.value};
  data.fields = view_of(arrays->fields);
  data.images = view_of(arrays->images);
  data.sequences = {arrays->sequences.numbers, arrays->sequences.begin, arrays->sequences.value};
  data.tokens = view_of(arrays->tokens);
  data.targets = view_of(arrays->targets);
  data.owner = arrays;
  data.drawn = std::move(drawn);
  return data;
}

}  // namespace hetsgd
