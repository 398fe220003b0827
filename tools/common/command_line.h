// The command line of every tool: CLI11 with the rules that all tools share (docs/contract.md,
// "general rules").
//
//     CommandLine cli("chorus-split", "Writes each member of a fused file as a file of its own.",
//                     "chorus-split trained.pt -o members/");
//     std::string folder;
//     cli.app.add_option("-o,--output", folder, "folder to write to")->required();
//     if (!cli.parse(args)) return 0;
//
// Rules: an option given twice is an error unless it is bound to a std::vector (then it is
// *repeatable* and each occurrence takes one value). `--verify[=N]` is `add_flag("--verify{1}",
// n)`: the value never comes from the next argument. Flags are bound to bool. "One value or K"
// options are bound to std::string and read by values.h, since K is known later. `--config
// RUN.json` gives any option by its long name, and positional ones by their lower-case name; what
// stands on the command line wins.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"

namespace chorus {

struct CommandLine {
  /// `examples`: whole command lines, one a line, printed at the end of --help.
  CommandLine(const std::string& name, const std::string& summary, const std::string& examples);

  /// Parses the arguments behind the program's name; to be called once, after all options are
  /// added. False: --help, --version or --print-config has answered and the tool is done. Throws
  /// Refused (usage) on every mistake.
  bool parse(const std::vector<std::string>& arguments);

  CLI::App app;
  bool json = false;  ///< --json: results on standard output for machines

 private:
  void addGeneralOptions();

  std::string log_level_ = "remark";
  bool print_config_ = false;
};

/// A check for `option->check(...)`: one of `names`, else an error with the nearest.
CLI::Validator oneOf(const std::vector<std::string>& names);
/// Decimal integers within bounds, for `transform`: CLI11 itself takes the nearest number that fits
/// for one that is out of range, and a leading 0 for octal.
CLI::Validator integerFrom(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
CLI::Validator seedNumber();

/// "0.1.0 (LibTorch 2.11.0)".
std::string versionText();

}  // namespace chorus
