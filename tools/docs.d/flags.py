"""flags.py BIN [--check]: writes docs/flags/*.md, the flags of each program from what it prints for --help. With --check it
writes nothing and exits with 1 where a page is not what it would write."""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import trainer_names  # noqa: E402
from help_pages import Help, parse_flags  # noqa: E402

TRAINERS = trainer_names.names()
FOLDER = os.path.join("docs", "flags")
NOTE = "<!-- Made by `tools/docs flags` from what the programs print for --help. -->"


def head(text):
    """Returns the text above the first group of flags."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if re.match(r"  (-\w, )?--\w", line)), len(lines))
    while first < len(lines) and not re.fullmatch(r"\S.*:", lines[first]):
        first -= 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines[:first])).strip()


def cell(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*").replace("~", "\\~")


def code(text):
    return f"`{text}`".replace("|", "\\|") if text else ""


def name_and_value(spelling):
    """Returns the flag and its value separately: the flag must not be broken, the value can be long."""
    found = re.fullmatch(r"(.*--\w+) (.+)", spelling)
    return f"{code(found[1])} {code(found[2])}" if found else code(spelling)


def by_group(flags):
    groups = {}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    return groups.items()


def table(flags):
    rows = (f"| {name_and_value(flag.spelling)} | {cell(flag.text)} | {code(flag.default)} |" for flag in flags)
    return "\n".join(["| flag | what it says | default |", "| --- | --- | --- |", *rows])


def program_page(helps, name):
    parts = [f"# All flags of {name}"]
    for page in helps.pages_of(name):
        text = helps.text(*page)
        parts += [f"## {name} {page[1]}"] if len(page) == 2 else []
        parts += [f"```\n{head(text)}\n```"]
        level = "#" * (len(page) + 1)
        parts += [f"{level} {group}\n{table(flags)}" for group, flags in by_group(parse_flags(text))]
    return "\n\n".join([*parts, NOTE]) + "\n"


def default_of(flags):
    """Returns the most frequent default of {trainer: Flag}, then the others by name."""
    values = {trainer: flag.default.replace(trainer, "NAME") for trainer, flag in flags.items()}
    common = max(values.values(), key=list(values.values()).count)
    others = [f"{trainer} {code(value) or 'none'}" for trainer, value in values.items() if value != common]
    return "; ".join([code(common) or "none"] + ([", ".join(others)] if others else [])) if others else code(common)


def trainers_page(texts):
    everything = {}  # (spelling, text) -> {trainer: Flag}
    for trainer, text in texts.items():
        for flag in parse_flags(text):
            everything.setdefault((flag.spelling, flag.text), {})[trainer] = flag
    common = {key: flags for key, flags in everything.items() if len(flags) == len(texts)}
    parts = ["# All flags of the trainers",
             ("First those that all trainers take. The default is that of most; a recipe that differs is named.\n"
              "[The trainers](../trainers.md) says what they are for.")]
    for group, flags in by_group([next(iter(flags.values())) for flags in common.values()]):
        rows = [f"| {name_and_value(flag.spelling)} | {cell(flag.text)} | {default_of(common[flag.spelling, flag.text])} |" for flag in flags]
        parts.append("\n".join([f"## {group}", "| flag | what it says | default |", "| --- | --- | --- |", *rows]))
    for trainer in texts:
        own = [flags[trainer] for key, flags in everything.items() if key not in common and trainer in flags]
        if own:
            parts.append(f"## Of {trainer}\n{table(own)}")
    return "\n\n".join([*parts, NOTE]) + "\n"


def main(argv):
    parser = argparse.ArgumentParser(prog="flags.py", description=__doc__)
    parser.add_argument("bin")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    programs = ("mtrun", "mtrdzv", "mtdata", "mtreport")
    missing = [name for name in programs + TRAINERS if not os.path.exists(os.path.join(args.bin, name))]
    if missing:
        sys.exit(f"tools/docs: {args.bin} lacks {', '.join(missing)}: cmake --preset release && cmake --build --preset release")
    helps = Help(args.bin, os.getcwd())
    pages = {name: program_page(helps, name) for name in programs}
    pages["trainers"] = trainers_page({name: helps.text(name) for name in TRAINERS})
    stale = []
    for name, text in pages.items():
        path = os.path.join(FOLDER, name + ".md")
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if old != text:
            stale.append(path)
            if not args.check:
                os.makedirs(FOLDER, exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    if args.check and stale:
        print(f"not what the programs print: {', '.join(stale)}; run tools/docs flags")
        return 1
    print(f"{len(pages)} pages: " + ("nothing has changed" if not stale else f"wrote {', '.join(stale)}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
