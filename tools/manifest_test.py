#!/usr/bin/env python3
"""Tests the exit status of a pod of configs/kubernetes/training-job.yaml, with a script in place of mtrun."""
import os
import signal
import subprocess
import tempfile
import textwrap
import unittest

MANIFEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "configs", "kubernetes", "training-job.yaml")
LEAVE = "/tmp/leave"
# An mtrun that leaves when its --preempt_file exists.
WAITS = """leave=${{1#--preempt_file=}}
shift
echo "$@"
while [ ! -e "$leave" ]; do sleep 0.02; done
exit {status}
"""


def command():
    """Returns the container's command, which precedes its args; Kubernetes passes it on unchanged."""
    with open(MANIFEST, encoding="utf-8") as file:
        text = file.read()
    script = text.split("            - |\n")[1].split("            - mtrun\n")[0]
    return ["sh", "-c", textwrap.dedent(script), "mtrun"]


class ManifestTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def leave(self):
        """Returns the pod's own file, which preStop makes."""
        return os.path.join(self.folder, "leave")

    def start(self, mtrun, *arguments):
        path = os.path.join(self.folder, "mtrun")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + mtrun)
        os.chmod(path, 0o755)
        words = [word.replace(LEAVE, self.leave()) for word in command()]
        pod = subprocess.Popen(words + list(arguments), stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PATH": self.folder + ":" + os.environ["PATH"]})
        self.addCleanup(pod.stdout.close)
        self.addCleanup(pod.kill)
        return pod

    def told(self, status, how=lambda pod: pod.send_signal(signal.SIGTERM)):
        """Returns the status of a pod whose mtrun exits with `status` when it is told to stop."""
        pod = self.start(WAITS.format(status=status), "--trainer", "two words")
        self.assertEqual(pod.stdout.readline(), "--trainer two words\n")
        how(pod)
        return pod.wait(20)

    def touch(self, _pod):
        with open(self.leave(), "w", encoding="utf-8"):
            pass

    def test_drained_pod_has_not_succeeded(self):
        self.assertEqual(self.told(0), 143)  # 0: the others continue; the Job must replace this one

    def test_the_hook_is_enough_alone(self):
        with open(MANIFEST, encoding="utf-8") as file:
            self.assertIn(f"command: [touch, {LEAVE}]", file.read())
        self.assertEqual(self.told(0, self.touch), 143)

    def test_signal_after_the_hook_changes_nothing(self):
        self.assertEqual(self.told(0, lambda pod: (self.touch(pod), pod.send_signal(signal.SIGTERM))), 143)

    def test_failure_during_a_drain_is_reported(self):
        self.assertEqual(self.told(9), 9)

    def test_otherwise_it_is_mtruns_status(self):
        for status in (0, 1, 143):
            self.assertEqual(self.start(f"exit {status}\n").wait(20), status)

    def test_nothing_in_it_is_kubernetes_own(self):
        self.assertNotIn("$(", command()[2])


if __name__ == "__main__":
    unittest.main()
