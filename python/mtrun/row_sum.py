"""A worker's partial sums of rows of numbers, one row a micro-batch."""
from __future__ import annotations

import torch

from mtrun.step_sums import StepSums


class RowSum:
    """Adds rows in the order of `sums.steps`."""

    def __init__(self, sums: StepSums) -> None:
        self._sums = sums
        self.rows: list[torch.Tensor] = []  # of the stack; after the last row, the partial sums
        self.count = 0  # rows so far

    def add(self, row: torch.Tensor) -> None:
        """Adds the next row, which may change afterwards."""
        additions = self._sums.steps[self.count].additions
        self.count += 1
        if not additions:
            self.rows.append(row.clone())
            return
        self.rows[-1].add_(row)
        for _ in range(additions - 1):
            right = self.rows.pop()
            self.rows[-1].add_(right)

    def widen(self, end: torch.Tensor) -> None:
        """Makes all rows so far longer, as if each had ended with `end`."""
        ends = RowSum(self._sums)
        for _ in range(self.count):
            ends.add(end)
        self.rows = [torch.cat([row.to(end.device), more]) for row, more in zip(self.rows, ends.rows)]
