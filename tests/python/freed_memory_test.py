"""Memory that a process frees and needs again, with the C library's own settings and with ours."""
import os
import subprocess
import sys
import unittest

import support  # the package's path

MIB = 20  # of each block; when all are freed together, the C library gives them back by default
PROGRAM = f"""import ctypes, resource, sys
from mtrun.freed_memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def use():
    blocks = [ctypes.c_void_p(libc.malloc({MIB} << 20)) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, {MIB} << 20)
    for block in blocks:
        libc.free(block)

for _ in range(2):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


class FreedMemoryTest(unittest.TestCase):
    def pages(self, how, **settings):
        """Returns how many pages the kernel had to give in the third of equal rounds."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
        environment = {**plain, **settings, "PYTHONPATH": os.path.join(support.ROOT, "python")}
        return int(subprocess.run([sys.executable, "-c", PROGRAM, how], env=environment, check=True, capture_output=True).stdout)

    def test_it_is_not_taken_from_the_kernel_again(self):
        self.assertGreater(self.pages("default"), MIB << 8)
        self.assertLess(self.pages("keep"), 100)

    def test_settings_of_the_environment_stay(self):
        self.assertGreater(self.pages("keep", MALLOC_TRIM_THRESHOLD_="131072"), MIB << 8)


if __name__ == "__main__":
    unittest.main()
