"""Trains the networks of train_on_gpu.cpp in the same steps, and prints the same figures.

Usage: python benchmarks/cpp/train_on_gpu.py [cuda|cpu] [ROUNDS]
"""

from __future__ import annotations

import sys
import time

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.hidden, self.out = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(torch.max_pool2d(self.first(x), 2))
        x = torch.relu(torch.max_pool2d(self.second(x), 2))
        return self.out(torch.relu(self.hidden(x.flatten(1))))


def convolution(inside: int, out: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inside, out, kernel, stride, kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(out)]


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        body = [*convolution(inside, width, 1), nn.ReLU(inplace=True)]
        body += [*convolution(width, width, 3, stride), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*body, *convolution(width, 4 * width, 1))
        same = inside == 4 * width and stride == 1
        self.skip = nn.Sequential(*([] if same else convolution(inside, 4 * width, 1, stride)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + (self.skip(x) if len(self.skip) else x))


def resnet50() -> nn.Module:
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers, *head)


def train(
    name: str, net: nn.Module, shape: tuple[int, ...], classes: int, device: str, *counts: int
) -> None:
    rounds, steps = counts
    net.to(device)
    x = torch.randn(shape).to(device)
    target = torch.randint(classes, (shape[0],)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    best = float("inf")
    for round_ in range(rounds + 1):  # the first one warms up
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device
        if round_ > 0:
            best = min(best, (time.perf_counter() - start) / steps)
    print(f"{name:10} {best * 1e3:9.3f} ms a step, loss {loss.item():.4f}", flush=True)


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    small = device == "cpu"
    torch.manual_seed(0)
    train("mnist", Digits(), (64, 1, 28, 28), 10, device, rounds, 20 if small else 500)
    images = (2 if small else 128, 3, 224, 224)
    train("resnet50", resnet50(), images, 1000, device, rounds, 1 if small else 20)


if __name__ == "__main__":
    main()
