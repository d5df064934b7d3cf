#!/usr/bin/env python3
"""Tests of tools/cmake/MtCommit.cmake: the commit that programs report, and that a new commit rebuilds only them."""
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
ARCHIVED = os.path.join("tools", "cmake", "archived_commit.txt")


class CommitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "commit.cc")
        self.source = os.path.join(folder.name, "source")
        os.makedirs(os.path.join(self.source, "tools", "cmake"))
        for name in (ARCHIVED, ".gitattributes"):
            shutil.copy(os.path.join(TOP, name), os.path.join(self.source, name))

    def git(self, *words, folder=None):
        settings = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", folder or self.source, *settings, *words], check=True, capture_output=True).stdout

    def commit(self, folder=None):
        """Makes another commit; returns its digest."""
        folder = folder or self.source
        if not os.path.exists(os.path.join(folder, ".git")):
            self.git("init", "-q", folder=folder)
        self.git("add", "-A", folder=folder)
        self.git("commit", "-q", "--allow-empty", "-m", "one", folder=folder)
        return self.git("rev-parse", "HEAD", folder=folder).decode().strip()

    def told(self, source=None):
        subprocess.run(["cmake", f"-DSOURCE={source or self.source}", f"-DOUT={self.out}", "-P",
                        os.path.join(TOP, "tools", "cmake", "MtCommit.cmake")], check=True)
        with open(self.out, encoding="utf-8") as file:
            return file.read().split('return "')[1].split('"')[0]

    def test_a_clone_tells_its_own_and_another_one_when_there_is_one(self):
        for _ in range(2):
            digest = self.commit()
            self.assertEqual(self.told(), digest[:8])

    def test_nothing_is_written_for_the_same(self):
        self.commit()
        self.told()
        os.utime(self.out, (1, 1))
        self.told()
        self.assertEqual(os.stat(self.out).st_mtime, 1)

    def test_an_archive_tells_the_one_that_it_was_made_of(self):
        digest = self.commit()
        archive, unpacked = os.path.join(self.folder, "a.tar"), os.path.join(self.folder, "unpacked")
        os.mkdir(unpacked)
        self.git("archive", "-o", archive, "HEAD")
        shutil.unpack_archive(archive, unpacked)
        self.assertEqual(self.told(unpacked), digest[:8])

    def test_a_copy_without_either_tells_none(self):
        self.assertEqual(self.told(), "unknown")

    def test_another_project_around_it_is_not_asked(self):
        self.commit(self.folder)
        self.assertEqual(self.told(), "unknown")

    def test_a_clone_without_a_commit_tells_none(self):
        self.git("init", "-q")
        self.assertEqual(self.told(), "unknown")


if __name__ == "__main__":
    unittest.main()
