// The files that one call of the program reads and writes, checked against each other before
// anything is loaded: no input is ever replaced, no two outputs share a file, nothing that exists is
// replaced without --overwrite, and what cannot be written is found at once.
//
// Every subcommand declares its files with its options (OptionRefiner::reads_file, writes_file) and
// operands (Command::add_operands); nobody else decides whether a file may be written. What the
// process has read before the check (its configuration, plugins, networks) is an input, too, by
// InputFile, whether or not anybody has declared it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace hetsgd {

struct Option;
class OptionSet;

// The files that the value of an option with a role names. An empty text names none.
std::vector<std::string> paths_of(const Option& option);

// Which file a path names, whatever its spelling: links, "./", hard links, /dev/fd/3. A file that
// does not exist yet is known by the nearest folder that does, and its path from there.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string rest;      // what does not exist yet; "": it exists
  bool shared = false;   // /dev/null: any number of outputs may go there
  bool regular = false;  // it exists and is a regular file

  static FileIdentity of(const std::string& path);
  // Writing the one changes the other.
  bool same_as(const FileIdentity& other) const;
};

// What may happen to files that are there already: the options --overwrite and --resume.
struct Replacing {
  bool overwrite = false;
  bool resume = false;      // the main output goes on where it stands, with all that belongs to it
  bool can_resume = false;  // the command has --resume: for the hint
};

class FileRegistry {
 public:
  enum class Output { main, other, appended };  // appended: goes on after what is there

  // Every option with a role, under the name of what set it ("--trace", "HETSGD_TRACE"). An empty
  // text names no file.
  void add(const OptionSet& set);
  void add_input(const std::string& name, const std::string& path);
  // `what`: "the result", in messages.
  void add_output(const std::string& name, const std::string& path, const std::string& what,
                  Output kind = Output::other);

  // Outputs that have no file yet will not replace one that another process makes later
  // (expect_no_file, core/output_file.hpp). Errors: usage, naming both options and the file.
  void check(const Replacing& replacing) const;

 private:
  struct Entry {
    std::string name;
    std::string path;
    std::string what;
    Output kind;
    FileIdentity identity;
  };
  void check_apart(const Entry& output) const;
  void check_existing(const Entry& output, const Replacing& replacing) const;

  std::vector<Entry> inputs_, outputs_;
};

}  // namespace hetsgd
