"""Watches the disks of a storm: no checkpoint may disappear before one that descends from it is saved."""
import collections
import hashlib
import os
import re
import threading
import time

import plain_ledger

LOOK_SECONDS = 0.03
ASIDE = re.compile(r"previous_\d+")

# A complete checkpoint: `run` and `lineage` of its state.json, and `seen`, the time when it was first seen.
Checkpoint = collections.namedtuple("Checkpoint", "run generation steps evaluated lineage seen")


def read(path, now):
    """Returns the checkpoint in this folder, or None if it is not complete."""
    files, state = plain_ledger.json_at(path, "DONE").get("files"), plain_ledger.json_at(path, "state.json")
    position = state.get("position")
    if not isinstance(files, dict) or not isinstance(position, dict):
        return None
    try:
        for name, record in files.items():
            with open(os.path.join(path, name), "rb") as file:
                if hashlib.sha256(file.read()).hexdigest() != record["sha256"]:
                    return None
    except (OSError, KeyError):
        return None
    return Checkpoint(state.get("run"), position["generation"], position["steps"], bool(position.get("evaluated")),
                      state.get("lineage"), now)


def checkpoints_in(folder):
    """Yields the paths of all checkpoints of a run folder, including those that were moved aside."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if plain_ledger.NAME.fullmatch(name):
            yield path
        elif ASIDE.fullmatch(name):
            yield from checkpoints_in(path)


class Disk:
    """One run folder. A checkpoint may be removed once a checkpoint that descends from it is complete."""

    def __init__(self, folder):
        self.folder, self.known, self.cache, self.missing = folder, {}, {}, set()
        self.present, self.problems = {}, []  # (run, generation, steps) -> path
        self.ever = []  # every checkpoint that was ever complete

    def look(self, now):
        present = {}
        for path in checkpoints_in(self.folder):
            if found := self.at(path, now):
                key = (found.run, found.generation, found.steps)
                present[key] = path
                if key not in self.known:
                    self.known[key] = found
                    self.ever.append(found)
        gone = self.known.keys() - present.keys()
        # A listing can miss a folder that is being renamed, so the next look decides.
        for key in gone & self.missing:
            self.judge(key, present)
        self.missing, self.present = gone - (gone & self.missing), present

    def at(self, path, now):
        try:
            inode = os.stat(path).st_ino
        except OSError:
            return None
        if self.cache.get(path, (None, None))[0] != inode:
            found = read(path, now)
            if found is None:
                return None
            self.cache[path] = (inode, found)
        return self.cache[path][1]

    def judge(self, key, present):
        """Reports a checkpoint that two looks have missed, unless a descendant is present."""
        lost = self.known.pop(key)
        left = [self.known[each] for each in present if each in self.known]
        if not any(self.replaces(lost, each) for each in left):
            furthest = max((each.steps for each in left), default=None)
            self.problems.append(f"{self.folder}: step_{lost.steps} of generation {lost.generation} is lost: "
                                 + ("nothing is left" if furthest is None else
                                    f"the furthest that is left is step_{furthest}, and nothing that is left descends from it"))

    @staticmethod
    def replaces(lost, other):
        """Returns whether `other` descends from `lost`. Without a lineage (older releases) the number of steps decides."""
        if other.run != lost.run or other.steps < lost.steps:
            return False
        return plain_ledger.descends(other.lineage, lost.generation, lost.steps) if other.lineage else True

    def furthest(self):
        """Returns the highest (steps, generation) that a run can continue from, or (0, 0)."""
        found = [self.known.get(key) for key, path in list(self.present.items())
                 if os.path.dirname(path) == self.folder and os.path.basename(path).startswith("step_")]
        return max(((each.steps, each.generation) for each in found if each), default=(0, 0))


class Kept(threading.Thread):
    """The run folders of a storm, checked by a thread every 30 ms."""

    def __init__(self):
        super().__init__(daemon=True)
        self.disks, self.over, self.looks = {}, threading.Event(), 0

    def add(self, folders):
        for folder in folders:
            self.disks.setdefault(folder, Disk(folder))

    def run(self):
        while not self.over.wait(LOOK_SECONDS):
            self.look()

    def look(self):
        now = time.monotonic()
        for disk in list(self.disks.values()):
            disk.look(now)
        self.looks += 1

    def stop(self):
        """Stops after two more looks, so that the last removals are judged too."""
        self.over.set()
        if self.is_alive():
            self.join()
        self.look()
        self.look()

    def furthest(self, folder):
        return self.disks[folder].furthest()

    def problems(self, folders):
        return [problem for folder in folders if folder in self.disks for problem in self.disks[folder].problems]
