"""Output of the tools: aligned tables, and a line of progress while they work."""
import sys
import time


def table(head, rows):
    """Prints columns as wide as their widest cell; numbers are right-aligned."""
    cells = [[str(cell) for cell in row] for row in [head] + rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    right = [all(isinstance(row[column], (int, float)) or row[column] in ("", "-") or row[column][:1].isdigit()
                 for row in rows) for column in range(len(head))]
    for number, row in enumerate(cells):
        print("  " + "  ".join(cell.rjust(width) if to_right else cell.ljust(width)
                               for cell, width, to_right in zip(row, widths, right)).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


class Progress:
    """One line, rewritten on a terminal; otherwise a line every ten seconds."""

    def __init__(self, name):
        self.name, self.terminal, self.began, self.shown = name, sys.stderr.isatty(), time.monotonic(), 0.0

    def show(self, text, now=False):
        past = time.monotonic() - self.shown
        if not now and past < (0.2 if self.terminal else 10.0):
            return
        self.shown = time.monotonic()
        line = f"{self.name} {self.shown - self.began:6.0f} s: {text}"
        print(f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr,
              flush=True)

    def end(self):
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
