#include "data/dataset.hpp"

#include <utility>

namespace hetsgd {

namespace {

CsrRows<View> view_of(const CsrRows<Owned>& rows) { return {rows.begin, rows.index, rows.value}; }

}  // namespace

Dataset DatasetBuilder::build() && {
  const auto arrays = std::make_shared<const DataArrays<Owned>>(std::move(*this));
  Dataset data;
  static_cast<DatasetHeader&>(data) = std::move(*this);
  data.sparse = view_of(arrays->sparse);
  data.dense = {arrays->dense.columns, arrays->dense.value};
  data.fields = {arrays->fields.first, arrays->fields.category, arrays->fields.value};
  data.images = {arrays->images.channels, arrays->images.height, arrays->images.width,
                 arrays->images.pixel,    arrays->images.mean,   arrays->images.deviation};
  data.sequences = {arrays->sequences.numbers, arrays->sequences.begin, arrays->sequences.value};
  data.targets = view_of(arrays->targets);
  data.owner = arrays;
  data.drawn = std::move(drawn);
  return data;
}

void set_targets(Dataset& data, CsrRows<Owned> targets) {
  struct Owners {
    std::shared_ptr<const void> others;
    CsrRows<Owned> targets;
  };
  const auto owners = std::make_shared<const Owners>(Owners{data.owner, std::move(targets)});
  data.targets = view_of(owners->targets);
  data.owner = owners;
}

}  // namespace hetsgd
