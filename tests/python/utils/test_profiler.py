"""The profiler records ops, steps of backward and named stretches, and nothing while it is off."""

from __future__ import annotations

import gzip
import json
import threading

import pytest

import flambeau as torch
from flambeau.autograd import profiler as plain
from flambeau.autograd.profiler_util import EventList
from flambeau.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def step(net: torch.nn.Module, x: torch.Tensor) -> None:
    with record_function("forward"):
        loss = (net(x).relu() + 1).sum()
    loss.backward()


@pytest.fixture
def recorded() -> profile:
    net, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    with profile(record_shapes=True, profile_memory=True) as p:
        step(net, x)
        step(net, x)
    return p


def test_ops_and_steps_of_backward_are_counted_and_nested(recorded):
    averages = {row.key: row for row in recorded.key_averages()}
    for name in ("forward", "aten::linear", "aten::relu", "aten::add", "aten::sum", "AddBackward0"):
        assert averages[name].count == 2 and averages[name].cpu_time_total > 0
    forward = averages["forward"]
    inner = sum(averages[f"aten::{n}"].cpu_time_total for n in ("linear", "relu", "add", "sum"))
    assert forward.cpu_time_total >= inner
    assert forward.self_cpu_time_total == pytest.approx(forward.cpu_time_total - inner)
    assert forward.is_user_annotation and not averages["aten::add"].is_user_annotation
    linear = next(e for e in recorded.events() if e.name == "aten::linear")
    assert linear.input_shapes[:2] == [[2, 4], [3, 4]] and linear.cpu_parent.name == "forward"
    assert averages["aten::linear"].cpu_memory_usage == 2 * 2 * 3 * 4
    total = recorded.key_averages().total_average()
    assert total.count == len(recorded.events())


def test_the_table_is_sorted_cut_and_adds_up(recorded):
    averages = recorded.key_averages()
    lines = averages.table(sort_by="cpu_time_total", row_limit=2, header="Title").splitlines()
    assert lines[1] == "Title" and "Self CPU %" in lines[3] and "# of Calls" in lines[3]
    assert lines[5].split()[0] == "forward" and "CPU Mem" in lines[3]
    assert lines[-1].startswith("Self CPU time total: ")
    assert len(lines) == 9
    by_shape = recorded.key_averages(group_by_input_shape=True).table(row_limit=-1)
    assert "[[2, 4], [3, 4], [3]]" in by_shape
    with pytest.raises(AttributeError):
        averages.table(sort_by="no such column")


def test_a_trace_is_what_browsers_open(recorded, tmp_path):
    recorded.add_metadata("who", "me")
    recorded.add_metadata_json("sizes", "[1, 2]")
    recorded.export_chrome_trace(str(tmp_path / "a.json"))
    recorded.export_chrome_trace(str(tmp_path / "b.json.gz"))
    with open(tmp_path / "a.json") as file, gzip.open(tmp_path / "b.json.gz") as packed:
        trace = json.load(file)
        assert json.load(packed) == trace
    assert trace["who"] == "me" and trace["sizes"] == [1, 2]
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == len(recorded.events())
    assert {"aten::linear", "forward"} <= {e["name"] for e in spans}
    assert all(e["dur"] >= 0 and e["ts"] > 0 for e in spans)


def test_a_schedule_chooses_steps():
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    names = [plan(i).name for i in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    seen = []

    def ready(p: profile) -> None:
        seen.append((p.step_num, sorted({e.name for e in p.events()}), len(p.events())))

    cycle = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=cycle, on_trace_ready=ready, activities=[ProfilerActivity.CPU]) as p:
        for _ in range(9):
            torch.zeros(2).add(1)
            p.step()
    assert seen == [
        (4, ["ProfilerStep#2", "ProfilerStep#3", "aten::add", "aten::zeros"], 6),
        (8, ["ProfilerStep#6", "ProfilerStep#7", "aten::add", "aten::zeros"], 6),
    ]
    assert p.current_action == ProfilerAction.NONE


def test_traces_go_to_a_folder(tmp_path):
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "log"), "me")):
        torch.zeros(2)
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("me.") and path.name.endswith(".pt.trace.json")


def test_threads_are_told_apart():
    with plain.profile() as p:
        torch.zeros(2)
        worker = threading.Thread(target=lambda: torch.ones(3).mul(2))
        worker.start()
        worker.join()
    threads = {e.name: e.thread for e in p.function_events}
    assert threads["aten::ones"] == threads["aten::mul"] != threads["aten::zeros"]


def test_the_older_profiler_and_decorators():
    @record_function("named")
    def work() -> torch.Tensor:
        return torch.ones(2) * 3

    with plain.profile() as p:
        work()
    assert [e.name for e in p.function_events] == ["named", "aten::ones", "aten::mul"]
    assert "aten::mul" in str(p) and p.self_cpu_time_total > 0
    with plain.profile(enabled=False) as off:
        torch.ones(2)
    assert off.function_events is None
    with pytest.raises(RuntimeError, match="didn't finish"):
        off.key_averages()


def test_nothing_is_recorded_outside_and_profilers_do_not_nest():
    with record_function("before"):
        torch.ones(2)
    with plain.profile() as p, pytest.raises(RuntimeError, match="already enabled"):
        plain.profile().__enter__()
    assert len(p.function_events) == 0
    assert p.table().count("\n") > 2


def test_work_on_a_device_belongs_to_what_asked_for_it(tmp_path):
    """Rows as the core gives them: a user's stretch around two ops, of which one asked for two
    kernels; a copy that another thread asked for; a kernel of which nobody knows who asked."""
    rows = [
        ("outer", 2, 1_000, 90_000, 7, 0, []),
        ("linear", 0, 10_000, 40_000, 7, 0, []),
        ("relu", 0, 50_000, 60_000, 7, 0, []),
    ]
    kernels = [
        ("gemm", "kernel", 100_000, 150_000, 0, 5, 0, 20_000, 7),
        ("bias", "kernel", 150_000, 160_000, 0, 5, 0, 30_000, 7),
        ("relu_rows", "kernel", 160_000, 163_000, 0, 5, 0, 55_000, 7),
        ("Memcpy HtoD", "gpu_memcpy", 20_000, 24_000, 0, 6, 512, 12_000, 9),
        ("stray", "kernel", 200_000, 201_000, 1, 5, 0, 0, 0),
    ]
    events = EventList.of_records(rows, False, kernels)
    by_name = {event.name: event for event in events}
    assert [k.name for k in by_name["aten::linear"].kernels] == ["gemm", "bias"]
    assert by_name["aten::linear"].device_time_total == by_name["aten::linear"].cuda_time == 60
    assert by_name["outer"].self_device_time_total == 0
    assert by_name["outer"].device_time_total == 63
    assert by_name["gemm"].asked_by is by_name["aten::linear"]
    assert by_name["stray"].asked_by is None and by_name["Memcpy HtoD"].asked_by is None
    assert by_name["gemm"].device_type == "cuda" and by_name["gemm"].cpu_time_total == 0
    assert events.self_device_time_total == 68  # each kernel once, though its op shows it as well
    averages = events.key_averages()
    table = averages.table(sort_by="self_cuda_time_total", row_limit=3)
    assert "Self CUDA %" in table and "CUDA time avg" in table
    assert table.endswith("Self CUDA time total: 68.000us\n")
    assert table.splitlines()[3].split()[0] == "aten::linear"

    events.export_chrome_trace(str(tmp_path / "trace.json"))
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    gemm = next(e for e in found if e["name"] == "gemm")
    assert (gemm["cat"], gemm["pid"], gemm["tid"], gemm["dur"]) == ("kernel", 0, 5, 50)
    assert gemm["args"]["External id"] == by_name["aten::linear"].id
    arrows = [e for e in found if e["name"] == "ac2g" and e["id"] == by_name["gemm"].id]
    assert [arrow["ph"] for arrow in arrows] == ["s", "f"] and arrows[0]["tid"] == 7
    rows_of_devices = {e["args"]["name"] for e in found if e["ph"] == "M"}
    assert {"GPU 0", "GPU 1", "stream 5", "stream 6"} <= rows_of_devices


def test_without_a_device_only_the_cpu_is_looked_at():
    with profile(activities=[ProfilerActivity.CPU]) as p:
        torch.ones(3).sum()
    assert "CUDA" not in p.key_averages().table()
    assert all(event.device_type == "cpu" for event in p.events())
