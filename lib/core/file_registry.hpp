// The files that one call of the program reads and writes. They are checked against each other
// before anything is loaded. So no input is ever replaced, no outputs of two options share a file,
// and nothing that exists is replaced without --overwrite. A path that cannot be written is found
// at once. Temporary files that dead processes have left beside the outputs are removed.
//
// Every subcommand declares its files with its options (OptionRefiner::reads_file, writes_file) and
// operands (Command::add_operands). No other code decides whether a file may be written. A file
// that the process has read before the check (its configuration, a plugin, a network) is an input,
// too: InputFile records it, whether or not it was declared.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/options.hpp"

namespace hetsgd {

// The files that the value of an option with a role names. An empty text names none.
std::vector<std::string> paths_of(const Option& option);

// Which file a path names, whatever its spelling: links, "./", hard links, /dev/fd/3. A file that
// does not exist yet is identified by the nearest folder that exists, and its path from there.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string rest;      // the part of the path that does not exist yet; "": the file exists
  bool shared = false;   // /dev/null: any number of outputs may go there
  bool regular = false;  // it exists and is a regular file

  static FileIdentity of(const std::string& path);
  // True if writing to one file changes the other.
  bool same_as(const FileIdentity& other) const;
};

// How to treat existing files, from the options --overwrite and --resume.
struct Replacing {
  bool overwrite = false;
  bool resume = false;      // the main output is continued, with all files that belong to it
  bool can_resume = false;  // the command has --resume; used for the hint
};

class FileRegistry {
 public:
  enum class Output { main, other, appended };  // appended: written after the existing content

  // Adds the files of every option with a role, under the name of what set it ("--trace",
  // "HETSGD_TRACE"). An empty text names no file.
  void add(const OptionSet& set);
  void add_input(const std::string& name, const std::string& path);
  // `what` names the content in messages, for example "the result".
  void add_output(const std::string& name, const std::string& path, const std::string& what,
                  Output kind = Output::other);
  // The same by the rules of an option (OptionFiles).
  void add_output(const std::string& name, const std::string& path, OptionFiles rules, Output kind);

  // After the check, an output that has no file yet does not replace one that another process makes
  // later (expect_no_file, core/output_file.hpp). Throws Error(usage) naming both options and the
  // file, or Error(data) if it would replace a file of another kind.
  void check(const Replacing& replacing) const;

 private:
  struct Entry {
    std::string name;
    std::string path;
    OptionFiles rules;
    Output kind;
    FileIdentity identity;
  };
  void check_apart(const Entry& output) const;
  static void check_kind(const Entry& output);
  void check_existing(const Entry& output, const Replacing& replacing) const;

  std::vector<Entry> inputs_, outputs_;
};

}  // namespace hetsgd
