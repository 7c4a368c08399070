#include "training/run_data.hpp"

#include <chrono>
#include <utility>

#include "data/select.hpp"

namespace hetsgd {

namespace {

RunData load(const TrainOptions& options) {
  LoadOptions load;
  load.format = options.format;
  load.index_base = options.index_base;
  load.cache = options.cache ? CacheMode::use : CacheMode::off;
  load.cache_directory = options.cache_directory;
  if (!options.test.empty()) {
    LoadedPair pair = load_pair(options.train, options.test, load);
    return {std::move(pair.train), std::move(pair.test), {}};
  }
  LoadedData train = load_dataset(options.train, load);
  if (options.validation > 0) {
    LoadedPair pair = hold_out(train, options.validation);
    return {std::move(pair.train), std::move(pair.test), {}};
  }
  return {train, train, {"no --test: metrics are measured on the training data"}};
}

}  // namespace

RunData load_run_data(const TrainOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RunData data = load(options);
  data.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return data;
}

}  // namespace hetsgd
