"""Plain pickles of the core's classes and their objects, which call themselves torch's."""

from __future__ import annotations

import copy
import io
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


def test_results_with_names_have_types_and_pickle() -> None:
    result = torch.tensor([[1.0, 4.0], [3.0, 2.0]]).max(0)
    assert type(result) is torch.return_types.max
    assert torch.return_types.linalg_svd in torch.return_types.all_return_types
    assert type(torch.histogramdd(torch.rand(4, 2), 2)) is torch.return_types.histogramdd
    file = io.BytesIO()
    torch.save({"best": result}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)["best"]
    for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), loaded):
        assert type(copied) is torch.return_types.max
        assert copied.values.tolist() == [3, 4] and copied.indices.tolist() == [1, 0]
