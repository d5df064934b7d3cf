"""Reads what the programs print for --help: the form of base/help_page.h, and Settings::Help in base/settings.cc."""
import os
import re
import subprocess

INDENT = " " * 30  # continuation lines of a flag's text


class Help:
    """What the programs print for --help. A page is a program or (program, command)."""

    def __init__(self, bin_folder, top):
        self.bin, self.top, self.known, self.texts = bin_folder, top, {}, {}

    def text(self, *page):
        if page not in self.texts:
            path = os.path.join(self.top, page[0]) if page[0].startswith("tools/") else os.path.join(self.bin, page[0])
            done = subprocess.run([path, *page[1:], "--help"], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                raise RuntimeError(f"{path} --help ended with {done.returncode}: {done.stderr}")
            self.texts[page] = done.stdout
        return self.texts[page]

    def pages_of(self, program):
        """Returns the program's pages: its own, and one for each of its commands."""
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", self.text(program), re.M)
        return [(program,)] + [(program, name) for name in re.findall(r"^  (\w+)", listed[1] if listed else "", re.M)]

    def of(self, program):
        """Returns {flag: whether it takes a value}."""
        if program not in self.known:
            text = "".join(self.text(*page) for page in self.pages_of(program))
            self.known[program] = {flag: bool(re.match(r" [^ \[]", rest)) for flag, rest in
                                   re.findall(r"^ *(?:-\w, )?(--[\w-]+)(.*)$", text, re.M)}
            for flag in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text):
                self.known[program].setdefault(flag, False)
        return self.known[program]


def examples(text):
    """Returns the commands among the examples of a --help."""
    found = re.search(r"^examples:\n((?:  .*\n)+)", text, re.M)
    return [line.strip() for line in found[1].splitlines() if not line.startswith("  #")] if found else []


def faults_of_form(page, text):
    """Yields what is unlike the other pages of --help."""
    lines = text.splitlines()
    if len(lines) < 3 or not re.fullmatch(r"[A-Z].*\.", lines[0]) or lines[1] or not re.match(rf"usage: .*\b{page[0]}\b", lines[2]):
        yield "it does not begin with its purpose, a sentence, and the synopsis"
    if len(examples(text)) < (1 if len(page) == 2 and page[0] == "mtdata" else 2 if page[0].startswith("tools/") else 3):
        yield "it has too few examples"
    yield from (f"a line has {len(line)} columns: {line}" for line in lines if len(line) > 100)
    for flag in [] if page[0].startswith("tools/") else parse_flags(text):
        if not re.fullmatch(r'[A-Z"a-z].*\.', flag.text) or re.search(r"\(default|default: |\b0 = ", flag.text):
            yield f"{flag.spelling}: \"{flag.text}\": its text is a sentence, its default stands in brackets at the end"


class Flag:
    def __init__(self, group, spelling, text):
        self.group, self.spelling = group, spelling
        found = re.search(r" \[((?:[^\[\]]|\[[^\[\]]*\])*)\]$", text)
        self.default = found[1] if found else ""
        self.text = text[:found.start()] if found else text


def parse_flags(text):
    """Parses the output of Settings::Help in base/settings.cc: groups, flags, texts wrapped at a fixed column."""
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
