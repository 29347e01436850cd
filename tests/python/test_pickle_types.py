"""Plain pickles of the core's classes and their objects, which call themselves torch's."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau as torch


class Marked(torch.Tensor):
    """A class made from one of the core's."""


@pytest.mark.parametrize(
    "thing",
    (
        torch.Tensor, torch.Size, torch.device, torch.dtype, torch.layout, torch.memory_format,
        Marked, torch.nn.Parameter, torch.float32, torch.strided, torch.contiguous_format,
        torch.Size([1, 2]), torch.device("cpu"),
    ),
    ids=repr,
)  # fmt: skip
def test_types_and_their_objects_pickle(thing: object) -> None:
    assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.deepcopy(thing) == thing
