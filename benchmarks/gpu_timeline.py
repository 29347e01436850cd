"""Two figures of PyTorch's paper, from this library's own events and counters.

Usage: python benchmarks/gpu_timeline.py [--steps 5] [--batch 64] [--trace resnet50.json]

Figure 1: the host runs ahead of the device. ResNet-50 is trained for some steps; what each layer
costs the host to ask for and the device to do is measured with the host's clock and with events,
and written as a trace that chrome://tracing and ui.perfetto.dev open. Printed is when the host has
asked for everything, and when the device has done it.

Figure 2: memory. How many pieces the allocator took from the driver and gave back in every step:
after the first steps none, since everything is found in the cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Bottleneck(nn.Module):
    """A block of ResNet-50: three convolutions around which the input is led."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        outside = 4 * width
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outside, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        return self.relu(self.norm3(self.conv3(y)) + self.around(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers)


class Recorder:
    """Spans of work: when the host asked for them, and events around them on the device."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float, Any, Any]] = []
        self.first = torch.cuda.Event(enable_timing=True)
        self.first.record()
        torch.cuda.synchronize()
        self.start = time.perf_counter()
        self.open: list[tuple[str, float, Any]] = []

    def begin(self, name: str) -> None:
        event = torch.cuda.Event(enable_timing=True)
        self.open.append((name, time.perf_counter(), event))
        event.record()

    def end(self) -> None:
        name, began, before = self.open.pop()
        after = torch.cuda.Event(enable_timing=True)
        after.record()
        self.spans.append((name, began, time.perf_counter(), before, after))

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        self.begin(name)
        yield
        self.end()

    def watch(self, model: nn.Module) -> None:
        """Records every layer that has no layers of its own, forward."""
        for name, layer in model.named_modules():
            if next(layer.children(), None) is None:
                label = f"{name} {type(layer).__name__}"
                layer.register_forward_pre_hook(lambda *_, label=label: self.begin(label))
                layer.register_forward_hook(lambda *_: self.end())

    def times(self) -> list[tuple[str, float, float, float, float]]:
        """For every span its microseconds: host from and to, device from and to."""
        torch.cuda.synchronize()
        return [
            (
                name,
                (began - self.start) * 1e6,
                (ended - self.start) * 1e6,
                self.first.elapsed_time(before) * 1e3,
                self.first.elapsed_time(after) * 1e3,
            )
            for name, began, ended, before, after in self.spans
        ]


def write_trace(spans: list[tuple[str, float, float, float, float]], path: str) -> None:
    """The spans in the format of Chrome's trace viewer: a row for the host, one for the device."""
    rows = (("host", 1), ("device", 2))
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": {"name": name}}
        for name, row in rows
    ]
    for name, host_from, host_to, device_from, device_to in spans:
        for (begin, end), (_, row) in zip(((host_from, host_to), (device_from, device_to)), rows):
            events.append(
                {"name": name, "ph": "X", "pid": 1, "tid": row, "ts": begin, "dur": end - begin}
            )
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def driver_calls() -> tuple[int, int]:
    numbers = torch.cuda.memory_stats()
    return numbers["num_device_alloc"], numbers["num_device_free"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--trace", default="resnet50.json")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(options.batch, 3, 224, 224, device="cuda")
    target = torch.randint(0, 1000, (options.batch,), device="cuda")

    def step(span: Callable[[str], Any] = lambda name: contextlib.nullcontext()) -> None:
        with span("forward"):
            loss = F.cross_entropy(model(images), target)
        with span("backward"):
            loss.backward()
        with span("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    print("memory pieces taken from and given back to the driver, by step")
    for i in range(options.steps + 3):
        taken, given = driver_calls()
        step()
        torch.cuda.synchronize()
        now_taken, now_given = driver_calls()
        print(f"  step {i}: {now_taken - taken:4d} taken, {now_given - given:4d} given back")

    recorder = Recorder()
    recorder.watch(model)
    for _ in range(options.steps):
        step(recorder.span)
    spans = recorder.times()
    write_trace(spans, options.trace)

    wholes = [span for span in spans if span[0] in ("forward", "backward", "optimizer")]
    last_host, last_device = max(s[2] for s in wholes), max(s[4] for s in wholes)
    busy = sum(s[4] - s[3] for s in wholes)
    print(
        f"{options.steps} steps: the host has asked for everything after {last_host / 1e3:.1f} ms"
    )
    print(f"  the device is done after {last_device / 1e3:.1f} ms, at work for {busy / 1e3:.1f} ms")
    print(f"  trace: {options.trace} (chrome://tracing, ui.perfetto.dev)")


if __name__ == "__main__":
    main()
