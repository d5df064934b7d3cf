#include "launcher/cli/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {
namespace {

bool IsPath(const Option& option) { return option.completes == kPath; }

bool IsSwitch(const SettingSpec& spec) { return spec.kind == SettingSpec::Kind::kBool; }

/// Returns the completions after a flag; "" for anything.
std::string Values(const Option& option) {
  return IsPath(option)             ? ""
         : option.completes.empty() ? absl::StrJoin(option.spec.choices, " ")
                                    : option.completes;
}

// Bash splits words at '=': --tee=3 arrives as three words.
constexpr char kBash[] = R"(# bash completion for mtrun, printed by `mtrun --print_completion bash`
_mtrun() {
  local current=${COMP_WORDS[COMP_CWORD]} flag= i=1 word
  local switches=" %SWITCHES% "
  local flags="%FLAGS%"
  COMPREPLY=()
  while ((i < COMP_CWORD)); do
    word=${COMP_WORDS[i]}
    [[ $word == --* ]] && word=${word:2} && word=--${word//-/_}
    if [[ $word != -* ]]; then
      compopt -o default 2>/dev/null
      return
    elif [[ ${COMP_WORDS[i + 1]} == "=" ]]; then
      flag=$word
      ((i += 3))
    elif [[ $switches == *" $word "* ]]; then
      ((i += 1))
    else
      flag=$word
      ((i += 2))
    fi
  done
  [[ $current == "=" ]] && current= && ((i = COMP_CWORD + 1))
  if ((i > COMP_CWORD)); then
    case $flag in
%CASES%
      *) return ;;
    esac
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -W "${flags//_/-}" -- "$current"))
  else
    compopt -o default 2>/dev/null
    COMPREPLY=($(compgen -c -- "$current"))
  fi
}
complete -F _mtrun mtrun
)";

std::string Bash() {
  std::vector<std::string> flags, switches, cases;
  for (const Option& option : OptionRows()) {
    const SettingSpec& spec = option.spec;
    const std::string flag = "--" + spec.name, letter = spec.letter != 0 ? std::string{'-', spec.letter} : "";
    flags.push_back(flag);
    if (IsSwitch(spec)) {
      switches.push_back(flag);
      if (!letter.empty()) switches.push_back(letter);
      continue;
    }
    const std::string pattern = letter.empty() ? flag : absl::StrCat(flag, " | ", letter);
    if (const std::string values = Values(option); !values.empty()) {
      cases.push_back(
          absl::StrCat("      ", pattern, ") COMPREPLY=($(compgen -W \"", values, "\" -- \"$current\")) ;;"));
    } else if (IsPath(option)) {
      cases.push_back(absl::StrCat("      ", pattern, ") compopt -o default 2>/dev/null ;;"));
    }
  }
  return absl::StrReplaceAll(kBash, {{"%SWITCHES%", absl::StrJoin(switches, " ")},
                                     {"%FLAGS%", absl::StrJoin(flags, " ")},
                                     {"%CASES%", absl::StrJoin(cases, "\n")}});
}

std::string Zsh() {
  std::string script =
      "#compdef mtrun\n# zsh completion for mtrun, printed by `mtrun --print_completion zsh`\n_arguments -S "
      "\\\n";
  for (const Option& option : OptionRows()) {
    const SettingSpec& spec = option.spec;
    const std::string help = absl::StrReplaceAll(
        spec.help, {{"'", ""}, {"[", "("}, {"]", ")"}, {":", "\\:"}, {"$", ""}, {"`", ""}});
    std::string value;
    if (!IsSwitch(spec)) {
      const std::string values = Values(option);
      value = absl::StrCat(":", spec.name, ":",
                           !values.empty()  ? absl::StrCat("(", values, ")")
                           : IsPath(option) ? "_files"
                                            : " ");
    }
    const char* const assign = IsSwitch(spec) ? "" : "=";
    absl::StrAppend(&script, "  '--", spec.name, assign, "[", help, "]", value, "' \\\n");
    if (spec.letter != 0)
      absl::StrAppend(&script, "  '-", std::string(1, spec.letter), IsSwitch(spec) ? "" : "+", "[", help, "]",
                      value, "' \\\n");
  }
  return absl::StrCat(script, "  '*::program and its arguments:_normal'\n");
}

// The flags of mtrun come before the program, whose own arguments complete as files.
constexpr char kFish[] = R"(# fish completion for mtrun, printed by `mtrun --print_completion fish`
function __mtrun_before_program
  set -l words (commandline -opc)
  set words $words[2..-1]
  while count $words >/dev/null
    switch $words[1]
      case '--*=*'
        set words $words[2..-1]
      case '-*'
        if contains -- (string replace -a - _ -- $words[1]) %SWITCHES%
          set words $words[2..-1]
        else
          set words $words[3..-1]
        end
      case '*'
        return 1
    end
  end
  return 0
end
)";

std::string Fish() {
  std::vector<std::string> switches;
  std::string lines;
  for (const Option& option : OptionRows()) {
    const SettingSpec& spec = option.spec;
    const std::string letter(spec.letter != 0 ? 1 : 0, spec.letter), values = Values(option);
    if (IsSwitch(spec)) switches.push_back("__" + spec.name);
    if (IsSwitch(spec) && !letter.empty()) switches.push_back("_" + letter);
    const std::string takes = !values.empty()  ? absl::StrCat(" -x -a '", values, "'")
                              : IsSwitch(spec) ? " -f"
                              : IsPath(option) ? " -r -F"
                                               : " -x";
    absl::StrAppend(&lines, "complete -c mtrun -n __mtrun_before_program -l ", spec.name,
                    letter.empty() ? "" : " -s ", letter, takes, " -d '",
                    absl::StrReplaceAll(spec.help, {{"\\", "\\\\"}, {"'", "\\'"}}), "'\n");
  }
  return absl::StrReplaceAll(kFish, {{"%SWITCHES%", absl::StrJoin(switches, " ")}}) + lines;
}

std::string Tcsh() {
  std::vector<std::string> flags, values;
  for (const Option& option : OptionRows()) {
    flags.push_back(option.spec.name);
    if (IsSwitch(option.spec)) continue;
    const std::string completes = IsPath(option)           ? "f"
                                  : Values(option).empty() ? "x:a value:"
                                                           : absl::StrCat("(", Values(option), ")");
    values.push_back(absl::StrCat("  'n/--", option.spec.name, "/", completes, "/' \\\n"));
  }
  return absl::StrCat("# tcsh completion for mtrun, printed by `mtrun --print_completion tcsh`\n",
                      "complete mtrun \\\n", absl::StrJoin(values, ""), "  'c/--/(",
                      absl::StrJoin(flags, " "), ")/' \\\n  'n/*/f/'\n");
}

}  // namespace

std::string CompletionScript(std::string_view shell) {
  return shell == "zsh" ? Zsh() : shell == "fish" ? Fish() : shell == "tcsh" ? Tcsh() : Bash();
}

}  // namespace mtrun::launcher
