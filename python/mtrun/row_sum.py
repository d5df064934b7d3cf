"""A worker's partial sums of rows of numbers, one row a micro-batch."""
from __future__ import annotations

import torch

from mtrun.step_sums import StepSums


class RowSum:
    """Adds rows in the order of `sums.steps`."""

    def __init__(self, sums: StepSums) -> None:
        self._steps = sums.steps
        self.rows: list[torch.Tensor] = []  # of the stack; after the last row, the partial sums
        self.terms: list[int] = []  # rows in each of these
        self.count = 0  # rows so far

    def add(self, row: torch.Tensor) -> None:
        """Adds the next row, which may change afterwards."""
        additions = self._steps[self.count].additions
        self.count += 1
        if not additions:
            self.rows.append(row.clone())
            self.terms.append(1)
            return
        self.rows[-1].add_(row)
        self.terms[-1] += 1
        for _ in range(additions - 1):
            right, terms = self.rows.pop(), self.terms.pop()
            self.rows[-1].add_(right)
            self.terms[-1] += terms
