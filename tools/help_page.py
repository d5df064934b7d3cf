"""The --help of the Python programs in tools, in the form of base/help_page.h: purpose, synopsis, examples, notes, flags."""
import argparse


class Parser(argparse.ArgumentParser):
    """`text`: the purpose, one sentence; then examples and notes, separated from it by an empty line."""

    def __init__(self, prog, text, usage=None):
        super().__init__(prog=prog, usage=usage, add_help=False)
        self.purpose, _, self.rest = text.strip().partition("\n\n")
        self.add_argument("-h", "--help", action="help", help="Print this text.")

    def format_help(self):
        flags = self._get_formatter()
        for group in self._action_groups:
            flags.start_section("Flags" if group.title == "options" else group.title)
            flags.add_arguments(group._group_actions)
            flags.end_section()
        return "\n\n".join(part.strip("\n") for part in (self.purpose, self.format_usage(), self.rest, flags.format_help()) if part) + "\n"

    def _get_formatter(self):
        return argparse.HelpFormatter(self.prog, max_help_position=30, width=100)
