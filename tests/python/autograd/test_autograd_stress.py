"""Autograd where it is large, long-lived, shared between threads or interrupted by exceptions."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

import flambeau as torch

SMALL_STACK = 256 * 1024

CHAIN = """
    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y
"""
WIDE = """
    x = torch.ones((), requires_grad=True)
    total = torch.stack([x * float(k % 3) for k in range(1_000_000)]).sum()
    total.backward()
    assert x.grad.item() == 999_999.0, x.grad
    del total
"""
# Through saved tensors, views, writes and custom functions too, where each step holds the next.
SAVED = """
    x = torch.ones(2, requires_grad=True)
    y = x.clone()
    for _ in range(100_000):
        y = y * y
        y[0] = 1.0
        y = y.view(2).exp() * 0.3
    y.sum().backward()
    del y
"""
CUSTOM = """
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(100_000):
        y = Same.apply(y)
    y.backward()
    assert x.grad.item() == 1.0
    del y
"""
UNUSED = """
    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    del y
"""
GRAPHS = {"chain": CHAIN, "wide": WIDE, "saved": SAVED, "custom": CUSTOM, "unused": UNUSED}


def run_under_small_stack(body: str, in_thread: bool) -> None:
    lines = textwrap.indent(textwrap.dedent(body), "    ")
    call = (
        f"threading.stack_size({SMALL_STACK})\n"
        "t = threading.Thread(target=main); t.start(); t.join()\nassert done"
        if in_thread
        else "main()"
    )
    program = f"import threading\nimport flambeau as torch\ndone = []\ndef main():{lines}"
    program += f"    done.append(1)\n{call}\n"
    limit = (SMALL_STACK, SMALL_STACK)
    subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=300, env=dict(os.environ),
        preexec_fn=None if in_thread else lambda: resource.setrlimit(resource.RLIMIT_STACK, limit),
    )  # fmt: skip


@pytest.mark.parametrize("in_thread", [False, True], ids=["process", "thread"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_huge_graph_lives_and_dies_on_a_small_stack(graph: str, in_thread: bool) -> None:
    run_under_small_stack(GRAPHS[graph], in_thread)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_training_without_the_garbage_collector_does_not_grow() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data, target = torch.randn(32, 8), torch.randint(4, (32,))

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()

    gc.collect()
    gc.disable()
    try:
        train(1000)
        before = resident_bytes()
        train(5000)
        grown = resident_bytes() - before
    finally:
        gc.enable()
    assert grown < 512 * 1024, f"{grown} bytes"


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs work(k) in threads that begin together; an exception in one is raised here."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def body(k: int) -> None:
        try:
            barrier.wait()
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_differentiate_graphs_of_their_own_with_shared_parameters() -> None:
    w = torch.ones(64, 64, dtype=torch.float64, requires_grad=True)

    def work(k: int) -> None:
        for _ in range(50):
            x = torch.full((4, 64), float(k + 1), dtype=torch.float64)
            (x @ w).sum().backward()

    in_threads(4, work)
    # Each pass adds 4 (k + 1) to every element.
    assert (w.grad == 50 * 4 * (1 + 2 + 3 + 4)).all()


def test_threads_differentiate_one_shared_graph() -> None:
    x = torch.linspace(0.1, 1.0, 1000, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(20):
        y = (y * x).sin() + y.exp() * 0.1
    loss = y.sum()
    (want,) = torch.autograd.grad(loss, x, retain_graph=True)

    def work(k: int) -> None:
        for _ in range(10):
            loss.backward(retain_graph=True)

    in_threads(4, work)
    assert torch.allclose(x.grad, 40 * want, rtol=1e-12)


def test_threads_build_on_shared_leaves_while_others_free_their_graphs() -> None:
    x = torch.ones(8, requires_grad=True)

    def work(k: int) -> None:
        for step in range(300):
            y = x * 2 if (step + k) % 2 else x.exp()
            if step % 3:
                torch.autograd.grad(y.sum(), x)
            del y

    in_threads(4, work)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 8


def test_grad_mode_belongs_to_each_thread() -> None:
    def work(k: int) -> None:
        with torch.set_grad_enabled(k % 2 == 0):
            for _ in range(200):
                y = torch.ones(2, requires_grad=True) * 2
                assert y.requires_grad == (k % 2 == 0)

    in_threads(4, work)
    assert torch.is_grad_enabled()


class Refuses(torch.autograd.Function):
    """Passes values on; its backward raises while `angry`."""

    angry = True

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        if Refuses.angry:
            raise KeyError("no")
        return g


def test_an_exception_out_of_backward_leaves_everything_usable() -> None:
    x = torch.ones(3, requires_grad=True)
    y = Refuses.apply(x * 2).exp()
    Refuses.angry = True
    with pytest.raises(KeyError, match="no"):
        y.sum().backward(retain_graph=True)
    assert x.grad is None and torch.is_grad_enabled()
    with pytest.raises(KeyError, match="no"), torch.autograd.detect_anomaly(check_nan=False):
        y.sum().backward(retain_graph=True)
    Refuses.angry = False
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * (2 * torch.ones(3)).exp())


@pytest.mark.parametrize("kind", ["tensor", "leaf", "accumulate", "node", "pre", "unpack"])
def test_an_exception_out_of_a_hook_leaves_everything_usable(kind: str) -> None:
    def angry(*_: object) -> None:
        raise ZeroDivisionError("hook")

    x = torch.ones(3, requires_grad=True)
    if kind == "unpack":
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, angry):
            y = x.exp()
    else:
        y = x.exp()
    handle = {
        "tensor": lambda: y.register_hook(angry),
        "leaf": lambda: x.register_hook(angry),
        "accumulate": lambda: x.register_post_accumulate_grad_hook(angry),
        "node": lambda: y.grad_fn.register_hook(angry),
        "pre": lambda: y.grad_fn.register_prehook(angry),
        "unpack": lambda: None,
    }[kind]()
    with pytest.raises(ZeroDivisionError, match="hook"):
        y.sum().backward(retain_graph=True)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    if handle is not None:
        handle.remove()
        x.grad = None
        y.sum().backward()
        assert torch.allclose(x.grad, x.detach().exp())
    (x * 5).sum().backward()


def test_exceptions_in_one_thread_do_not_reach_another() -> None:
    def work(k: int) -> None:
        for _ in range(50):
            x = torch.ones(3, requires_grad=True)
            y = x * 2
            if k % 2:
                y.register_hook(lambda g: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    y.sum().backward()
            else:
                y.sum().backward()
                assert x.grad.tolist() == [2.0] * 3

    in_threads(4, work)


def counted_while(work: Callable[[], object]) -> tuple[int, float]:
    """How often a Python thread gets its turn while `work` runs, and for how many seconds."""
    count, stop, started = 0, threading.Event(), threading.Event()

    def counting() -> None:
        nonlocal count
        started.set()
        while not stop.is_set():
            count += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=counting)
    thread.start()
    started.wait()
    before, begin = count, time.perf_counter()
    work()
    seconds, during = time.perf_counter() - begin, count - before
    stop.set()
    thread.join()
    return during, seconds


def test_the_interpreter_runs_while_a_kernel_computes() -> None:
    a = torch.randn(1200, 1200, dtype=torch.float64)
    a @ a
    turns, seconds = counted_while(lambda: a @ a @ a @ a)
    assert turns >= 5, f"{turns} turns in {seconds:.3f} s"


def test_the_interpreter_runs_while_the_engine_works() -> None:
    x = torch.randn(900, 900, dtype=torch.float64, requires_grad=True)
    y = (x @ x @ x @ x).sum()
    turns, seconds = counted_while(y.backward)
    assert turns >= 5, f"{turns} turns in {seconds:.3f} s"
