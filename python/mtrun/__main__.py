"""`python -m mtrun ...` runs the launcher, and Python programs under it with this interpreter."""
from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig

FOLDERS = (sysconfig.get_path("scripts"), os.path.join(site.getuserbase(), "bin"))


def main() -> None:
    launcher = next(filter(None, (shutil.which(os.path.join(folder, "mtrun")) for folder in FOLDERS)), shutil.which("mtrun"))
    if launcher is None:
        sys.exit(f"mtrun: the launcher is neither in {' nor in '.join(FOLDERS)} nor on PATH; install the wheel of mtrun")
    os.execve(launcher, ["mtrun", *sys.argv[1:]], {"PYTHON_EXEC": sys.executable, **os.environ})


if __name__ == "__main__":
    main()
