// What the commands of `hetsgd bench` have in common: they time something several times, show a row
// for each size, and print the rows as a table or as JSON.
#pragma once

#include <string>
#include <vector>

#include "../command.hpp"
#include "../printer.hpp"

namespace hetsgd {

class BenchCommand : public Command {
 public:
  void declare(OptionSet& set) final;
  int run(OptionSet& set, const std::vector<std::string>& operands) final;

 protected:
  // iterations, warmup: the defaults of these options.
  BenchCommand(std::string name, int iterations, int warmup)
      : name_(std::move(name)), iterations_(iterations), warmup_(warmup) {}

  struct Report {
    std::vector<Row> rows{};
    std::string list;                  // the rows' key in the JSON
    nlohmann::json facts;              // what stands beside them there
    std::vector<std::string> notes{};  // for people: what the columns mean
    std::uint64_t wrong = 0;           // numbers; the exit code says whether there are some
    bool is_root = true;               // this process prints
  };
  virtual void declare_own(OptionSet& set) = 0;
  virtual Report measure() = 0;

  const std::string& name() const { return name_; }
  int iterations() const { return iterations_; }  // timed
  int warmup() const { return warmup_; }          // before them

 private:
  std::string name_;
  int iterations_, warmup_;
  Printer printer_;
};

}  // namespace hetsgd
