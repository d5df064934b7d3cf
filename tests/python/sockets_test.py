"""A group's connections are found and ended, and no others."""
import os
import socket
import unittest

import support
from mtrun.sockets import NewConnections


class SocketsTest(unittest.TestCase):
    def pair(self):
        """Returns the two ends of a TCP connection, and its listener."""
        listener = socket.create_server(("127.0.0.1", 0))
        near = socket.create_connection(listener.getsockname())
        far = listener.accept()[0]
        for each in (listener, near, far):
            self.addCleanup(each.close)
        far.settimeout(20)
        return near, far, listener

    def assertEnded(self, far):
        self.assertEqual(far.recv(1), b"")

    def assertWorks(self, near, far):
        near.sendall(b"x")
        self.assertEqual(far.recv(1), b"x")

    def test_only_connections_made_in_between_are_closed(self):
        before = self.pair()
        new = NewConnections()
        during = self.pair()
        unix = socket.socketpair()
        for each in unix:
            self.addCleanup(each.close)
        new.complete()
        after = self.pair()
        new.shut_down()
        self.assertEnded(during[1])
        self.assertWorks(*before[:2])
        self.assertWorks(*after[:2])
        self.assertWorks(*unix)
        socket.create_connection(during[2].getsockname()).close()  # the listener continues
        new.shut_down()  # a second call is harmless

    def test_a_forked_child_closes_its_copies(self):
        new = NewConnections()
        near, far, _ = self.pair()
        new.complete()
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            new.close()
            os.write(ready[1], b"x")
            os.read(done[0], 1)
            os._exit(0)
        self.assertEqual(os.read(ready[0], 1), b"x")
        self.assertWorks(near, far)
        near.close()
        self.assertEnded(far)  # although the child still runs
        os.write(done[1], b"x")
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        for descriptor in (*ready, *done):
            os.close(descriptor)

    def test_reads_end_and_writes_do_not_fail(self):
        """Gloo queues a send whose write fails with EPIPE and never notifies its waiter."""
        new = NewConnections()
        near, far, _ = self.pair()
        new.complete()
        new.shut_down()
        self.assertEqual(near.recv(1), b"")
        near.sendall(b"x")
        self.assertEqual(far.recv(1), b"x")

    def test_before_it_is_complete_all_that_was_made_ends(self):
        new = NewConnections()
        _, far, _ = self.pair()
        new.shut_down()
        self.assertEnded(far)

    def test_a_number_that_another_one_has_now_is_left_alone(self):
        new = NewConnections()
        near, far, listener = self.pair()
        new.complete()
        numbers = (near.fileno(), far.fileno(), listener.fileno())
        for each in (near, far, listener):
            each.close()
        other = self.pair()
        self.assertEqual(sorted(each.fileno() for each in other), sorted(numbers))
        new.shut_down()
        self.assertWorks(*other[:2])


if __name__ == "__main__":
    unittest.main()
