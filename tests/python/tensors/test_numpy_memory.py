"""Tensors over the memory of NumPy's arrays: whose memory may be shared, and who is told."""

from __future__ import annotations

import numpy as np

import flambeau as torch


class Measurements(np.ndarray):
    """A class of its own, as units and masks have."""


def test_a_number_of_numpy_keeps_its_value() -> None:
    number = np.float32(1.5)
    torch.from_numpy(number).add_(1)
    assert number == 1.5


def test_classes_made_of_arrays_share_their_memory() -> None:
    for array in (np.zeros((1, 3)).view(Measurements), np.matrix([[0.0, 0.0, 0.0]])):
        torch.from_numpy(array).add_(1)
        torch.as_tensor(array).add_(1)
        assert array.tolist() == [[2.0, 2.0, 2.0]]


def test_an_array_lives_as_long_as_what_it_was_made_of() -> None:
    rows = torch.arange(6.0).view(2, 3).t().numpy()
    assert rows.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert rows.flags.writeable and torch.zeros(0, 3).numpy().shape == (0, 3)
