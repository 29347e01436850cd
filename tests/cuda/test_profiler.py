"""The profiler tells the time of kernels, and which op asked for them."""

from __future__ import annotations

import json
from pathlib import Path

import flambeau as torch
from flambeau.profiler import ProfilerActivity, profile, record_function, supported_activities


def record() -> profile:
    a = torch.randn(512, 512, device="cuda", requires_grad=True)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        with record_function("forward"):
            y = (a @ a).relu().sum()
        y.backward()
        torch.ones(3).cuda()
    return recorded


def test_ops_have_the_time_of_their_kernels() -> None:
    assert ProfilerActivity.CUDA in supported_activities()
    recorded = record()
    averages = {row.key: row for row in recorded.key_averages()}
    product, forward = averages["aten::matmul"], averages["forward"]
    assert 1 < product.device_time_total < 1e4  # microseconds
    assert forward.device_time_total >= product.device_time_total
    assert averages["aten::relu"].self_device_time_total > 0
    kernels = [event for event in recorded.events() if event.device_type == "cuda"]
    assert any(event.name == "Memcpy HtoD" for event in kernels)
    # Nobody's are what the engine itself asks for, such as the gradient that backward begins with.
    assert sum(event.asked_by is not None for event in kernels) >= 0.75 * len(kernels)
    backward = [row for name, row in averages.items() if name.endswith("Backward0")]
    assert sum(row.device_time_total for row in backward) > 0
    table = recorded.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA time total" in table


def test_kernels_run_after_they_were_asked_for_and_on_the_same_clock() -> None:
    recorded = record()
    kernels = [e for e in recorded.events() if e.device_type == "cuda" and e.asked is not None]
    assert kernels
    for kernel in kernels:
        assert -50 < kernel.time_range.start - kernel.asked < 1e6  # microseconds


def test_a_trace_has_a_row_for_each_stream(tmp_path: Path) -> None:
    side = torch.cuda.Stream()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        torch.randn(1000, device="cuda").exp()
        with torch.cuda.stream(side):
            torch.zeros(1000, device="cuda").cos()
    path = tmp_path / "trace.json"
    recorded.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    rows = {(e["pid"], e["tid"]) for e in events if e.get("cat") == "kernel"}
    assert len(rows) == 2 and {pid for pid, _ in rows} == {0}
    assert sum(e["name"] == "ac2g" and e["ph"] == "f" for e in events) > 0
