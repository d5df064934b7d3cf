#!/usr/bin/env python3
"""Tests that tools/check_python finds faults in modules, tests and scripts, and missing types in the package."""
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
GOOD = {"python/mtrun/__init__.py": "import torch\n\n\ndef twice(x: torch.Tensor) -> torch.Tensor:\n    return 2 * x\n",
        "tests/python/it_test.py": "import support  # the package's path\n", "tools/it": "#!/usr/bin/env python3\nprint(1)\n"}


class CheckPythonTest(unittest.TestCase):
    def check(self, **changes):
        """Returns status and output for a tree with these files instead."""
        with tempfile.TemporaryDirectory() as root:
            for name in ("ruff.toml", "mypy.ini"):
                shutil.copy(os.path.join(TOP, name), root)
            for name, text in {**GOOD, **changes}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([os.path.join(TOP, "tools", "check_python"), root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_good_tree_passes(self):
        self.assertEqual(self.check(), (0, ""))

    def test_each_fault_is_found(self):
        for name, text, found in (
                ("python/mtrun/x.py", "def f() -> int:\n    return g()\n", "x.py:2:12: F821 Undefined name `g`"),
                ("python/mtrun/x.py", "def f(x):\n    return x\n", "x.py:1: error: Function is missing a type annotation"),
                ("python/mtrun/x.py", "def f(x: int) -> str:\n    return x\n", "x.py:2: error: Incompatible return value type"),
                ("tests/python/it_test.py", "def f(x=[]):\n    return x\n", "it_test.py:1:9: B006 Do not use mutable"),
                ("tools/it", "#!/usr/bin/env python3\nimport os\n", "it:2:8: F401 [*] `os` imported but unused")):
            with self.subTest(text=text):
                status, said = self.check(**{name: text})
                self.assertEqual(status, 1)
                self.assertIn(found, said)


if __name__ == "__main__":
    unittest.main()
