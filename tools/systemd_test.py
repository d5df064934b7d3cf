#!/usr/bin/env python3
"""Checks configs/systemd/mtrdzv.service with systemd: every line is known, and the service's rights have the rating in
docs/clusters.md. Also checks the shell commands in its head. Needs systemd-analyze, but no running systemd."""
import os
import re
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


class UnitTest(unittest.TestCase):
    def analyze(self, verb, unit, *options):
        """Returns the status and output of systemd-analyze for that text as mtrdzv.service."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mtrdzv.service")
            with open(path, "w", encoding="utf-8") as file:
                file.write(unit)
            done = subprocess.run(["systemd-analyze", verb, *options, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env={**os.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""})
        return done.returncode, done.stdout

    def setUp(self):
        # systemd-analyze looks for the program, which is not installed on build machines.
        self.unit = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", read("configs", "systemd", "mtrdzv.service"), flags=re.M)

    def test_every_line_is_known(self):
        self.assertEqual(self.analyze("verify", self.unit, "--man=no"), (0, ""))

    def test_a_line_that_is_not_is_seen(self):
        self.assertIn("PrivateTpm", self.analyze("verify", self.unit.replace("PrivateTmp", "PrivateTpm"), "--man=no")[1])

    def test_its_exposure_is_what_the_document_says(self):
        said = float(re.search(r"rates its exposure (\d+\.\d) of 10", read("docs", "clusters.md"))[1])
        status, output = self.analyze("security", self.unit, "--offline=true", f"--threshold={round(10 * said)}")
        self.assertEqual(status, 0, output[-200:])

    def test_weakened_unit_is_rejected(self):
        opened = re.sub(r"^(Protect\w+|Private\w+|SystemCallFilter)=.*\n", "", self.unit, flags=re.M)
        self.assertNotEqual(self.analyze("security", opened, "--offline=true", "--threshold=20")[0], 0)


class HeadTest(unittest.TestCase):
    def told(self, shell, token):
        """Runs the command in the unit's head with this input, on a machine without mtrun. Returns the file's text and
        mode; None if there is no file."""
        command = re.search(r"^# +(\(umask .*?\))( +#.*)?$", read("configs", "systemd", "mtrdzv.service"), flags=re.M)[1]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mtrdzv.env")
            self.assertIn("/etc/mtrun/mtrdzv.env", command)
            subprocess.run([shell, "-c", command.replace("/etc/mtrun/mtrdzv.env", path)], input=token, text=True,
                           stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
            if not os.path.exists(path):
                return None
            with open(path, encoding="utf-8") as file:
                return file.read(), os.stat(path).st_mode & 0o777

    def test_the_token_that_is_typed_is_for_root_alone(self):
        for shell in ("sh", "bash"):
            self.assertEqual(self.told(shell, "mtrun1-abc\n"), ("MTRUN_TOKEN=mtrun1-abc\n", 0o600))

    def test_no_empty_token_is_written(self):
        for shell in ("sh", "bash"):
            for typed in ("", "\n", " \n"):
                self.assertIsNone(self.told(shell, typed))


if __name__ == "__main__":
    unittest.main()
