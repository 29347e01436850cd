"""Data pipes: their methods, their order, and DataLoader over them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from flambeau.utils.data.datapipes.iter import (
    FileLister,
    FileOpener,
    IterableWrapper,
    Sampler,
    StreamReader,
)
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.graph import traverse_dps


def numbers(n: int = 6) -> Any:
    return IterableWrapper(range(n))


def is_even(x: int) -> bool:
    return x % 2 == 0


def test_steps_of_one_pipe() -> None:
    assert list(numbers().map(lambda x: x * 2).filter(is_even)) == [0, 2, 4, 6, 8, 10]
    assert list(numbers().batch(4)) == [[0, 1, 2, 3], [4, 5]]
    assert list(numbers().batch(4, drop_last=True)) == [[0, 1, 2, 3]]
    assert list(numbers(8).batch(2).batch(2).unbatch(2)) == list(range(8))
    assert list(numbers(8).batch(2).batch(2).unbatch(-1)) == list(range(8))
    assert [x.tolist() for x in numbers().batch(2).collate()] == [[0, 1], [2, 3], [4, 5]]
    assert list(numbers().groupby(lambda x: x % 3)) == [[0, 3], [1, 4], [2, 5]]
    assert next(iter(numbers().groupby(is_even, keep_key=True, group_size=2))) == (True, [0, 2])
    assert list(Sampler(numbers(3))) == [0, 1, 2] and list(numbers().sharding_filter()) == [
        *range(6)
    ]


def test_columns_of_elements() -> None:
    pairs = [(1, 2), (3, 4)]
    tens = lambda x: x * 10  # noqa: E731
    assert list(IterableWrapper(pairs).map(tens, input_col=1)) == [(1, 20), (3, 40)]
    assert list(IterableWrapper(pairs).map(tens, 1, -1)) == [(1, 2, 20), (3, 4, 40)]
    assert list(IterableWrapper(pairs).map(lambda a, b: a + b, [0, 1])) == [(3,), (7,)]
    assert list(IterableWrapper([{"a": 1}]).map(tens, "a", "b")) == [{"a": 1, "b": 10}]
    assert list(IterableWrapper(pairs).filter(lambda a: a > 2, input_col=0)) == [(3, 4)]


def test_several_pipes() -> None:
    assert list(numbers(2).concat(numbers(3))) == [0, 1, 0, 1, 2]
    assert list(numbers(2).zip(numbers(3))) == [(0, 0), (1, 1)]
    assert list(numbers(2).mux(numbers(4))) == [0, 0, 1, 1]
    assert [list(part) for part in numbers().fork(2)] == [[*range(6)]] * 2
    assert [list(part) for part in numbers().demux(2, lambda x: x % 2)] == [[0, 2, 4], [1, 3, 5]]
    first, second = numbers(3).fork(2)
    assert list(first) == list(second) == list(first) == [0, 1, 2]
    part, _ = numbers(5).fork(2, buffer_size=2)
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(part)
    with pytest.raises(ValueError, match=r"should be between 0 and 1. None is returned"):
        list(numbers().demux(2, lambda x: None)[0])
    assert list(numbers().demux(2, lambda x: None, drop_none=True)[0]) == []


def test_pipes_with_keys() -> None:
    pipe = SequenceWrapper([0, 1, 2, 3, 4])
    assert list(pipe.map(lambda x: x * 2)) == [0, 2, 4, 6, 8] and pipe[2] == 2
    assert list(pipe.batch(2)) == [[0, 1], [2, 3], [4]] and len(pipe.batch(2, True)) == 2
    assert list(pipe.concat(pipe))[5:] == [0, 1, 2, 3, 4]
    assert list(pipe.zip(pipe))[4] == (4, 4)
    torch.manual_seed(0)
    assert list(pipe.shuffle()) == [4, 3, 0, 2, 1]
    assert isinstance(pipe, MapDataPipe) and isinstance(pipe.shuffle(), IterDataPipe)


def test_the_order_is_pytorchs() -> None:
    torch.manual_seed(0)
    assert list(numbers(10).shuffle()) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8]
    torch.manual_seed(0)
    assert list(numbers(10).shuffle(buffer_size=3)) == [0, 1, 3, 5, 2, 4, 6, 8, 9, 7]
    assert list(numbers(10).shuffle().set_seed(3)) == [3, 9, 2, 4, 7, 6, 0, 8, 1, 5]
    assert list(numbers(10).shuffle().set_shuffle(False)) == list(range(10))


def test_a_loader_tells_pipes_to_shuffle_and_their_shard() -> None:
    batches = [x.tolist() for x in DataLoader(numbers().map(lambda x: x + 1), batch_size=3)]
    assert batches == [[1, 2, 3], [4, 5, 6]]
    for shuffle in (True, None):
        torch.manual_seed(0)
        loader = DataLoader(numbers().shuffle(), batch_size=None, shuffle=shuffle)
        assert list(loader) == [4, 0, 3, 5, 2, 1]
    assert list(DataLoader(numbers().shuffle(), batch_size=None, shuffle=False)) == [*range(6)]
    torch.manual_seed(0)
    assert list(DataLoader(numbers(), batch_size=None, shuffle=True)) == [4, 0, 3, 5, 2, 1]
    shared = DataLoader(numbers(8).sharding_filter(), batch_size=None, num_workers=2)
    assert sorted(shared) == list(range(8))


def test_only_the_last_iterator_goes_on() -> None:
    pipe = numbers(3)
    first = iter(pipe)
    next(first)
    assert next(iter(pipe)) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(first)


def test_classes_become_methods() -> None:
    class Doubled(IterDataPipe):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Iterator[int]:
            for x in self.source:
                yield 2 * x

    functional_datapipe("twice_in_a_test")(Doubled)
    assert list(numbers(3).twice_in_a_test()) == [0, 2, 4]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("twice_in_a_test")(Doubled)
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("x")(int)
    del IterDataPipe.functions["twice_in_a_test"]
    with pytest.raises(AttributeError, match="no attribute 'twice_in_a_test"):
        numbers(3).twice_in_a_test()


def test_lengths_names_and_copies() -> None:
    assert len(numbers(5).map(str)) == 5 and len(numbers(5).batch(2)) == 3
    with pytest.raises(TypeError, match="has no len"):
        len(numbers(5).filter(bool))
    assert str(numbers(5).map(str)) == "MapperIterDataPipe"
    assert list(pickle.loads(pickle.dumps(numbers(3).batch(2)))) == [[0, 1], [2]]
    pipe = numbers(3).batch(2)
    assert [below for below, _ in traverse_dps(pipe)[id(pipe)][1].values()] == [pipe.datapipe]


def test_files(tmp_path: Path) -> None:
    for name in ("a.txt", "b.csv"):
        (tmp_path / name).write_text("x\ny")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.txt").write_text("")
    assert [Path(p).name for p in FileLister(str(tmp_path), "*.txt")] == ["a.txt"]
    every = FileLister(str(tmp_path), recursive=True)
    assert [Path(p).name for p in every] == ["a.txt", "b.csv", "c.txt"]
    opened = FileOpener(FileLister(str(tmp_path), "*.csv"), "r")
    assert [text for _, text in StreamReader(opened)] == ["x\ny"]
    assert [text for _, text in StreamReader(opened, chunk=2)] == ["x\n", "y"]
    with pytest.raises(ValueError, match="Invalid mode x"):
        FileOpener([], "x")


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="A callable function is expected"):
        numbers().map(3)
    with pytest.raises(ValueError, match="takes 2 positional parameters, but 1 are required"):
        numbers().map(lambda a, b: a)
    with pytest.raises(AssertionError, match="Batch size is required to be larger than 0"):
        numbers().batch(0)
    with pytest.raises(ValueError, match="Boolean output is required"):
        list(numbers().filter(lambda x: x))
    with pytest.raises(IndexError, match="exceeds the depth"):
        list(numbers().unbatch())
