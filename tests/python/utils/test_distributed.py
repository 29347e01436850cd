"""The world of one process: programs for many processes run in it, a larger one is refused."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data.distributed import DistributedSampler


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo")
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_world_is_made_and_ended(world):
    assert dist.is_available() and dist.is_initialized() and world is not None
    assert dist.get_rank() == 0 and dist.get_world_size() == 1 and dist.get_backend() == "gloo"
    with pytest.raises(ValueError, match="default process group twice"):
        dist.init_process_group("gloo")
    dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize(
    ("arguments", "environment", "error", "text"),
    [
        ({}, {}, ValueError, "environment variable RANK expected"),
        ({"rank": 0}, {}, ValueError, "environment variable WORLD_SIZE expected"),
        ({}, {"RANK": "1", "WORLD_SIZE": "4"}, RuntimeError, "rank 1 of 4 processes"),
        ({"init_method": "tcp://localhost:1"}, {}, ValueError, "rank parameter missing"),
        ({"backend": "pigeon"}, {}, AssertionError, "Unknown backend type pigeon"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, environment, error, text, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=text):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def test_an_address_may_tell_the_place():
    dist.init_process_group("nccl", "tcp://localhost:29500?rank=0&world_size=1")
    assert dist.get_backend() == "nccl"
    dist.destroy_process_group()
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    dist.destroy_process_group()


def test_exchanges_give_back_what_was_given(world):
    x = torch.arange(3.0)
    assert dist.all_reduce(x) is None and x.tolist() == [0, 1, 2]
    assert dist.all_reduce(x, dist.ReduceOp.AVG, None, True).wait()
    dist.broadcast(x, 0)
    dist.barrier()
    out = torch.zeros(3)
    parts = [torch.zeros(3)]
    dist.all_gather(parts, x)
    dist.gather(x, [out], 0)
    assert torch.equal(parts[0], x) and torch.equal(out, x)
    for exchange in (
        lambda o: dist.all_gather_into_tensor(o, x),
        lambda o: dist.reduce_scatter_tensor(o, x),
        lambda o: dist.reduce_scatter(o, [x]),
        lambda o: dist.scatter(o, [x], 0),
        lambda o: dist.all_to_all_single(o, x),
        lambda o: dist.all_to_all([o], [x]),
    ):
        out = torch.zeros(3)
        exchange(out)
        assert torch.equal(out, x)
    found, given = [None], {"a": [1]}
    dist.all_gather_object(found, given)
    assert found == [given] and found[0] is not given
    pair = dist.new_group([0])
    assert dist.get_rank(pair) == 0 and dist.get_process_group_ranks(pair) == [0]
    assert dist.get_pg_count() == 2


def test_mistakes_in_exchanges_are_told(world):
    x = torch.ones(3)
    for call, error, text in (
        (lambda: dist.all_reduce([x]), TypeError, "parameter `tensor`"),
        (lambda: dist.all_reduce(x, "sum"), ValueError, "Invalid reduction"),
        (lambda: dist.all_gather([x, x], x), RuntimeError, "expected a list of 1 tensor"),
        (lambda: dist.all_gather([torch.zeros(2)], x), ValueError, "same number of elements"),
        (lambda: dist.broadcast(x, src=1), RuntimeError, "invalid root rank: 1"),
        (lambda: dist.send(x, 0), ValueError, "same as the rank of the current process"),
        (lambda: dist.recv(x, 1), ValueError, "one process"),
        (lambda: dist.new_group([0, 1]), ValueError, "within the world_size"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_a_wrapped_module_trains_like_the_module(world):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    wrapped = DistributedDataParallel(plain, find_unused_parameters=True)
    assert wrapped.module is plain and next(iter(wrapped.state_dict())) == "module.0.weight"
    x = torch.randn(5, 4)
    wrapped(x).square().sum().backward()
    first = plain[0].weight.grad.clone()
    with wrapped.no_sync():
        assert not wrapped.require_backward_grad_sync
        wrapped(x).square().sum().backward()
    assert wrapped.require_backward_grad_sync and wrapped.will_sync_module_buffers()
    torch.testing.assert_close(plain[0].weight.grad, 2 * first)
    assert not wrapped.eval().module.training


def test_what_needs_no_wrapping_is_refused(world):
    with pytest.raises(RuntimeError, match="doesn't have any parameter"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids and output_device"):
        DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 2))


def test_the_sampler_asks_the_world(world):
    sampler = DistributedSampler(range(10))
    assert list(sampler) == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2] and len(sampler) == 10
    sampler.set_epoch(1)
    assert list(sampler) == [5, 6, 1, 2, 0, 8, 9, 3, 7, 4]
    assert list(DistributedSampler(range(10), 3, 1, seed=3)) == [0, 8, 9, 6]


def test_names_are_where_programs_import_them_from():
    from flambeau.distributed.distributed_c10d import ProcessGroup, _get_default_group
    from flambeau.distributed.elastic.multiprocessing.errors import record

    assert ProcessGroup is dist.ProcessGroup and callable(_get_default_group)
    assert record(len) is len
    assert repr(dist.ReduceOp.SUM) == "<RedOpType.SUM: 0>"
