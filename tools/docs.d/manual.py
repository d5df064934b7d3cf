"""Makes a manual page (roff, man(7)) of what a program prints for --help. Pure."""
import re

from help_pages import parse_flags


def escape(text):
    """Returns the text for a line of roff: hyphens are not typographic, and no line is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def _paragraphs(text):
    return [part for part in re.split(r"\n{2,}", text.strip("\n")) if part.strip()]


def _verbatim(lines):
    return [".nf", *map(escape, lines), ".fi"]


def parts_of(text):
    """Returns (purpose, usage lines, example lines, further paragraphs) of a --help."""
    before = re.split(r"^\S[^\n]*:\n(?=  (?:-\w, )?--\w)", text, maxsplit=1, flags=re.M)[0]
    purpose, *rest = _paragraphs(before)
    usage, examples, further = [], [], []
    for part in rest:
        lines = part.split("\n")
        if lines[0].startswith("usage: "):
            usage = [lines[0][len("usage: "):]] + [line.strip() for line in lines[1:]]
        elif lines[0] == "examples:":
            examples = [line[2:] for line in lines[1:]]
        else:
            further.append(lines)
    return " ".join(purpose.split()), usage, examples, further


def _flags(text):
    rows, group = [], None
    for flag in parse_flags(text):
        if flag.group != group:
            group = flag.group
            rows.append(f".SS {escape(group)}")
        default = f" [{flag.default}]" if flag.default else ""
        rows += [".TP", f"\\fB{escape(flag.spelling)}\\fR", escape(flag.text + default)]
    return rows


def _texts(paragraphs):
    rows = []
    for lines in paragraphs:
        rows.append(".PP")
        # Lists and tables keep their lines.
        keeps = any(line.startswith(" ") for line in lines)
        rows += _verbatim(lines) if keeps else [escape(" ".join(lines))]
    return rows


def page(name, version, text, commands=()):
    """Returns the page of a program. `commands`: (name, --help) of each of its commands."""
    purpose, usage, examples, further = parts_of(text)
    rows = [f'.TH {name.upper()} 1 "" "mtrun {version}" "User Commands"', ".SH NAME",
            f"{escape(name)} \\- {escape(purpose[0].lower() + purpose[1:].rstrip('.'))}", ".SH SYNOPSIS"]
    rows += _verbatim(usage)
    rows += [".SH DESCRIPTION", escape(purpose), *_texts(further)]
    flags = _flags(text)
    rows += [".SH OPTIONS", *flags] if flags else []
    for command, help_text in commands:
        purpose, usage, command_examples, further = parts_of(help_text)
        rows += [f".SH {escape(name + ' ' + command).upper()}", escape(purpose), ".PP", *_verbatim(usage), *_texts(further)]
        rows += _flags(help_text)
        rows += [".SS examples", *_verbatim(command_examples)] if command_examples else []
    rows += [".SH EXAMPLES", *_verbatim(examples)] if examples else []
    return "\n".join(rows) + "\n"
