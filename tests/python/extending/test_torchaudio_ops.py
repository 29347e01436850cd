"""The operators that torchaudio brings compiled are registered in their place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import flambeau as torch


@pytest.fixture(scope="module")
def ops() -> Any:
    torch.ops.load_library("/somewhere/torchaudio/lib/_torchaudio.abi3.so")
    torch.ops.load_library("/somewhere/torchaudio/lib/libtorchaudio.abi3.so")
    return torch.ops.torchaudio


def test_the_library_says_what_it_has(ops: Any) -> None:
    assert torch.ops._torchaudio.cuda_version() is None
    assert torch.ops._torchaudio.is_align_available() is True
    with pytest.raises(OSError, match="compiled against PyTorch's libraries"):
        torch.ops.load_library("/somewhere/libother.so")


def test_a_recursive_filter_is_its_sum(ops: Any) -> None:
    torch.manual_seed(0)
    x, a = torch.randn(2, 3, 20), torch.randn(3, 3) * 0.3
    out = torch.zeros(2, 3, 22)
    ops._lfilter_core_loop(x, a.flip(1), out)
    wanted = np.zeros((2, 3, 22))
    for step in range(20):
        past = sum(wanted[:, :, step + 2 - k] * a[:, k].numpy() for k in (1, 2))
        wanted[:, :, step + 2] = x[:, :, step].numpy() - past
    assert torch.allclose(out, torch.tensor(wanted).float(), atol=1e-5)


@pytest.mark.parametrize("labels", [[1, 2, 2], [3], [1, 1], [2, 1, 3]])
def test_alignment_finds_the_most_probable_path(ops: Any, labels: list[int]) -> None:
    torch.manual_seed(len(labels))
    scores = torch.randn(1, 6, 4).log_softmax(-1)
    lengths = torch.tensor([6]), torch.tensor([len(labels)])
    path, _ = ops.forced_align(scores, torch.tensor([labels]), *lengths, 0)

    def spelled(one: tuple[int, ...]) -> list[int]:
        return [label for label, _ in itertools.groupby(one) if label]

    paths = [one for one in itertools.product(range(4), repeat=6) if spelled(one) == labels]
    steps = torch.arange(6)
    best = max(paths, key=lambda one: scores[0, steps, torch.tensor(one)].sum().item())
    assert tuple(path[0].tolist()) == best
    with pytest.raises(RuntimeError, match="too long for CTC"):
        ops.forced_align(
            scores[:, :1], torch.tensor([[1, 1]]), lengths[0][:1] * 0 + 1, torch.tensor([2]), 0
        )
