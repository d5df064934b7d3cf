"""flags.py BIN [--check]: writes docs/flags/*.md, the flags of each program from what it prints for --help. With --check it
writes nothing and exits with 1 where a page is not what it would write."""
import argparse
import os
import re
import subprocess
import sys

TRAINERS = ("cnnA", "cnnB", "vit", "resnet18", "diffusion")
FOLDER = os.path.join("docs", "flags")
INDENT = " " * 30  # what continues the text of a flag
NOTE = "<!-- Made by `tools/docs flags` from what the programs print for --help. -->"


class Flag:
    def __init__(self, group, spelling, text):
        self.group, self.spelling = group, spelling
        # A default that depends on the machine is told in words.
        found = None if "(default: " in text else re.search(r" \[([^\[\]]*)\]$", text)
        self.default = found[1] if found else ""
        self.text = text[:found.start()] if found else re.sub(r"(\(default: .*) \[\d+\]$", r"\1", text)


def parse_flags(text):
    """What Settings::Help of base/settings.cc writes: groups, flags, texts wrapped at a fixed column."""
    flags, group, rows = [], "", []
    for line in text.split("\n"):
        if line.startswith(INDENT) and rows:
            rows[-1][2] += " " + line.strip()
        elif re.match(r"  (-\w, )?--\w", line):
            spelling, _, rest = line.strip().partition("  ")
            rows.append([group, spelling, rest.strip()])
        elif re.fullmatch(r"\S.*:", line):
            group = line[:-1]
    flags = [Flag(*row[:2], row[2].strip()) for row in rows]
    return flags


def head(text):
    """What stands above the first group of flags."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if re.match(r"  (-\w, )?--\w", line))
    while not re.fullmatch(r"\S.*:", lines[first]):
        first -= 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines[:first])).strip()


def cell(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*").replace("~", "\\~")


def code(text):
    return f"`{text}`".replace("|", "\\|") if text else ""


def name_and_value(spelling):
    """The flag, and what it takes, each by itself: the one is not to be broken, the other may be long."""
    found = re.fullmatch(r"(.*--\w+) (\S+)", spelling)
    return f"{code(found[1])} {code(found[2])}" if found else code(spelling)


def by_group(flags):
    groups = {}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    return groups.items()


def table(flags):
    rows = (f"| {name_and_value(flag.spelling)} | {cell(flag.text)} | {code(flag.default)} |" for flag in flags)
    return "\n".join(["| flag | what it says | default |", "| --- | --- | --- |", *rows])


def title(group):
    name = group.removeprefix("flags of ")
    return name[0].upper() + name[1:]


def program_page(name, text):
    parts = [f"# All flags of {name}", f"```\n{head(text)}\n```"]
    parts += [f"## {title(group)}\n{table(flags)}" for group, flags in by_group(parse_flags(text))]
    return "\n\n".join([*parts, NOTE]) + "\n"


def default_of(flags):
    """{trainer: Flag} of one flag -> the default of most, then those that differ by name."""
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
             "First those that all trainers take. The default is that of most; a recipe that differs is named.\n"
             "[The trainers](../trainers.md) says what they are for."]
    for group, flags in by_group([next(iter(flags.values())) for flags in common.values()]):
        rows = [f"| {name_and_value(flag.spelling)} | {cell(flag.text)} | {default_of(common[flag.spelling, flag.text])} |" for flag in flags]
        parts.append("\n".join([f"## {title(group)}", "| flag | what it says | default |", "| --- | --- | --- |", *rows]))
    for trainer in texts:
        own = [flags[trainer] for key, flags in everything.items() if key not in common and trainer in flags]
        if own:
            parts.append(f"## Of {trainer}\n{table(own)}")
    return "\n\n".join([*parts, NOTE]) + "\n"


def help_of(path):
    done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"tools/docs: {path} --help ended with {done.returncode}: {done.stderr}")
    return done.stdout


def main(argv):
    parser = argparse.ArgumentParser(prog="flags.py", description=__doc__)
    parser.add_argument("bin")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    programs = ("mtrun", "mtrdzv", "mtdata", "mtreport")
    missing = [name for name in programs + TRAINERS if not os.path.exists(os.path.join(args.bin, name))]
    if missing:
        sys.exit(f"tools/docs: {args.bin} lacks {', '.join(missing)}: cmake --preset release && cmake --build --preset release")
    texts = {name: help_of(os.path.join(args.bin, name)) for name in programs + TRAINERS}
    pages = {name: program_page(name, texts[name]) for name in programs}
    pages["trainers"] = trainers_page({name: texts[name] for name in TRAINERS})
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
