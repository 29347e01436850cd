"""Two figures of PyTorch's paper, from this library's own events and counters.

Usage: python benchmarks/gpu_timeline.py [--steps 5] [--batch 64] [--trace resnet50.json]

Figure 1: the host runs ahead of the device. ResNet-50 is trained for some steps under the profiler,
whose trace (chrome://tracing and ui.perfetto.dev open it) has the ops that the host asked for, the
kernels in the rows of their streams, and arrows between them. Printed is when the host has asked
for everything, and when the device has done it.

Figure 2: memory. How many chunks the allocator took from the driver and gave back in every step:
after the first steps none, since everything is found in the cache.
"""

from __future__ import annotations

import argparse

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.profiler import ProfilerActivity, profile, record_function


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

    def step() -> None:
        with record_function("forward"):
            loss = F.cross_entropy(model(images), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    print("memory chunks taken from and given back to the driver, by step")
    for i in range(options.steps + 3):
        taken, given = driver_calls()
        step()
        torch.cuda.synchronize()
        now_taken, now_given = driver_calls()
        print(f"  step {i}: {now_taken - taken:4d} taken, {now_given - given:4d} given back")

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    for _ in range(2):  # the first recording sets the tracer up
        with profile(activities=activities) as recorded:
            for _ in range(options.steps):
                step()
    recorded.export_chrome_trace(options.trace)

    events = recorded.events()
    kernels = [event for event in events if event.device_type == "cuda"]
    last_host = max(event.time_range.end for event in events if event.device_type == "cpu")
    last_device = max(event.time_range.end for event in kernels)
    steps, busy = options.steps, events.self_device_time_total
    print(f"{steps} steps: the host has asked for everything after {last_host / 1e3:.1f} ms")
    print(f"  the device is done after {last_device / 1e3:.1f} ms, at work for {busy / 1e3:.1f} ms")
    print(f"  trace: {options.trace} (chrome://tracing, ui.perfetto.dev)")
    print(recorded.key_averages().table(sort_by="self_cuda_time_total", row_limit=15))


if __name__ == "__main__":
    main()
