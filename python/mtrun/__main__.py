"""`python -m mtrun ...` runs the launcher, and Python programs under it with this interpreter."""
from __future__ import annotations

import os
import sys

from mtrun.launching import FOLDERS, find_launcher


def main() -> None:
    launcher = find_launcher()
    if launcher is None:
        sys.exit(f"mtrun: the launcher is neither in {' nor in '.join(FOLDERS)} nor on PATH; install the wheel of mtrun")
    os.execve(launcher, ["mtrun", *sys.argv[1:]], {"PYTHON_EXEC": sys.executable, **os.environ})


if __name__ == "__main__":
    main()
