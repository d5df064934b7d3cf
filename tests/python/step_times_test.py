"""Reports of step times: their content and their times."""
import math
import unittest

import support  # noqa: F401  the package's path
from mtrun.step_times import StepTimes, watch_seconds


class StepTimesTest(unittest.TestCase):
    def setUp(self):
        self.times = StepTimes()

    def step(self, number, now, data=0.0, exchange=0.0, watched=True):
        self.times.data += data
        self.times.exchange += exchange
        return self.times.finish(number, watched, now)

    def test_means_are_reported_at_once_and_then_every_two_seconds(self):
        self.assertIsNone(self.step(7, 10.0, data=9.0, exchange=9.0))  # began before this worker joined
        self.assertEqual(self.step(8, 10.1, data=0.25, exchange=0.5),
                         {"step": 8, "data_seconds": 0.25, "exchange_seconds": 0.5})
        self.assertIsNone(self.step(9, 10.2, data=1.0, exchange=2.0))
        self.assertIsNone(self.step(10, 12.0, data=0.0, exchange=0.0))
        self.assertEqual(self.step(11, 12.1, data=0.5, exchange=1.0),
                         {"step": 11, "data_seconds": 0.5, "exchange_seconds": 1.0})

    def test_unwatched_steps_are_not_reported_later(self):
        self.step(1, 10.0)
        self.assertIsNone(self.step(2, 11.0, data=5.0, watched=False))
        self.assertEqual(self.step(3, 12.0, data=0.5)["data_seconds"], 0.5)

    def test_first_step_of_a_generation_is_not_reported(self):
        self.step(1, 10.0)
        self.times.exchange += 30.0  # forming the next group
        self.times.restart()
        self.assertIsNone(self.step(2, 50.0, exchange=1.0))
        self.assertEqual(self.step(3, 51.0, exchange=0.25)["exchange_seconds"], 0.25)

    def test_losses_are_means_and_what_is_not_finite_is_left_out(self):
        times = StepTimes()
        times.finish(1, True, 10.0, loss=9.0, learning_rate=0.1)
        self.assertEqual(times.finish(2, True, 11.0, loss=3.0, learning_rate=0.1)["loss"], 3.0)
        times.finish(3, True, 12.0, loss=2.0)
        times.finish(4, True, 12.5, loss=math.nan)
        means = times.finish(5, True, 14.0, loss=4.0, learning_rate=math.inf)
        self.assertEqual(means["loss"], 3.0)
        self.assertNotIn("learning_rate", means)

    def test_further_fields_are_reported_as_they_are(self):
        times = StepTimes()
        times.finish(1, True, 10.0, epoch=1)
        means = times.finish(2, True, 11.0, epoch=2, epochs=3, run=None)
        self.assertEqual((means["epoch"], means["epochs"]), (2, 3))
        self.assertNotIn("run", means)

    def test_a_watch_is_bounded_and_a_malformed_one_named(self):
        for said, meant in ((6, 6), (0.5, 0.5), (-1, 0), (1e9, 60), (float("nan"), 0)):
            self.assertEqual(watch_seconds({"seconds": said}), meant)
        for message in ({}, {"seconds": "6"}, {"seconds": None}):
            with self.assertRaisesRegex(ValueError, "watch is malformed"):
                watch_seconds(message)


if __name__ == "__main__":
    unittest.main()
