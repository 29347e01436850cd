"""Times what the CUDA backend does, and PyTorch in the same run where it is installed.

Usage: python benchmarks/cuda.py. Each library runs in a process of its own, the cases are the same
text, and times are medians by events of the device. Bandwidth counts bytes read and written.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def median_ms(torch: Any, function: Callable[[], Any], repeats: int = 30) -> float:
    for _ in range(5):
        function()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2]


def host_us(torch: Any, function: Callable[[], Any], repeats: int = 500) -> float:
    """What a call costs the host: many, but fewer than a queue holds, are put into the stream
    before any is waited for. The best of several rounds, as in launch.cu: a machine has others to
    serve."""
    for _ in range(100):
        function()
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        best = min(best, time.perf_counter() - start)
    torch.cuda.synchronize()
    return best / repeats * 1e6


def bandwidth_cases(torch: Any) -> dict[str, float]:
    """Terabytes a second of kernels that are bound by memory."""
    n = 1 << 28
    results = {}
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    half = x.to(torch.float16)
    square = x.view(1 << 14, 1 << 14)
    gb = n * 4 / 1e9
    cases: dict[str, tuple[Callable[[], Any], float]] = {
        "copy": (lambda: x.clone(), 2 * gb),
        "add": (lambda: x + y, 3 * gb),
        "add number in place": (lambda: x.add_(1.0), 2 * gb),
        "exp": (lambda: torch.exp(x), 2 * gb),
        "sigmoid half": (lambda: torch.sigmoid(half), gb),
        "to half": (lambda: x.to(torch.float16), 1.5 * gb),
        "to int64": (lambda: half.to(torch.int64), 2.5 * gb),
        "compare": (lambda: x < y, 2.25 * gb),
        "broadcast add": (lambda: square + square[0], 2 * gb),
        "transposed copy": (lambda: square.t().contiguous(), 2 * gb),
        "sum": (lambda: x.sum(), gb),
        "sum rows": (lambda: square.sum(1), gb),
        "sum columns": (lambda: square.sum(0), gb),
        "argmax rows": (lambda: square.argmax(1), gb),
        "softmax rows": (lambda: torch.softmax(square, 1), 2 * gb),
    }
    for name, (function, size) in cases.items():
        results[name] = size / median_ms(torch, function)
    return results


def matmul_cases(torch: Any) -> dict[str, float]:
    """Teraflops of matrix products."""
    results = {}
    for name, size in (("float32", 8192), ("bfloat16", 8192), ("float16", 4096), ("float64", 4096)):
        dtype = getattr(torch, name)
        a, b = (
            torch.randn(size, size, device="cuda").to(dtype),
            torch.randn(size, size, device="cuda").to(dtype),
        )
        results[f"{name} {size}"] = 2 * size**3 / 1e9 / median_ms(torch, lambda: a @ b, 10)  # noqa: B023
    for dtype in (torch.float32, torch.bfloat16):
        results.update(attention_cases(torch, dtype))
    return results


def attention_cases(torch: Any, dtype: Any) -> dict[str, float]:
    """Causal attention of GPT-2 124M, counting the products that a pass cannot do without."""
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k, v = (torch.randn(16, 12, 1024, 64, device="cuda").to(dtype) for _ in range(3))
    name = str(dtype).removeprefix("torch.")
    product = 16 * 12 * 1024 * 1024 * 64 / 1e9  # half of the scores, two operations each
    forward = median_ms(torch, lambda: attend(q, k, v, is_causal=True), 10)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, is_causal=True)
    grad = torch.randn_like(out)
    backward = median_ms(
        torch, lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True), 10
    )
    return {
        f"attention {name}": 2 * product / forward,
        f"backward {name}": 5 * product / backward,
    }


def host_cases(torch: Any) -> dict[str, float]:
    """Microseconds of host time a call."""
    a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    layer = torch.nn.Linear(64, 64).to("cuda")
    x = torch.ones(8, 64, device="cuda")
    with torch.no_grad():
        results = {
            "a + b": host_us(torch, lambda: a + b),
            "a + 1.0": host_us(torch, lambda: a + 1.0),
            "sum": host_us(torch, lambda: a.sum()),
            "Linear": host_us(torch, lambda: layer(x)),
        }
        with torch.cuda.stream(torch.cuda.Stream()):
            results["a + b, side stream"] = host_us(torch, lambda: a + b)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    ).to("cuda")
    data, target = torch.randn(64, 64).to("cuda"), torch.randint(0, 10, (64,)).to("cuda")
    for name, kind in (("SGD", torch.optim.SGD), ("Adam", torch.optim.Adam)):
        optimizer = kind(model.parameters(), lr=1e-3)

        def step(optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()

        results[f"MLP step, {name}"] = host_us(torch, step, 20)
    results["MLP step, SGD, graph"] = graph_us(torch, model, data, target)
    results["chain of 100, both ways"] = host_us(torch, lambda: chain(torch, a), 5)
    return results


def chain(torch: Any, a: Any) -> None:
    """A hundred ops forward, and backward through them."""
    x = a.detach().requires_grad_()
    y = x
    for _ in range(50):
        y = y * 1.01 + 0.5
    y.sum().backward()


def graph_us(torch: Any, model: Any, data: Any, target: Any) -> float:
    """A training step that was captured: the time from replay to replay, host and device."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(300):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 300 * 1e6


def measure(library: str) -> dict[str, dict[str, float]]:
    torch = importlib.import_module(library)
    return {
        "TB/s": bandwidth_cases(torch),
        "TFLOP/s": matmul_cases(torch),
        "us of the host": host_cases(torch),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    libraries = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    answers = {}
    for library in libraries:
        done = subprocess.run([sys.executable, __file__, library], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        answers[library] = json.loads(done.stdout)
    for unit, cases in answers["flambeau"].items():
        print(f"{unit:<24}" + "".join(f"{library:>12}" for library in libraries))
        for name in cases:
            numbers = "".join(f"{answers[library][unit][name]:>12.2f}" for library in libraries)
            print(f"  {name:<22}{numbers}")


if __name__ == "__main__":
    main()
