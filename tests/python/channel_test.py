"""The worker's end of the channel: whom it trusts, and the lines that it takes. `Job` is in job_test.py."""
import os
import queue
import socket
import unittest

import support
from mtrun.channel import MOST_BYTES_A_LINE, Channel
from support import Agent

NOBODY = 65534


class ChannelTest(unittest.TestCase):
    def setUp(self):
        self.agent, self.said = Agent(), queue.Queue()
        self.addCleanup(self.agent.close)

    def connect(self):
        """Connects a channel, which puts its messages, and then the reason of its end, into `said`."""
        channel = Channel(self.agent.path, self.said.put, self.said.put)
        self.addCleanup(channel.close)
        channel.start()
        channel.send("hello")
        self.agent.accept()
        self.assertEqual(self.agent.heard(), {"type": "hello"})
        return channel

    def heard(self):
        return self.said.get(timeout=60)

    def test_line_may_have_16_mib(self):
        self.assertEqual(MOST_BYTES_A_LINE, 16 << 20)  # docs/protocol.md
        self.connect()
        start, end = b'{"a":"', b'"}\n'
        self.agent.write(start + b"x" * (MOST_BYTES_A_LINE - len(start + end)) + end)
        self.assertEqual(len(self.heard()["a"]), MOST_BYTES_A_LINE - len(start + end))
        self.agent.write(b"x" * (MOST_BYTES_A_LINE + 1))  # and no end: it is not awaited
        self.assertEqual(self.heard(), "a line is unterminated or too long")

    def test_line_that_the_agent_did_not_end_is_not_a_message(self):
        self.connect()
        self.agent.write(b'{"type":"drain"}')
        self.agent.hang_up()
        self.assertEqual(self.heard(), "a line is unterminated or too long")

    def test_end_is_reported_once_after_the_messages(self):
        channel = self.connect()
        self.agent.say({"n": 1}, {"n": 2})
        self.agent.hang_up()
        self.assertEqual([self.heard() for _ in range(3)], [{"n": 1}, {"n": 2}, "it closed the channel"])
        channel.send("ready", generation="1.1")  # is dropped
        channel.close()
        self.assertTrue(self.said.empty())

    def forked(self, user, body):
        """Runs `body` as `user` in a child; returns its pid."""
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                os.setuid(user)
                status = body()
            finally:
                os._exit(status)
        return pid

    def exit_of(self, pid):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @unittest.skipIf(os.getuid() != 0, "needs root")
    def test_agent_of_another_user_is_refused(self):
        ours, child_end = socket.socketpair()
        self.addCleanup(child_end.close)

        def listen():
            ours.close()
            theirs = Agent()
            child_end.sendall(theirs.path.encode())
            child_end.recv(1)  # until the test ends
            return 0

        child = self.forked(NOBODY, listen)
        self.addCleanup(lambda: self.assertEqual(self.exit_of(child), 0))
        self.addCleanup(ours.close)
        path = ours.recv(200).decode()
        with self.assertRaisesRegex(ConnectionError, f"cannot reach the agent at MTRUN_SOCKET={path}: it belongs to user {NOBODY} "):
            Channel(path, self.said.put, self.said.put)

    @unittest.skipIf(os.getuid() != 0, "needs root")
    def test_agent_of_root_is_trusted(self):
        def connect():
            Channel(self.agent.path, self.said.put, self.said.put)
            return 0

        self.assertEqual(self.exit_of(self.forked(NOBODY, connect)), 0)

    def test_missing_agent_is_named(self):
        with self.assertRaisesRegex(ConnectionError, "cannot reach the agent at MTRUN_SOCKET=@not-there: .* unset MTRUN_SOCKET"):
            Channel("@not-there", self.said.put, self.said.put)


if __name__ == "__main__":
    unittest.main()
