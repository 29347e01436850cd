"""The rest of torch.cuda: kernels from text, events between processes, hooks of graphs, handles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.cuda import jiterator
from flambeau.multiprocessing.reductions import rebuild_event, reduce_event

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32]
CODE = "template <typename T> T weighted(T x, T y, T alpha) { return -x + alpha * y; }"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_from_text(dtype: torch.dtype) -> None:
    weighted = jiterator.create_jit_fn(CODE, alpha=1)
    x = torch.randint(-9, 9, (33, 1), device="cuda").to(dtype)
    y = torch.randint(-9, 9, (40, 7), device="cuda").to(dtype).t()[:, ::2]
    x = x[:7]
    assert weighted(x, y).equal(-x + y) and weighted(x, y).dtype == dtype
    assert weighted(x, y, alpha=3).equal(-x + 3 * y)
    assert weighted(x[:0], y[:0]).shape == (0, 20)
    with pytest.raises(KeyError, match="beta"):
        weighted(x, y, beta=2)
    with pytest.raises(RuntimeError, match="CUDA device"):
        weighted(x.cpu(), y.cpu())


def test_functions_from_text_promote_and_may_have_several_results() -> None:
    square = jiterator.create_jit_fn(
        "template <typename T> T twice(T x) { return x + x; }"
        "template <typename T> T f(T x) { return twice(x) * x; }"
    )
    x = torch.arange(5, device="cuda")
    assert square(x).tolist() == [0, 2, 8, 18, 32]
    both = jiterator.create_multi_output_jit_fn(
        "template <typename T> void f(T x, T y, T k, T& sum, T& difference)"
        "{ sum = x + k * y; difference = x - k * y; }",
        num_outputs=2,
        k=1.0,
    )
    half = torch.full((5,), 0.5, device="cuda")
    total, difference = both(x, half, k=2.0)
    assert total.dtype == torch.float32 and total.tolist() == [1, 2, 3, 4, 5]
    assert difference.tolist() == [-1, 0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="compilation failed"):
        jiterator.create_jit_fn("template <typename T> T f(T x) { return x +; }")(x)
    with pytest.raises(NotImplementedError, match="complex64"):
        square(torch.ones(2, dtype=torch.complex64, device="cuda"))


def test_kernels_from_text() -> None:
    source = """
    extern "C" __global__ void scale(const float* from, float* to, float factor, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) to[i] = factor * from[i];
    }
    """
    scale = torch.cuda._compile_kernel(source, "scale")
    x, out = torch.arange(1000.0, device="cuda"), torch.empty(1000, device="cuda")
    scale((4, 1, 1), (256, 1, 1), [x, out, 2.5, 1000])
    assert out.equal(x * 2.5)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    scale((4, 1, 1), (256, 1, 1), [x, out, 3.0, 1000], stream=stream)
    stream.synchronize()
    assert out.equal(x * 3)
    with pytest.raises(ValueError, match="CUDA tensors"):
        scale((1, 1, 1), (1, 1, 1), [x.cpu(), out, 3.0, 1])


OTHER = """
import sys
import flambeau as torch
event = torch.cuda.Event.from_ipc_handle(0, bytes.fromhex(sys.argv[1]))
event.wait()
event.synchronize()
print(event.query())
"""


def test_events_are_opened_by_other_processes() -> None:
    event = torch.cuda.Event(interprocess=True)
    torch.ones(5, device="cuda").sum()
    event.record()
    handle = event.ipc_handle()
    assert len(handle) == 64
    answer = subprocess.run(
        [sys.executable, "-c", OTHER, handle.hex()], capture_output=True, text=True, timeout=120
    )
    assert answer.stdout.strip() == "True", answer.stderr
    assert event.device == torch.device("cuda", 0) and torch.cuda.Event().device is None
    name, (device, same) = reduce_event(event)
    assert name is rebuild_event and device == 0 and same == handle
    assert torch.cuda.Event(interprocess=True).ipc_handle() != handle
    with pytest.raises(RuntimeError, match="interprocess=True"):
        torch.cuda.Event().ipc_handle()
    with pytest.raises(ValueError, match="64 bytes"):
        torch.cuda.Event.from_ipc_handle("cuda", b"short")


def test_hooks_of_graphs(tmp_path: Path) -> None:
    seen: list[str] = []
    x = torch.zeros(4, device="cuda")
    everywhere = torch.cuda.graphs.register_graph_replay_end_hook(lambda g: seen.append("all"))
    for keep in (False, True):
        seen.clear()
        graph = torch.cuda.CUDAGraph(keep_graph=keep)
        graph.register_capture_start_hook(lambda g: seen.append("start"))
        graph.register_capture_end_hook(lambda g: seen.append("end"))
        graph.register_post_instantiate_hook(lambda g: seen.append("made"))
        before = graph.register_replay_start_hook(lambda g: seen.append("replay"))
        path = tmp_path / f"graph{keep}.dot"
        graph.register_capture_end_hook(torch.cuda.export_dot(str(path)))
        with torch.cuda.graph(graph):
            x.add_(1)
        graph.replay()
        before.remove()
        graph.replay()
        assert seen == ["start", "end", "made", "replay", "all", "all"]
        assert "digraph" in path.read_text()
    everywhere.remove()
    graph.replay()
    assert len(seen) == 6 and x.tolist() == [5.0] * 4


def test_handles_of_libraries() -> None:
    assert torch.cuda.current_solver_handle() == torch.cuda.current_solver_handle() != 0
    assert torch.cuda.current_blas_handle() not in (0, torch.cuda.current_solver_handle())
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    with pytest.raises(RuntimeError, match="in use"):
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")


def test_guards_and_offsets_by_their_private_names() -> None:
    before = torch.cuda.current_device()
    with torch.cuda._DeviceGuard(0):
        assert torch.cuda.current_device() == 0
    with torch.cuda._DeviceGuard(-1):
        assert torch.cuda.current_device() == before
    assert torch.cuda._exchange_device(-1) == -1
    torch.cuda.manual_seed(3)
    offset = torch.cuda._get_rng_state_offset()
    first = torch.rand(5, device="cuda")
    assert torch.cuda._get_rng_state_offset() > offset
    torch.cuda._set_rng_state_offset(offset)
    assert torch.rand(5, device="cuda").equal(first)
    assert torch.cuda._get_generator("cuda").initial_seed() == 3


def test_page_locked_memory_is_given_back() -> None:
    x = torch.ones(1 << 20).pin_memory()
    held = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    assert held >= 4 << 20
    del x
    torch.accelerator.empty_host_cache()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] <= held - (4 << 20)
