"""Worker processes: DataLoader with them gives what it gives without, tensors travel through shared
memory, and nothing is left behind.
"""

from __future__ import annotations

import gc
import glob
import os
import pickle
import random
from typing import Any

import pytest

import flambeau as torch
from flambeau import multiprocessing as mp
from flambeau.multiprocessing import reductions
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Files in shared memory belong to processes that are still there."""
    before = set(glob.glob(f"{reductions._FOLDER}/flambeau_*"))
    yield
    new = set(glob.glob(f"{reductions._FOLDER}/flambeau_*")) - before
    assert not [path for path in new if not os.path.exists(f"/proc/{path.split('_')[1]}")]


class Squares(Dataset):
    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((3,), float(index**2)), "name": f"s{index}"}


class Chances(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return torch.rand(()).item(), random.random(), info.seed - info.id, info.num_workers


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, 9, step))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_come_in_the_order_of_one_process(workers):
    torch.manual_seed(0)
    expected = list(DataLoader(Squares(), batch_size=2, shuffle=True))
    torch.manual_seed(0)
    found = list(DataLoader(Squares(), batch_size=2, shuffle=True, num_workers=workers))
    assert [batch["name"] for batch in found] == [batch["name"] for batch in expected]
    assert all(torch.equal(a["x"], b["x"]) for a, b in zip(found, expected))


def test_workers_are_seeded_apart_and_the_same_every_time():
    torch.manual_seed(0)
    first = list(DataLoader(Chances(), batch_size=None, num_workers=2))
    torch.manual_seed(0)
    second = list(DataLoader(Chances(), batch_size=None, num_workers=2))
    assert first == second and first[0][0] != first[1][0]
    # PyTorch's numbers for this seed.
    assert first[0][2] == 900450186894289455
    assert first[1][0] == 0.6938178539276123 or first[3][0] == 0.6938178539276123


def test_iterable_datasets_are_drained_by_all_workers():
    loader = DataLoader(Stream(), batch_size=2, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]


class Failing(Dataset):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if index == 2 and self.kind == "raise":
            raise KeyError("bad sample")
        if index == 2:
            os._exit(3)
        return index


def test_an_exception_of_a_worker_is_raised_here_with_its_traceback():
    loader = DataLoader(Failing("raise"), num_workers=1)
    with pytest.raises(KeyError, match=r"worker process 0(.|\n)*bad sample"):
        list(loader)


def test_a_worker_that_dies_is_noticed():
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(Failing("exit"), num_workers=1))


def test_a_pass_that_is_left_early_ends_its_workers():
    iterator = iter(DataLoader(Squares(), num_workers=2))
    next(iterator)
    processes = iterator._pool.processes
    del iterator
    assert not any(process.is_alive() for process in processes)


def test_persistent_workers_serve_several_passes():
    loader = DataLoader(Squares(), batch_size=4, num_workers=2, persistent_workers=True)
    first = iter(loader)
    next(first)
    pids = [process.pid for process in first._pool.processes]
    names = [batch["name"] for batch in loader]
    assert names[0] == ["s0", "s1", "s2", "s3"] and len(names) == 3
    assert [process.pid for process in loader._iterator._pool.processes] == pids
    loader._iterator._pool.close()


def start(worker_id: int) -> None:
    torch.manual_seed(7)


def test_options_of_workers():
    values = [v[0] for v in DataLoader(Chances(), None, num_workers=2, worker_init_fn=start)]
    assert values[0] == values[1]
    with pytest.raises(ValueError, match="valid start method"):
        DataLoader(Squares(), num_workers=1, multiprocessing_context="teleport")
    data = TensorDataset(torch.arange(4.0))
    found = list(DataLoader(data, 2, num_workers=1, multiprocessing_context="spawn"))
    assert found[1][0].tolist() == [2.0, 3.0]


def send_back(queue: Any, answers: Any) -> None:
    tensor = queue.get()
    tensor += 1
    answers.put((tensor.clone(), tensor.shape))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_shared_tensor_is_written_by_another_process(method):
    context = mp.get_context(method)
    queue, answers = context.Queue(), context.Queue()
    shared = torch.zeros(2, 3).share_memory_()
    assert shared.is_shared() and not torch.zeros(2).is_shared()
    process = context.Process(target=send_back, args=(queue, answers))
    process.start()
    queue.put(shared)
    copy, shape = answers.get(timeout=60)
    process.join()
    assert shared.sum() == 6 and copy.sum() == 6 and shape == (2, 3)


def test_modules_share_their_parameters():
    net = torch.nn.Linear(2, 2)
    weight = net.weight.detach().clone()
    net.share_memory()
    assert net.weight.is_shared() and torch.equal(net.weight, weight)
    net(torch.ones(1, 2)).sum().backward()
    assert net.weight.grad is not None


def test_tensors_of_every_kind_travel():
    row = torch.arange(12).view(3, 4).t()[1]
    cases = [torch.tensor(3.5), torch.zeros(0, 2), row, torch.ones(2, dtype=torch.bool)]
    cases += [torch.nn.Parameter(torch.ones(2)), torch.ones(2, dtype=torch.complex64)]
    receiver, sender = mp.Pipe(duplex=False)
    for case in cases:
        sender.send(case)
        found = receiver.recv()
        assert torch.equal(found, case) and found.requires_grad == case.requires_grad
        assert type(found) is type(case) and found.dtype == case.dtype
    with pytest.raises(RuntimeError, match="non-leaf"):
        sender.send(torch.ones(1, requires_grad=True) * 2)


def work(index: int, kind: str) -> None:
    if kind == "raise" and index == 1:
        raise ValueError("process one fails")
    if kind == "exit" and index == 1:
        os._exit(5)


def test_spawned_processes_bring_their_errors_back():
    mp.spawn(work, ("fine",), nprocs=2)
    with pytest.raises(mp.ProcessRaisedException, match="process one fails"):
        mp.spawn(work, ("raise",), nprocs=2)
    with pytest.raises(mp.ProcessExitedException, match="exit code 5") as caught:
        mp.spawn(work, ("exit",), nprocs=2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.error_index == 1 and again.exit_code == 5


@pytest.mark.parametrize("whole", [False, True])
def test_persistent_workers_go_with_their_loader(whole: bool) -> None:
    loader = DataLoader(list(range(12)), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    samples = list(iterator) if whole else [next(iterator)]
    workers = iterator._workers
    assert len(samples) == (12 if whole else 1) and all(w.is_alive() for w in workers)
    gc.disable()
    try:
        del iterator, loader
        for worker in workers:
            worker.join(10)
        assert not any(worker.is_alive() for worker in workers)
    finally:
        gc.enable()
    assert len(list(iter(DataLoader(range(6), num_workers=1, persistent_workers=True)))) == 6


def test_tensors_without_memory_travel_with_their_strides() -> None:
    queue = mp.get_context("fork").Queue()
    for sent in (torch.empty(2, 3, device="meta").t(), torch.empty(0, 3).t()):
        queue.put(sent)
        got = queue.get()
        assert got.device == sent.device
        assert got.shape == sent.shape and got.stride() == sent.stride()


def test_views_move_with_the_memory_that_is_shared():
    x = torch.arange(6.0).reshape(2, 3)
    row, kept = x[1], (x * 1).requires_grad_()
    x.share_memory_()
    assert x.is_shared() and row.is_shared() and row.data_ptr() == x[1].data_ptr()
    row.zero_()
    assert x.tolist() == [[0, 1, 2], [0, 0, 0]]
    y = kept * x  # saved for backward
    row.share_memory_()
    y.sum().backward()
    assert torch.equal(kept.grad, x)
    lent = torch.ones(3)
    array = lent.numpy()
    lent.share_memory_().zero_()
    assert array.tolist() == [1, 1, 1]  # memory that others know stays where it is


def _names() -> set[str]:
    return set(glob.glob(f"{reductions._FOLDER}/flambeau_{os.getpid()}_*"))


def test_shared_memory_goes_with_the_last_tensor_that_uses_it():
    before, known = _names(), set(reductions._shared)
    for _ in range(5):
        x = torch.zeros(1000).share_memory_()
        row = x[10:]
        del x
        assert row.is_shared() and len(_names() - before) == 1
        del row
    assert _names() == before and set(reductions._shared) == known


def _echo(inbox: Any, outbox: Any) -> None:
    shared = inbox.get()
    shared += 1
    outbox.put(shared)
    outbox.put(torch.full((3,), 7.0).share_memory_())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_memory_outlives_the_process_that_sent_it(method):
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=_echo, args=(inbox, outbox))
    process.start()
    before = _names()
    x = torch.zeros(3).share_memory_()
    inbox.put(x)
    y = outbox.get()
    process.join()
    z = outbox.get()
    y += 1
    assert x.tolist() == [2, 2, 2] and z.tolist() == [7, 7, 7] and z.is_shared()
    # What was received can be sent on.
    inbox.put(z)
    again = inbox.get()
    again += 1
    assert z.tolist() == [8, 8, 8]
    del x, y, z, again
    assert _names() == before
