"""Makes completions for bash, zsh and fish of what a program prints for --help. Pure. mtrun prints its own."""
import re

from help_pages import parse_flags

EMPTY = '""'
PATHS = ("FILE", "FOLDER", "PACKED", "RUN", "SOURCE", "DEST", "DIR")


class Flag:
    """A flag as completions need it. `values`: what may follow; None: it is a switch; []: anything; "files"."""

    def __init__(self, spelling, text):
        found = re.match(r"(?:-(\w), )?--(\w[\w-]*) ?(.*)$", spelling)
        self.letter, self.name, value = found[1], found[2], re.sub(r"^\[=?(.*)\]$", r"\1", found[3])
        self.text = text
        words = [word.rstrip(".") for word in value.split("|")]
        choices = [word for word in words if re.fullmatch(r"[a-z0-9_]+", word)]
        if not value:
            self.values = None
        elif any(word.split("...")[0].rstrip(".") in PATHS for word in words):
            self.values = "files"
        else:
            self.values = choices


def flags_of(text):
    return [Flag(flag.spelling, flag.text) for flag in parse_flags(text)]


def _arms(flags):
    """Returns the arms of bash's case for the flags whose values are known."""
    for flag in flags:
        if flag.values == "files":
            yield f"      --{flag.name}) compopt -o default 2>/dev/null; return ;;"
        elif flag.values:
            yield f"      --{flag.name}) COMPREPLY=($(compgen -W \"{' '.join(flag.values)}\" -- \"$current\")); return ;;"
        elif flag.values is not None:
            yield f"      --{flag.name}) return ;;"


def bash(program, pages):
    """`pages`: {command: flags}, with "" for the program itself."""
    function = "_" + re.sub(r"\W", "_", program)
    commands = " ".join(name for name in pages if name)
    rows = [f"# bash completion for {program}, made from its --help", f"{function}() {{",
            "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags",
            "  # Bash splits words at '='.",
            "  [[ $current == \"=\" ]] && current=",
            "  [[ $before == \"=\" ]] && before=${COMP_WORDS[COMP_CWORD-2]}",
            "  [[ $before == --* ]] && before=--${before:2} && before=${before//-/_} && before=--${before:2}",
            "  COMPREPLY=()",
            f"  case \" {commands} \" in *\" $command \"*) ;; *) command= ;; esac",
            "  case $command in"]
    for name, flags in pages.items():
        names = " ".join("--" + flag.name for flag in flags)
        rows += [f"    {name or EMPTY})", f'      flags="{names}"', "      case $before in"]
        rows += ["  " + arm for arm in _arms(flags)]
        rows += ["      esac ;;"]
    first = f"COMPREPLY=($(compgen -W \"{commands}\" -- \"$current\"))" if commands else ""
    rows += ["  esac",
             "  if [[ $current == -* ]]; then",
             "    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))",
             "    ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -W \"${flags//_/-}\" -- \"$current\"))"]
    rows += [f"  elif ((COMP_CWORD == 1)); then\n    {first}"] if first else []
    rows += ["  else", "    compopt -o default 2>/dev/null", "  fi", "}", f"complete -F {function} {program}"]
    return "\n".join(rows) + "\n"


def zsh(program, pages):
    """zsh reads bash's completions by its own bashcompinit."""
    function = "_" + re.sub(r"\W", "_", program)
    body = bash(program, pages).replace(function + "()", function + "_of_bash()").replace(f"-F {function} ", f"-F {function}_of_bash ")
    return (f"#compdef {program}\nautoload -U +X bashcompinit && bashcompinit\n{body}"
            f"_bash_complete -F {function}_of_bash\n")


def _quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(program, pages):
    commands = [name for name in pages if name]
    rows = [f"# fish completion for {program}, made from its --help"]
    if commands:
        rows.append(f"complete -c {program} -n __fish_use_subcommand -f -a '{' '.join(commands)}'")
    for name, flags in pages.items():
        where = f" -n '__fish_seen_subcommand_from {name}'" if name else " -n __fish_use_subcommand" if commands else ""
        for flag in flags:
            takes = {None: " -f", "files": " -r -F"}.get(flag.values if not isinstance(flag.values, list) else "", None)
            if takes is None:
                takes = f" -x -a '{' '.join(flag.values)}'" if flag.values else " -x"
            letter = f" -s {flag.letter}" if flag.letter else ""
            rows.append(f"complete -c {program}{where} -l {flag.name}{letter}{takes} -d {_quoted(flag.text)}")
    return "\n".join(rows) + "\n"
