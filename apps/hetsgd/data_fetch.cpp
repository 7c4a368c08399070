// hetsgd data fetch.
#include <fmt/format.h>

#include <filesystem>

#include "commands.hpp"
#include "core/limits.hpp"
#include "core/logging.hpp"
#include "core/text.hpp"
#include "data/fetch.hpp"

namespace hetsgd {
namespace {

class DataFetch final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "data fetch",
        .summary = "bring a data set here, checked; --train NAME then reads it",
        .examples = {"hetsgd data fetch a9a", "hetsgd data fetch amazon-670k --from ~/Downloads",
                     "HETSGD_DATASETS_DIR=/data hetsgd data fetch my-data.json"},
        .operands = fmt::format("{}|MANIFEST.json", fmt::join(manifest_names(), "|")),
        .minimum_operands = 1,
        .maximum_operands = 1};
  }
  void declare(OptionSet& set) override {
    set.add("from", options_.from,
            "take the files here, a file or a folder, and download nothing; repeat for several");
    set.add("overwrite", options_.overwrite, "fetch again what is here");
    set.add("threads", options_.threads, "reading threads; auto: all cores")
        .range(1, kMostHostThreads);
  }
  int run(OptionSet&, const std::vector<std::string>& operands) override {
    const Manifest manifest = read_manifest(operands[0]);
    if (std::filesystem::is_regular_file(operands[0])) options_.manifest = operands[0];
    for (const FetchedFile& file : fetch(manifest, options_)) {
      log_info("{}: {}, SHA-256 {}, from {}", file.path,
               format_bytes(static_cast<double>(file.bytes)), file.sha256, file.source);
    }
    return 0;
  }

 private:
  FetchOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_data_fetch() { return std::make_unique<DataFetch>(); }

}  // namespace hetsgd
