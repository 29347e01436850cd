"""Bool tensors over bytes that others wrote: whatever is not zero is true, and nothing is read or
written that is not theirs.
"""

from __future__ import annotations

import io

import numpy as np
import pytest

import flambeau as torch

BYTES = [7, 0, 255, 2, 128, 1]
TRUE = [True, False, True, True, True, True]


def viewed():
    return torch.tensor(BYTES, dtype=torch.uint8).view(torch.bool)


def sources():
    array = np.array(BYTES, dtype=np.uint8).view(bool)
    set_over = torch.empty(0, dtype=torch.bool)
    set_over.set_(torch.tensor(BYTES, dtype=torch.uint8).untyped_storage(), 0, (6,), (1,))
    written = torch.zeros(6, dtype=torch.bool)
    written.view(torch.uint8).copy_(torch.tensor(BYTES))
    stored = torch.zeros(6, dtype=torch.bool)
    for i, byte in enumerate(BYTES):
        stored.untyped_storage()[i] = byte
    whole = torch.zeros(6, dtype=torch.bool)
    alias = whole[:]  # which nobody tells of what follows
    whole.view(torch.uint8).copy_(torch.tensor(BYTES))
    file = io.BytesIO()
    torch.save(viewed(), file)
    file.seek(0)
    return {
        "view": viewed(),
        "from_numpy": torch.from_numpy(array),
        "as_tensor": torch.as_tensor(array),
        "from_dlpack": torch.from_dlpack(viewed()),
        "frombuffer": torch.frombuffer(bytearray(BYTES), dtype=torch.bool),
        "set_": set_over,
        "written as bytes": written,
        "written in storage": stored,
        "file": torch.load(file),
        "strided": torch.tensor(BYTES).view(torch.bool).reshape(6, 8)[:, 0],
        "alias made before": alias,
        "alias": viewed().view(2, 3).t().t().reshape(-1).detach(),
    }


@pytest.mark.parametrize("name", list(sources()))
def test_ops_read_any_byte_but_zero_as_true(name):
    mask = sources()[name]
    x = torch.arange(6.0)
    assert mask.tolist() == TRUE
    assert mask.nonzero().view(-1).tolist() == [0, 2, 3, 4, 5]
    assert mask.sum().item() == 5
    assert x[mask].tolist() == [0, 2, 3, 4, 5]
    assert x.masked_select(mask).tolist() == [0, 2, 3, 4, 5]
    assert mask.int().tolist() == [1, 0, 1, 1, 1, 1]
    assert (mask == torch.tensor(True)).tolist() == TRUE
    assert (mask ^ True).view(torch.uint8).tolist() == [0, 1, 0, 0, 0, 0]
    assert mask.clone().tolist() == TRUE
    assert mask.float().tolist() == [1, 0, 1, 1, 1, 1]
    assert mask.max(0).indices.item() == 0
    assert mask.min(0).indices.item() == 1
    assert mask.amax().view(torch.uint8).item() == 1
    assert torch.where(mask, x, -1).tolist() == [0, -1, 2, 3, 4, 5]
    assert mask.cumsum(0).tolist() == [1, 1, 2, 3, 4, 5]
    assert mask.sort()[0].tolist() == [False] + [True] * 5
    assert mask.sort(stable=True)[1].tolist() == [1, 0, 2, 3, 4, 5]
    assert [x.tolist() for x in mask.unique(return_counts=True)] == [[False, True], [1, 5]]


def test_writes_reach_the_bytes():
    data = torch.tensor(BYTES, dtype=torch.uint8)
    mask = data.view(torch.bool)
    mask.logical_not_()
    assert data.tolist() == [0, 1, 0, 0, 0, 0]
    data.fill_(9)
    mask &= torch.tensor([True, False, True, False, True, False])
    assert data.tolist() == [1, 0, 1, 0, 1, 0]
    data.fill_(9)
    mask[1:3] = False
    assert mask.tolist() == [True, False, False, True, True, True]
    y = torch.zeros(6)
    y[mask] = 2.0
    assert y.tolist() == [2, 0, 0, 2, 2, 2]
    torch.logical_not(torch.tensor(TRUE), out=mask)
    assert data.tolist() == [0, 1, 0, 0, 0, 0]


def test_reading_leaves_the_bytes_alone():
    data = torch.tensor(BYTES, dtype=torch.uint8)
    mask = data.view(torch.bool)
    mask.sum(), mask.any(), mask.nonzero(), ~mask
    assert data.tolist() == BYTES
    assert mask.view(torch.uint8).tolist() == BYTES
    assert mask.numpy().view(np.uint8).tolist() == BYTES


def test_nonzero_keeps_within_its_memory_whatever_the_bytes_are():
    mask = torch.zeros(1000, dtype=torch.bool)
    part = mask[10:]  # made before the bytes were known to be written
    mask.view(torch.uint8).fill_(255)
    assert part.nonzero().view(-1).tolist() == list(range(990))


def test_empty_bools_hold_bools():
    for _ in range(5):
        torch.full((4096,), 7, dtype=torch.uint8)
        made = [
            torch.empty(4096, dtype=torch.bool),
            torch.empty_like(torch.zeros(4096), dtype=torch.bool),
            torch.empty_strided((64, 64), (64, 1), dtype=torch.bool),
            torch.zeros(1).new_empty(4096, dtype=torch.bool),
            torch.zeros(0, dtype=torch.bool).resize_(4096),
        ]
        for x in made:
            assert x.view(torch.uint8).max().item() <= 1


def test_a_stream_that_is_no_number_of_the_machine_is_refused():
    with pytest.raises(OverflowError):
        torch.zeros(2).__dlpack__(stream=2**64)
