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

/// What may be completed after a flag; "" for anything.
std::string Values(const Option& option) {
  return IsPath(option)             ? ""
         : option.completes.empty() ? absl::StrJoin(option.spec.choices, " ")
                                    : option.completes;
}

// Bash cuts words at '=', so that --tee=3 arrives as three of them.
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

}  // namespace

std::string CompletionScript(std::string_view shell) { return shell == "zsh" ? Zsh() : Bash(); }

}  // namespace mtrun::launcher
