"""`storage.resize_` reaches all tensors over the storage: none reads memory that is gone."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


def test_a_new_size_is_seen_by_all_who_share():
    x = torch.arange(6.0)
    y, storage = x.view(2, 3), x.untyped_storage()
    storage.resize_(8)
    assert [t.untyped_storage().nbytes() for t in (x, y)] == [8, 8]
    assert storage.nbytes() == len(storage) == 8
    assert x.shape == (6,)
    assert x[:2].tolist() == [0, 1]
    storage.resize_(40)
    assert y.untyped_storage().nbytes() == 40
    assert x[:2].tolist() == [0, 1]
    assert x.data_ptr() == y.data_ptr()


def test_tensors_without_memory_raise_and_live_again():
    x = torch.arange(6.0)
    y = x[4:]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    assert x.data_ptr() == 0
    for use in (x.sum, x.tolist, y.clone, x.exp, lambda: x.fill_(1), lambda: y + 1, y.numpy):
        with pytest.raises(RuntimeError):
            use()
    x.untyped_storage().resize_(24)
    x.copy_(torch.arange(6.0))
    assert y.tolist() == [4, 5]


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0, 8), (100, 4), (0, 1, 2, 3)])
def test_tensors_that_reach_beyond_the_storage_stay_within_memory(sizes):
    x = torch.zeros(100_000)
    for size in sizes:
        x.untyped_storage().resize_(size)
    x.fill_(2.0)
    assert x.shape == (100_000,)


def test_views_beyond_the_storage_are_refused():
    x = torch.arange(6.0)
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 8"):
        x.as_strided((3,), (1,))


def test_what_is_no_size_is_refused():
    storage = torch.zeros(3).untyped_storage()
    for size, error in ((-1, RuntimeError), (2**62, RuntimeError), (2**70, ValueError)):
        with pytest.raises(error):
            storage.resize_(size)
    with pytest.raises(RuntimeError, match="resize_ expects an int, but got float"):
        storage.resize_(2.5)
    assert storage.nbytes() == 12


def test_memory_that_others_know_is_not_resized():
    x = torch.arange(4.0)
    assert x.untyped_storage().resizable()
    array = x.numpy()
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(0)
    assert array.tolist() == [0, 1, 2, 3]
    assert not torch.from_numpy(np.zeros(3)).untyped_storage().resizable()


def test_a_view_of_what_is_gone_from_the_storage_is_refused() -> None:
    whole = torch.arange(10.0)
    behind = whole[5:]
    whole.untyped_storage().resize_(16)
    for take in (
        lambda: behind[1:3],
        lambda: behind[0],
        lambda: behind.unsqueeze(0),
        lambda: behind.expand(2, 5),
        lambda: behind.split(2),
        lambda: whole[5:6],
    ):
        with pytest.raises(RuntimeError, match=r"setStorage: .* are out of bounds for storage"):
            take()
    assert whole[:4].tolist() == [0, 1, 2, 3]
    assert whole[:2].view(torch.int32).shape == (2,)
    assert torch.zeros(0, 3)[:, 2].shape == (0,)  # nothing of it lies anywhere
