"""Builds and controls the library that gives a node's programs their own wall clock and makes their writes fail."""
import mmap
import os
import shutil
import struct
import subprocess
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload.c")
PAGE_BYTES = 4096


class Preload:
    """The library and one shared page for each node. `why_not` says why the library cannot be used; None if it can."""

    def __init__(self, folder, programs):
        self.folder, self.library, self.pages = folder, os.path.join(folder, "preload.so"), {}
        self.ahead = {}  # node -> every offset of its clock in seconds, newest last
        self.why_not = self._build() or self._try(programs)

    def _build(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            return "there is no C compiler"
        done = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", self.library, SOURCE, "-ldl", "-lpthread"],
                              capture_output=True, text=True)
        return f"{SOURCE} cannot be compiled: {done.stderr.strip()[:300]}" if done.returncode else None

    def _try(self, programs):
        """Returns an error if a program ignores the moved clock, or if mtrun does not start (for example with a sanitizer)."""
        self.move_clock("probe", 86400)
        environment = {**os.environ, **self.environment("probe")}
        said = subprocess.run(["date", "+%s"], env=environment, capture_output=True, text=True).stdout.strip()
        if not said.isdigit() or abs(int(said) - time.time() - 86400) > 60:
            return f"the clock of a program cannot be moved: date says {said!r}"
        done = subprocess.run([os.path.join(programs, "mtrun"), "--version"], env=environment, capture_output=True, text=True)
        return f"mtrun does not start with it: {done.stderr.strip()[:300]}" if done.returncode else None

    def page(self, node):
        if node not in self.pages:
            path = os.path.join(self.folder, f"page-{node}")
            with open(path, "wb+") as file:
                file.write(bytes(PAGE_BYTES))
                file.flush()
                self.pages[node] = mmap.mmap(file.fileno(), PAGE_BYTES)
            self.ahead[node] = [0]
        return self.pages[node]

    def environment(self, node):
        """Returns the variables that load the library into programs of this node."""
        self.page(node)
        return {"LD_PRELOAD": self.library, "MTRUN_CHAOS_PAGE": os.path.join(self.folder, f"page-{node}")}

    def move_clock(self, node, seconds):
        """Sets a node's clock `seconds` ahead of the true time; a negative number sets it back."""
        struct.pack_into("q", self.page(node), 0, seconds)
        self.ahead[node].append(seconds)

    def refuse(self, node, device):
        """Makes all writes of a node's programs to this device fail with EROFS; 0 ends that."""
        struct.pack_into("Q", self.page(node), 8, device)

    def true_time(self, node, written, now):
        """Returns the true time of an event that was just read. The clock may have been moved since it was written."""
        return min((written - ahead for ahead in self.ahead.get(node, [0])[-2:]), key=lambda time: abs(time - now))

    def is_loaded(self, pid):
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
                found = maps.read()
        except OSError:
            found = ""
        return not found or self.library in found  # an ended process maps nothing
