// The readers of small texts that people write by hand: JSON files and specifications. The first
// byte chooses the reader. Property: any text is taken or refused with an Error; a failed check or
// any other exception is a bug and ends the fuzzer.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/profile.hpp"
#include "cluster/straggler.hpp"
#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/non_copyable.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "data/generate.hpp"
#include "experiment/search_space.hpp"
#include "experiment/spec_file.hpp"
#include "experiment/tuning.hpp"
#include "graph/graph_file.hpp"
#include "graph/work.hpp"
#include "result/validate.hpp"
#include "training/record.hpp"

namespace hetsgd {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A file of this content, by a path that readers open.
class TextFile : NonCopyable {
 public:
  explicit TextFile(const std::string& text)
      : file_(memfd_create("fuzz", MFD_CLOEXEC)), path_(fmt::format("/proc/self/fd/{}", file_)) {
    require(write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~TextFile() { close(file_); }
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

enum class Mode { first, second };

// One option of each kind, from a configuration and back.
void read_configuration(const std::string& text) {
  bool flag = false;
  int integer = 4;
  std::uint64_t count = 256;
  double number = 0.1;
  Seconds time{90};
  std::string word;
  Mode mode = Mode::first;
  std::vector<double> numbers;
  std::vector<std::uint64_t> counts;
  std::vector<std::string> words;
  OptionSet set;
  set.add("flag", flag, "");
  set.add("integer", integer, "").range(0, 1000);
  set.add("count", count, "").range(1, 1e12);
  set.add("number", number, "").range(0, 1);
  set.add("time", time, "").above(0);
  set.add("word", word, "");
  set.add_choice("mode", mode, {{"first", Mode::first}, {"second", Mode::second}}, "");
  set.add("numbers", numbers, "").above(0);
  set.add("counts", counts, "").at_least(1);
  set.add("words", words, "");
  const TextFile file(text);
  const nlohmann::json document = read_json(file.path());
  if (!document.is_object()) return;
  for (const auto& [key, value] : document.items()) {
    if (set.find(key) == nullptr) {
      did_you_mean(key, std::vector<std::string>{"integer", "number"});
      continue;
    }
    try {
      set.set_json(key, value, OptionSource::config_file, "c.json: " + key);
    } catch (const Error&) {
      continue;
    }
    const nlohmann::json once = set.find(key)->to_json();
    set.set_json(key, once, OptionSource::config_file, key);
    require(set.find(key)->to_json() == once);
  }
  require(integer >= 0 && integer <= 1000 && count >= 1 && number >= 0 && number <= 1);
}

// A scenario yields valid times, and the specifications that it accepted can be read again.
void read_stragglers(const std::vector<std::string>& specifications) {
  const Scenario scenario(specifications, 4, 1);
  for (const double start_s : {0.0, 1.5, 1e6, 1e15}) {
    for (const int rank : {0, 3}) {
      const Seconds took = scenario.stretched(rank, 7, Seconds(start_s), Seconds(1e-3));
      require(std::isfinite(took.count()) && took >= Seconds(1e-3));
    }
  }
}

void read_stragglers(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string_view line : split(text, '\n')) {
    // Files have a fuzzer of their own.
    if (line.find("file") == std::string_view::npos) all.emplace_back(line);
  }
  read_stragglers(all);
  const Scenario scenario(all, 4, 1);
  const Scenario again(scenario.specifications(), 4, 1);
  require(again.specifications() == scenario.specifications());
}

void read_straggler_trace(const std::string& text) {
  const TextFile file(text);
  read_stragglers({"kind=trace,file=" + file.path()});
}

void read_profile(const std::string& text) {
  const TextFile file(text);
  const DeviceProfile profile = load_device_profile(file.path());
  const Seconds cost =
      profile.seconds({.operations = 1e15, .bytes = 1e15, .launches = 1e3, .learners = 3});
  require(std::isfinite(cost.count()) && cost >= Seconds(0));
}

void read_network(const std::string& text) {
  const TextFile file(text);
  const NetworkModel network = load_network_model(file.path());
  for (const int p : {1, 2, 3, 1000}) {
    require(std::isfinite(network.all_reduce_cost(p, 1e12).count()));
    require(std::isfinite(network.broadcast_cost(p, 1e12).count()));
  }
}

void read_graph_file(const std::string& text) {
  const Graph graph = parse_graph("graph", text);
  require(std::isfinite(multiply_adds(graph)));
  require(graph.parameters() >= 0);
  require(parse_graph("graph", to_json_text(graph)) == graph);
}

void read_result_file(const std::string& text) {
  const TextFile file(text);
  read_result(file.path());
}

void read_tuned_file(const std::string& text) {
  const TextFile file(text);
  read_tuned(file.path(), "sgd");
}

// A specification's file must be called so.
const std::string& toml_link(const std::string& target) {
  static const std::string link = [&] {
    char folder[] = "/tmp/text_fuzz_XXXXXX";
    require(mkdtemp(folder) != nullptr);
    return std::string(folder) + "/s.toml";
  }();
  unlink(link.c_str());
  require(symlink(target.c_str(), link.c_str()) == 0);
  return link;
}

void read_specification(const std::string& text) {
  const TextFile content(text);
  const SearchSpace space =
      read_search_space(JsonFields(read_spec_file(toml_link(content.path()))));
  require(space.size() >= 1);
  for (const Setting& setting : space.point(0)) require(!setting.name.empty());
}

void read_words(const std::string& text) {
  const std::vector<std::function<void()>> readers = {
      [&] { parse_grid(text, "--grid"); },
      [&] { parse_goal(text, "--goal"); },
      [&] { parse_target(text, "--target"); },
      [&] { parse_rank_set("workers", text, 9); },
      [&] { parse_seconds("time", text); },
      [&] { parse_count("count", text); },
      [&] { parse_bytes("bytes", text); },
      [&] { parse_doubles("numbers", text, 0, 1); },
      [&] { parse_generator_spec("generate:" + text); }};
  for (const auto& reader : readers) {
    try {
      reader();
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace hetsgd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const std::vector<std::function<void(const std::string&)>> readers = {
      hetsgd::read_configuration,   [](const std::string& text) { hetsgd::read_stragglers(text); },
      hetsgd::read_straggler_trace, hetsgd::read_profile,
      hetsgd::read_network,         hetsgd::read_result_file,
      hetsgd::read_tuned_file,      hetsgd::read_words,
      hetsgd::read_specification,   hetsgd::read_graph_file};
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    // '0' is the first: so the corpus can be read.
    readers[static_cast<unsigned char>(bytes[0] - '0') % readers.size()](text);
  } catch (const hetsgd::Error&) {
  }
  return 0;
}
