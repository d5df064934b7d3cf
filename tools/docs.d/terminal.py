"""Runs commands in a tmux of 80 columns and 24 rows, as a reader does, and reads what stands there."""
import collections
import os
import shutil
import subprocess
import tempfile

COLUMNS, ROWS = 80, 24
# The status goes to the file $0; the window stays until it is read.
RUN = '"$@"; echo $? >"$0"; tmux wait-for -S "$0"; exec cat'

# What a command has left: its exit status, the text with wrapped lines joined, and the lines that are too long. A path or a
# command that is longer than a line may stand on its own: it can be copied then.
Result = collections.namedtuple("Result", "status text wrapped")


class Terminal:
    """A server of its own, whose windows have this environment."""

    def __init__(self, environment, columns=COLUMNS, rows=ROWS):
        self.folder = tempfile.mkdtemp(prefix="mtrun-terminal-")
        self.columns = columns
        self.program = ["tmux", "-S", os.path.join(self.folder, "socket"), "-f", "/dev/null"]
        self.environment = {**environment, "TERM": "xterm-256color"}
        self.windows = 0
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "cat")
        self.tmux("set-option", "-g", "history-limit", "20000")

    def tmux(self, *words, **more):
        done = subprocess.run([*self.program, *words], env=self.environment, check=True, capture_output=True, text=True, **more)
        return done.stdout

    def begin(self, words, folder):
        """Begins a command in a window of its own. Returns the window."""
        self.windows += 1
        status = os.path.join(self.folder, f"status{self.windows}")
        pane = self.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", "-c", folder, "--", "sh", "-c", RUN, status, *words)
        return pane.strip(), status

    def end(self, window, patience):
        """Returns the Result of a command when it has ended. Raises subprocess.TimeoutExpired after `patience` seconds."""
        pane, status = window
        try:
            self.tmux("wait-for", status, timeout=patience)
            lines = self.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", pane).rstrip("\n").split("\n")
        finally:
            self.tmux("kill-pane", "-t", pane)
        lines = [line.rstrip() for line in lines]
        with open(status, encoding="ascii") as file:
            return Result(int(file.read()), "\n".join(lines), [line for line in lines if len(line) > self.columns and " " in line.strip()])

    def close(self):
        subprocess.run([*self.program, "kill-server"], check=False, capture_output=True)
        shutil.rmtree(self.folder)
