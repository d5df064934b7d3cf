// The text of --help, in one form for every program: purpose, synopsis, examples, notes, flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

/// A command that works as it is written, and its effect. tools/check_docs tries each.
struct HelpExample {
  std::string effect;   // "four workers on this machine"
  std::string command;  // "mtrun --standalone --nproc_per_node 4 train.py"
};

/// What --help shows above the flags. Lines have at most 80 columns.
struct HelpPage {
  std::string purpose;                     // a sentence: "Runs a program on one or more nodes."
  std::vector<std::string> usage;          // the synopsis, one form a line
  std::vector<HelpExample> examples = {};  // three, the most common first
  std::string notes = "";                  // lines below the examples
};

/// Wraps a text into lines of `width` bytes; those after the first begin with `indent` spaces.
std::string WrappedText(std::string_view text, size_t width, size_t indent);

/// Returns the page followed by `flags` (Settings::Help).
std::string HelpText(const HelpPage& page, std::string_view flags);

}  // namespace mtrun
