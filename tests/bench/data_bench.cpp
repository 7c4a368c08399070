// How fast text becomes a data set, in bytes of text per second, on one thread and on all.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "core/random.hpp"
#include "data/criteo.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "data/sampler.hpp"
#include "data/text_parser.hpp"

namespace hetsgd {
namespace {

constexpr std::size_t kTextBytes = std::size_t{64} << 20;

// 14 binary features of 123 per row, as in a9a: the shortest entries there are.
std::string binary_text() {
  std::string text;
  RandomStream random(1, Purpose::test);
  while (text.size() < kTextBytes) {
    text += random.uniform() < 0.24 ? "1" : "0";
    for (unsigned block = 0; block < 14; ++block) {
      text += fmt::format(" {}:1", 1 + block * 9 - block / 7 + random.below(8));
    }
    text += " \n";
  }
  return text;
}

// About 76 features of 135,909 per row with values of `digits` decimals, as in tf-idf text.
std::string real_text(int digits) {
  std::string text;
  RandomStream random(2, Purpose::test);
  while (text.size() < kTextBytes) {
    text +=
        fmt::format("{},{},{}", random.below(670091), random.below(670091), random.below(670091));
    std::set<std::uint64_t> features;
    for (int k = 0; k < 76; ++k) features.insert(random.below(135909));
    for (const std::uint64_t feature : features) {
      text += fmt::format(" {}:{:.{}f}", feature, random.uniform(), digits);
    }
    text += '\n';
  }
  return text;
}

void parse(benchmark::State& state, const std::string& text) {
  LoadOptions options;
  options.threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(parse_text_alone(text, "benchmark", options).data.sparse.index.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
}

void libsvm_binary(benchmark::State& state) {
  static const std::string text = binary_text();
  parse(state, text);
}
template <int digits>
void libsvm_digits(benchmark::State& state) {
  static const std::string text = real_text(digits);
  parse(state, text);
}
// One thread by processor time, bytes per core and second; two by wall time.
void add_text(const char* name, void (*run)(benchmark::State&)) {
  benchmark::RegisterBenchmark(name, run)->ArgName("threads")->Arg(1);
  benchmark::RegisterBenchmark(name, run)->ArgName("threads")->Arg(2)->UseRealTime();
}

// Rows of generated data per second.
void generate_amazon670k(benchmark::State& state) {
  const GeneratorOptions options = generator_preset("amazon670k", 0.02);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        generate_part(options, DataPart::train, static_cast<int>(state.range(0))).get());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(options.rows_train) * state.iterations());
}
BENCHMARK(generate_amazon670k)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

// Rows of click data per second, and bytes of Criteo's text: read alone, and with a vocabulary.
const ClickGenerator& clicks() {
  static const ClickGenerator generator(parse_click_spec("generate:criteo?scale=0.01"));
  return generator;
}
void generate_criteo(benchmark::State& state) {
  clicks();  // makes its teacher off the clock
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        clicks().part(DataPart::train, static_cast<int>(state.range(0))).value.data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(clicks().options().rows_train) *
                          state.iterations());
}
BENCHMARK(generate_criteo)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

const std::string& criteo_text() {
  static const std::string text = [] {
    std::string lines;
    ClickGenerator::Memory memory(clicks());
    for (std::uint64_t row = 0; lines.size() < kTextBytes; ++row) {
      append_criteo_line(clicks().row(row, memory).click, lines);
    }
    return lines;
  }();
  return text;
}
void criteo_read(benchmark::State& state) {
  criteo_text();  // off the clock
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        parse_criteo(criteo_text(), "benchmark", static_cast<int>(state.range(0))).value.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(criteo_text().size()) * state.iterations());
}
void criteo_with_vocabulary(benchmark::State& state) {
  LoadOptions options;
  options.threads = static_cast<int>(state.range(0));
  criteo_text();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        parse_text_alone(criteo_text(), "benchmark", options).data.fields.category.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(criteo_text().size()) * state.iterations());
}
[[maybe_unused]] const bool texts_added = [] {
  add_text("libsvm_binary", libsvm_binary);
  add_text("libsvm_6_digits", libsvm_digits<6>);
  add_text("libsvm_9_digits", libsvm_digits<9>);
  add_text("criteo_read", criteo_read);
  add_text("criteo_with_vocabulary", criteo_with_vocabulary);
  return true;
}();

// Samples per second that a sampler deals out.
void fill_batches(benchmark::State& state) {
  const Sampler sampler(generate(generator_preset("tiny")).train, {});
  Batch batch;
  std::uint64_t position = 0;
  for (auto _ : state) {
    sampler.fill(0, {position, 256}, batch);
    position += 256;
    benchmark::DoNotOptimize(batch.rows().data());
  }
  state.SetItemsProcessed(256 * state.iterations());
}
BENCHMARK(fill_batches);

}  // namespace
}  // namespace hetsgd
