"""The lease page: which lease counts for which worker, and until when."""
import os
import unittest

from support import lease_page
from mtrun.lease import LEASES, LeasePage


class LeasePageTest(unittest.TestCase):
    def test_lease_is_over_at_its_end(self):
        page = LeasePage(lease_page(self, (0x1f, 1000)))
        self.assertFalse(page.over("1.1f", now=999))
        self.assertTrue(page.over("1.1f", now=1000))

    def test_each_generation_has_its_own_lease(self):
        for place in range(LEASES):
            leases = [(0x10 + each, 1000 * (each == place)) for each in range(LEASES)]
            page = LeasePage(lease_page(self, *leases))
            for each in range(LEASES):
                self.assertEqual(page.over(f"1.{0x10 + each:x}", now=500), each != place)
        self.assertTrue(page.over("1.9", now=0), "a generation without a lease")

    def test_lease_of_members_that_left_counts_only_for_them(self):
        page = LeasePage(lease_page(self, (1, 100), outside=(1, 1000)))
        self.assertTrue(page.over("1.1", now=500))
        self.assertFalse(page.over("1.1", now=500, outside=True))
        self.assertTrue(page.over("1.1", now=1000, outside=True))
        self.assertTrue(page.over("2.2", now=500, outside=True), "of another generation")
        self.assertFalse(page.over("1.1", now=99, outside=True), "the members' own lease")

    def test_other_descriptors_are_refused(self):
        fd = lease_page(self, (1, 1000))
        os.pwrite(fd, b"\3", 8)
        with self.assertRaisesRegex(ValueError, f"MTRUN_LEASE={fd} is not a lease page of version 2"):
            LeasePage(fd)
        os.pwrite(fd, b"\1\2", 0)
        with self.assertRaisesRegex(ValueError, "is not a lease page"):
            LeasePage(fd)
        with self.assertRaisesRegex(ValueError, "MTRUN_LEASE=987 is not a lease page: .*Bad file descriptor"):
            LeasePage(987)


if __name__ == "__main__":
    unittest.main()
