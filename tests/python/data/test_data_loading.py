"""Datasets, samplers, collation and the DataLoader."""

from __future__ import annotations

import pickle
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)
from flambeau.utils.data._utils.worker import _generate_state


def pairs() -> TensorDataset:
    return TensorDataset(torch.arange(10), torch.arange(10) * 2.0)


class Count(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def test_what_a_loader_in_this_process_refuses_and_warns_of() -> None:
    with pytest.raises(AssertionError, match="timeout == 0"):
        next(iter(DataLoader([1, 2], timeout=3)))
    with pytest.raises(TypeError, match="abstract class"):
        IterableDataset()  # type: ignore[abstract]
    if not torch.accelerator.is_available():
        with pytest.warns(UserWarning, match="no accelerator is found"):
            next(iter(DataLoader([1, 2], pin_memory=True)))


def test_tensor_dataset_gives_rows() -> None:
    assert len(pairs()) == 10
    assert [x.item() for x in pairs()[3]] == [3, 6]
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_datasets_combine() -> None:
    joined = ConcatDataset([pairs(), Subset(pairs(), [7, 8])])
    assert len(joined) == 12 and joined[10][0].item() == 7 and joined[-1][0].item() == 8
    assert len(pairs() + pairs()) == 20
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        joined[-13]
    assert list(Count() + Count()) == [0, 1, 2, 3, 4] * 2
    assert list(ChainDataset([Count()])) == [0, 1, 2, 3, 4]
    assert StackDataset(a=pairs(), b=[1] * 10)[2]["b"] == 1
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset([1], [1, 2])
    with pytest.raises(NotImplementedError):
        Dataset()[0]


def test_random_split_covers_the_dataset() -> None:
    parts = random_split(pairs(), [0.25, 0.35, 0.4])
    assert [len(part) for part in parts] == [3, 3, 4]
    assert sorted(index for part in parts for index in part.indices) == list(range(10))
    same = [
        random_split(range(10), [5, 5], generator=torch.Generator().manual_seed(1))[0].indices
        for _ in range(2)
    ]
    assert same[0] == same[1]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(pairs(), [3, 3])


def test_samplers() -> None:
    data = range(10)
    assert list(SequentialSampler(data)) == list(data)
    assert sorted(RandomSampler(data)) == list(data)
    assert len(list(RandomSampler(data, num_samples=23))) == 23
    drawn = list(RandomSampler(data, replacement=True, num_samples=70))
    assert len(drawn) == 70 and set(drawn) <= set(data)
    assert sorted(SubsetRandomSampler([3, 5, 7])) == [3, 5, 7]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}
    assert list(BatchSampler(data, 4, True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(BatchSampler(data, 4, False)) == 3
    shares = [list(DistributedSampler(data, 3, rank, shuffle=False)) for rank in range(3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]


def test_the_same_seed_gives_the_same_order() -> None:
    def order(generator: Any = None) -> list[Any]:
        loader = DataLoader(pairs(), batch_size=3, shuffle=True, generator=generator)
        return [batch[0].tolist() for _ in range(2) for batch in loader]

    torch.manual_seed(7)
    first = order()
    torch.manual_seed(7)
    assert order() == first
    # What PyTorch gives for this seed.
    assert first[:4] == [[3, 2, 7], [8, 6, 1], [5, 9, 0], [4]]
    assert first[4:] == [[1, 3, 5], [2, 8, 9], [6, 7, 4], [0]]
    assert order(torch.Generator().manual_seed(5))[:3] == [[7, 4, 8], [1, 2, 3], [6, 5, 9]]


def test_batches() -> None:
    loader = DataLoader(pairs(), batch_size=4)
    assert len(loader) == 3
    batches = list(loader)
    assert [batch[0].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[0][1].dtype == torch.float32
    assert len(list(DataLoader(pairs(), batch_size=4, drop_last=True))) == 2
    single = list(DataLoader(pairs(), batch_size=None))
    assert len(single) == 10 and single[3][0].shape == ()
    assert list(DataLoader([1, 2, 3], batch_size=2, collate_fn=list)) == [[1, 2], [3]]
    assert list(DataLoader([5, 6, 7], sampler=[2, 0], collate_fn=list)) == [[7], [5]]
    assert list(DataLoader([5, 6], batch_sampler=[[1, 0]], collate_fn=list)) == [[6, 5]]


def test_iterable_datasets() -> None:
    assert [b.tolist() for b in DataLoader(Count(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(DataLoader(Count(), batch_size=None)) == [0, 1, 2, 3, 4]
    assert len(list(DataLoader(Count(), batch_size=2, drop_last=True))) == 2
    with pytest.raises(ValueError, match="expected unspecified shuffle"):
        DataLoader(Count(), shuffle=True)
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Count()))


def test_a_dataset_may_load_whole_batches() -> None:
    class Tens(Dataset):
        def __len__(self) -> int:
            return 5

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [index * 10 for index in indices]

    assert [b.tolist() for b in DataLoader(Tens(), batch_size=3)] == [[0, 10, 20], [30, 40]]


def test_collation_keeps_the_shape_of_containers() -> None:
    point = namedtuple("point", "x y")
    assert default_collate([1, 2]).dtype == torch.int64
    assert default_collate([1.5, 2.5]).dtype == torch.float64
    assert default_collate([True, False]).dtype == torch.bool
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert [c.tolist() for c in default_collate([(1, 2), (3, 4)])] == [[1, 3], [2, 4]]
    assert default_collate([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    assert default_collate([point(1, 2), point(3, 4)]).y.tolist() == [2, 4]
    assert default_collate([torch.zeros(2), torch.ones(2)]).shape == (2, 2)
    with pytest.raises(TypeError, match="batch must contain tensors"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="should be of equal size"):
        default_collate([[1, 2], [1]])


def test_numpy_arrays_are_collated() -> None:
    np = pytest.importorskip("numpy")
    assert default_collate([np.zeros(2), np.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert default_collate([np.float32(1), np.float32(2)]).dtype == torch.float32
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"shuffle": True, "sampler": [1]}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 3}, "mutually exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
        ({"num_workers": -1}, "should be non-negative"),
        ({"timeout": -1}, "should be non-negative"),
        ({"prefetch_factor": 2}, "could only be specified in multiprocessing"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(pairs(), **options)


def test_a_loader_cannot_be_changed_afterwards() -> None:
    loader = DataLoader(pairs())
    with pytest.raises(ValueError, match="should not be set after DataLoader is initialized"):
        loader.batch_size = 4


class Rows(Dataset):
    """Gives several samples at once, and counts how often it is asked."""

    def __init__(self, values: list[int], short: int = 0) -> None:
        self.values, self.short, self.asked = values, short, 0

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> int:
        raise AssertionError("asked for a single sample")

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked += 1
        return [self.values[index] for index in indices][self.short :]


def test_a_stack_asks_its_datasets_for_several_samples_at_once() -> None:
    rows = Rows([5, 6, 7])
    assert StackDataset(rows, [1, 2, 3]).__getitems__([0, 2]) == [(5, 1), (7, 3)]
    assert StackDataset(a=rows, b=[1, 2, 3]).__getitems__([1]) == [{"a": 6, "b": 2}]
    assert rows.asked == 2
    with pytest.raises(ValueError, match="output size mismatch"):
        StackDataset(Rows([5, 6], short=1)).__getitems__([0, 1])


def test_text_of_numpy_stays_text() -> None:
    np = pytest.importorskip("numpy")
    words = np.array(["a", "b"])
    assert default_collate(words) is words
    with pytest.raises(TypeError, match="found <U1"):
        default_collate(np.array([["a"]]))


class Stream(IterableDataset):
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def test_an_iterable_that_gives_more_than_its_length() -> None:
    loader = DataLoader(Stream(), batch_size=None)
    assert sum(loader) == 3  # nobody has asked for the length yet
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2 .* but 3 samples have been fetched"):
        assert sum(loader) == 3


def test_more_workers_than_processors() -> None:
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running"):
        DataLoader([1, 2], num_workers=10_000)


def test_drawing_into_the_probabilities_themselves() -> None:
    p = torch.tensor([0.0, 1.0], requires_grad=True)
    x = p * 1
    x.bernoulli_(x)
    x.sum().backward()
    assert x.tolist() == [0.0, 1.0] and p.grad.tolist() == [0.0, 0.0]


class StandIn:
    """What a program hands to an iterator in place of a DataLoader: PyTorch's attributes only."""

    _dataset_kind, _auto_collation, _index_sampler = 1, False, range(5)
    _IterableDataset_len_called = generator = worker_init_fn = multiprocessing_context = None
    drop_last, pin_memory, persistent_workers, in_order = False, False, False, True
    timeout, prefetch_factor = 0, 2

    def __init__(self, num_workers: int) -> None:
        self.num_workers, self.dataset = num_workers, self

    def collate_fn(self, batch: Any) -> Any:
        return batch

    def __iter__(self) -> Iterator[int]:
        yield from (7, 8, 9)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_iterators_read_attributes_of_a_loader_only(num_workers: int) -> None:
    kinds = (
        torch.utils.data.dataloader._SingleProcessDataLoaderIter,
        torch.utils.data.dataloader._MultiProcessingDataLoaderIter,
    )
    iterator = kinds[num_workers](StandIn(num_workers))
    assert list(iterator) == [7, 8, 9] and iterator._num_yielded == 3


def test_a_loader_can_make_its_own_iterators() -> None:
    class Doubling(torch.utils.data.dataloader._SingleProcessDataLoaderIter):
        def _next_data(self) -> Any:
            return super()._next_data() * 2

    class Loader(DataLoader):
        def _get_iterator(self) -> Any:
            return Doubling(self)

    assert torch.cat(list(Loader(range(4), batch_size=2))).tolist() == [0, 2, 4, 6]
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(Loader(range(4))))


def test_an_order_that_is_drawn_at_once_is_drawn_before_the_seed_of_workers() -> None:
    class Drawn(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(torch.randperm(6).tolist())

    torch.manual_seed(3)
    order = torch.randperm(6).tolist()
    torch.manual_seed(3)
    assert list(DataLoader(range(6), batch_size=None, sampler=Drawn())) == order


def test_numpy_in_workers_is_seeded_as_its_seed_sequence_says() -> None:
    for seed, worker in ((0, 0), (1 << 62, 3), (123456789012345, 1)):
        parts = [worker, seed & 0xFFFFFFFF, seed >> 32]
        wanted = np.random.SeedSequence(parts).generate_state(4).tolist()
        assert _generate_state(seed, worker) == wanted
