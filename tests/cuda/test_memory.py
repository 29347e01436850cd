"""The caching allocator on a real device; its logic is tested without one in tests/cpp."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn


def driver_calls() -> int:
    numbers = torch.cuda.memory_stats()
    return numbers["num_device_alloc"] + numbers["num_device_free"]


def test_statistics_have_pytorchs_names() -> None:
    x = torch.ones(100, device="cuda")
    numbers = torch.cuda.memory_stats()
    for kind in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for part in ("current", "peak", "allocated", "freed"):
                assert f"{kind}.{pool}.{part}" in numbers
    assert numbers["allocated_bytes.all.current"] >= 512
    nested = torch.cuda.memory_stats_as_nested_dict()
    assert nested["allocation"]["all"]["current"] == numbers["allocation.all.current"]
    summary = torch.cuda.memory_summary()
    assert "Allocated memory" in summary and "from large pool" in summary
    assert "from large pool" not in torch.cuda.memory_summary(abbreviated=True)
    del x


def test_training_asks_the_driver_for_nothing_after_the_first_iterations() -> None:
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(32, 3, 64, 64, device="cuda")
    calls = []
    for _ in range(8):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        calls.append(driver_calls())
    assert calls[2:] == [calls[2]] * 6


def test_a_snapshot_shows_blocks_and_the_ops_that_made_them() -> None:
    x = torch.ones(1 << 20, device="cuda")
    y = torch.exp(x)
    blocks = {b["address"]: b for s in torch.cuda.memory_snapshot() for b in s["blocks"]}
    block = blocks[y.data_ptr()]
    assert block["state"] == "active_allocated" and block["size"] == 4 << 20
    assert block["frames"][0]["name"] == "exp"
    for segment in torch.cuda.memory_snapshot():
        assert segment["total_size"] == sum(b["size"] for b in segment["blocks"])


def test_history_can_be_recorded_and_written(tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history(max_entries=1000)
    x = torch.ones(1 << 20, device="cuda")
    address = x.data_ptr()
    del x
    torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    actions = [e["action"] for e in snapshot["device_traces"][0] if e["addr"] == address]
    assert actions[-2:] == ["alloc", "free_completed"]


def test_a_fraction_of_the_memory_is_a_limit() -> None:
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    allowed = torch.cuda.memory_reserved() + (256 << 20)
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(allowed / total, 1e-3)
        held = torch.exp(torch.zeros(32 << 20, device="cuda"))
        with pytest.raises(torch.OutOfMemoryError, match=r"allowed.*asked for by: .*exp 128"):
            torch.zeros(64 << 20, device="cuda")
        del held
        assert torch.zeros(40 << 20, device="cuda").sum().item() == 0
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="Invalid fraction value"):
        torch.cuda.set_per_process_memory_fraction(1.5)


def test_a_pool_keeps_its_memory_to_itself() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.ones(1 << 20, device="cuda")
    outside = torch.ones(1 << 20, device="cuda")
    assert pool.use_count() == 1
    addresses = [b["address"] for s in pool.snapshot() for b in s["blocks"]]
    assert x.data_ptr() in addresses and outside.data_ptr() not in addresses


def test_raw_memory_can_be_taken_and_given_back() -> None:
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(1000)
    assert torch.cuda.memory_allocated() - before == 1024
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before


def test_scattered_memory_serves_a_large_tensor() -> None:
    torch.cuda.empty_cache()
    parts = [torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(16)]
    reserved = torch.cuda.memory_reserved()
    del parts[::2]
    whole = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() <= reserved + (64 << 20)
    assert int(whole.sum(dtype=torch.int64)) == 256 << 20


def test_lengths_that_vary_leave_little_memory_unused() -> None:
    torch.manual_seed(0)
    random.seed(0)
    torch.cuda.empty_cache()
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2000):
        x = torch.randn(8, random.randint(16, 512), 256, device="cuda")
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    used, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    assert reserved <= 1.15 * used, (reserved, used)
