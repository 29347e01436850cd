"""Times what the models of benchmarks/train.py are made of, forward and backward, on a GPU: where a
model is slower than PyTorch's, the layer that makes it so stands out.

Usage: python benchmarks/layers.py [--only gpt2] [--rounds 20]

Each library runs in a process of its own. Numbers are milliseconds of the device, medians.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

torch: Any
nn: Any
F: Any

Step = Callable[[], Any]


def trained(module: Any, *inputs: Any, low: bool = False) -> tuple[Step, Step]:
    """Forward, and forward with backward, of a module or function; with autocast if `low`."""
    if hasattr(module, "cuda"):
        module = module.cuda()
    leaves = [x for x in inputs if getattr(x, "requires_grad", False)]
    leaves += list(module.parameters()) if hasattr(module, "parameters") else []

    def forward() -> Any:
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            return module(*inputs)

    grad = torch.ones_like(forward())

    def both() -> Any:
        for leaf in leaves:
            leaf.grad = None
        forward().backward(grad)

    return forward, both


def images(n: int, c: int, size: int, low: bool) -> Any:
    x = torch.randn(n, c, size, size, device="cuda")
    if low:
        x = x.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    return x.requires_grad_()


def vectors(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype or torch.float32).requires_grad_()


def last(module: Any, low: bool) -> Any:
    return module.to(memory_format=torch.channels_last) if low else module


def convolution(
    n: int, a: int, b: int, size: int, k: int, stride: int, low: bool
) -> tuple[Step, Step]:
    conv = last(nn.Conv2d(a, b, k, stride, k // 2, bias=False), low)
    return trained(conv, images(n, a, size, low), low=low)


def batch_norm(c: int, size: int, low: bool) -> tuple[Step, Step]:
    return trained(nn.BatchNorm2d(c), images(128, c, size, low), low=low)


def recurrent(low: bool) -> tuple[Step, Step]:
    x = torch.randn(50, 128, 1024, device="cuda").requires_grad_()
    return trained(First(nn.LSTM(1024, 1024, 4, dropout=0.2).cuda()), x, low=low)


def optimizer_step(kind: str) -> tuple[Step, Step]:
    shapes = [(50304, 768)] + [(2304, 768), (768, 768), (3072, 768), (768, 3072), (768,)] * 12
    params = [torch.randn(*s, device="cuda").requires_grad_() for s in shapes]
    for p in params:
        p.grad = torch.randn_like(p.detach())
    rates = {"lr": 0.01, "momentum": 0.9} if kind == "SGD" else {"lr": 1e-4}
    optimizer = getattr(torch.optim, kind)(params, **rates)
    return optimizer.step, optimizer.step


def gpt2_cases(low: bool) -> dict[str, Callable[[], tuple[Step, Step]]]:
    dtype = torch.bfloat16 if low else torch.float32
    heads = [torch.randn(16, 1024, 12, 64, device="cuda", dtype=dtype).transpose(1, 2)] * 3
    target = torch.randint(0, 50257, (16384,), device="cuda")

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def add_up(x: Any, y: Any) -> Any:
        return x + y

    return {
        "linear 768-3072": lambda: trained(nn.Linear(768, 3072), vectors(16384, 768), low=low),
        "linear 3072-768": lambda: trained(nn.Linear(3072, 768), vectors(16384, 3072), low=low),
        "linear 768-50304": lambda: trained(
            nn.Linear(768, 50304, bias=False), vectors(16384, 768), low=low
        ),
        "layer norm": lambda: trained(nn.LayerNorm(768), vectors(16384, 768), low=low),
        "gelu tanh": lambda: trained(nn.GELU("tanh"), vectors(16384, 3072, dtype=dtype), low=low),
        "residual": lambda: trained(add_up, vectors(16384, 768), vectors(16384, 768, dtype=dtype)),
        "cross entropy": lambda: trained(
            lambda x: F.cross_entropy(x, target), vectors(16384, 50304, dtype=dtype), low=low
        ),
        "attention": lambda: trained(attend, *(x.detach().requires_grad_() for x in heads)),
        "embedding": lambda: trained(nn.Embedding(50304, 768), target),
    }


def vision_cases(low: bool) -> dict[str, Callable[[], tuple[Step, Step]]]:
    def relu(x: Any) -> Any:
        return F.relu(x)

    cases: dict[str, Callable[[], tuple[Step, Step]]] = {}
    shapes = [(3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1)]
    shapes += [(256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (256, 256, 14, 3, 1)]
    shapes += [(1024, 256, 14, 1, 1), (512, 512, 7, 3, 1), (2048, 512, 7, 1, 1)]
    for a, b, size, k, stride in shapes:
        name = f"conv {a}-{b} {k}x{k}/{stride} {size}"
        cases[name] = partial(convolution, 128, a, b, size, k, stride, low)
    for c, size in ((64, 112), (256, 56), (512, 28), (1024, 14), (2048, 7)):
        cases[f"batch norm {c} {size}"] = partial(batch_norm, c, size, low)
    cases["relu 256 56"] = lambda: trained(relu, images(128, 256, 56, low))
    cases["max pool 64 112"] = lambda: trained(nn.MaxPool2d(3, 2, 1), images(128, 64, 112, low))
    cases["max pool 2 64 224"] = lambda: trained(nn.MaxPool2d(2), images(32, 64, 224, low))
    cases["average pool"] = lambda: trained(nn.AdaptiveAvgPool2d(1), images(128, 2048, 7, low))
    cases["conv with bias 64-64 3x3 224"] = lambda: trained(
        last(nn.Conv2d(64, 64, 3, 1, 1), low), images(32, 64, 224, low), low=low
    )
    return cases


def all_cases() -> dict[str, Callable[[], tuple[Step, Step]]]:
    cases: dict[str, Callable[[], tuple[Step, Step]]] = {}
    for low in (False, True):
        mode = "bf16" if low else "fp32"
        for group, made in (("gpt2", gpt2_cases(low)), ("vision", vision_cases(low))):
            for name, make in made.items():
                cases[f"{group} {mode} {name}"] = make
    for kind in ("SGD", "Adam", "AdamW"):
        cases[f"gpt2 {kind} step"] = partial(optimizer_step, kind)
    for low in (False, True):
        mode = "bf16" if low else "fp32"
        cases[f"gnmt {mode} lstm of four layers"] = partial(recurrent, low)
    return cases


class First:
    """The first of a module's results."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.parameters = module.parameters

    def __call__(self, x: Any) -> Any:
        return self.module(x)[0]


def median_ms(step: Step, rounds: int) -> float:
    for _ in range(3):
        step()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def work(library: str, only: str, rounds: int) -> None:
    global torch, nn, F
    torch = importlib.import_module(library)
    nn, F = torch.nn, importlib.import_module(f"{library}.nn.functional")
    answers: dict[str, list[Any]] = {}
    for name, make in all_cases().items():
        if only not in name:
            continue
        try:
            forward, both = make()
            with torch.no_grad():
                alone = median_ms(forward, rounds)
            answers[name] = [alone, median_ms(both, rounds)]
        except Exception as problem:
            answers[name] = [str(problem)[:80], ""]
        torch.cuda.empty_cache()
    print(json.dumps(answers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--worker", default="")
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.only, options.rounds)
    libraries = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    found: dict[str, dict[str, list[Any]]] = {}
    for library in libraries:
        command = [sys.executable, __file__, "--worker", library, "--only", options.only]
        command += ["--rounds", str(options.rounds)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(library, done.stderr[-500:])
            continue
        found[library] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{'ms: forward, with backward':<44}" + "".join(f"{name:>22}" for name in found))
    for name in next(iter(found.values()), {}):
        row = f"{name:<44}"
        for answers in found.values():
            a, b = answers.get(name, ["", ""])
            both = f"{a:>10.3f}{b:>12.3f}" if isinstance(a, float) else f"{a!s:>22}"
            row += both
        print(row)


if __name__ == "__main__":
    main()
