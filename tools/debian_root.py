"""Makes a fresh Debian in a folder, as its installer leaves it, by debootstrap."""
import glob
import re
import subprocess

PATIENCE = 900


def mirror():
    """Returns the archive that this machine's apt uses; None if there is none."""
    folder = "/etc/apt/sources.list.d/"
    for path in glob.glob("/etc/apt/sources.list") + glob.glob(folder + "*.list") + glob.glob(folder + "*.sources"):
        with open(path, encoding="utf-8") as file:
            found = re.search(r"(?:^deb\s(?:\[[^]]*\]\s)?|^URIs:\s*)(\w+://\S+/debian/?)\s", file.read(), re.M)
        if found:
            return found.group(1)
    return None


def make(release, root):
    archive = mirror()
    subprocess.run(["debootstrap", "--variant=minbase", release, root, *([archive] if archive else [])], check=True,
                   stdout=subprocess.DEVNULL, timeout=PATIENCE)
