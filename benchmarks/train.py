"""Trains the models of PyTorch's paper, and GPT-2, for some steps: examples a second, peak memory,
and the first losses. PyTorch runs in the same call where it is installed.

Usage: python benchmarks/train.py [--device cuda] [--mode float32 bfloat16] [--models resnet50 ...]
       [--steps 20] [--scale 1.0]

In bfloat16 mode products run under autocast and images lie channels last. Each library runs in a
process of its own; the models are the same text. --scale shrinks the batches.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

torch: Any
nn: Any
F: Any


# --- Networks for images -------------------------------------------------------------------------


def alexnet() -> Any:
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096)),
        *(nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)),
    )


def vgg19() -> Any:
    layers: list[Any] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Dropout(), nn.Linear(4096, 1000))


def convolution(inside: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
    padding = kernel // 2
    conv = nn.Conv2d(inside, out, kernel, stride, padding, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out)]


def resnet50() -> Any:
    class Bottleneck(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *convolution(inside, width, 1),
                nn.ReLU(inplace=True),
                *convolution(width, width, 3, stride),
                nn.ReLU(inplace=True),
                *convolution(width, 4 * width, 1),
            )
            same = inside == 4 * width and stride == 1
            self.skip = (
                nn.Identity() if same else nn.Sequential(*convolution(inside, 4 * width, 1, stride))
            )

        def forward(self, x: Any) -> Any:
            return F.relu(self.body(x) + self.skip(x))

    blocks: list[Any] = []
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            blocks.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    stem = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*stem, *blocks, *head)


def mobilenet() -> Any:
    layers: list[Any] = [*convolution(3, 32, 3, 2), nn.ReLU()]
    inside = 32
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for width, stride in [*plan, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        layers += [*convolution(inside, inside, 3, stride, groups=inside), nn.ReLU()]
        layers += [*convolution(inside, width, 1), nn.ReLU()]
        inside = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


# --- Networks for sequences and tables -----------------------------------------------------------


def gnmt(vocabulary: int = 32000, width: int = 1024) -> Any:
    class Gnmt(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(vocabulary, width)
            self.first = nn.LSTM(width, width, bidirectional=True)
            self.encoder = nn.LSTM(2 * width, width, num_layers=3, dropout=0.2)
            self.decoder = nn.LSTM(width, width, num_layers=4, dropout=0.2)
            self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
            self.head = nn.Linear(2 * width, vocabulary)

        def forward(self, source: Any, target: Any) -> Any:
            memory = self.encoder(self.first(self.embed(source))[0])[0]
            states = self.decoder(self.embed(target))[0]
            scores = torch.einsum("tbw,sbw->bts", self.query(states), self.key(memory))
            weights = torch.softmax(scores / width**0.5, -1)
            context = torch.einsum("bts,sbw->tbw", weights, memory)
            return self.head(torch.cat([states, context], -1))

    return Gnmt()


def ncf(users: int = 138493, items: int = 26744, width: int = 64) -> Any:
    class Ncf(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
            self.user_mlp = nn.Embedding(users, 2 * width)
            self.item_mlp = nn.Embedding(items, 2 * width)
            sizes = [4 * width, 4 * width, 2 * width, width]
            layers: list[Any] = []
            for a, b in itertools.pairwise(sizes):
                layers += [nn.Linear(a, b), nn.ReLU()]
            self.mlp, self.head = nn.Sequential(*layers), nn.Linear(2 * width, 1)

        def forward(self, user: Any, item: Any) -> Any:
            product = self.user(user) * self.item(item)
            deep = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], -1))
            return self.head(torch.cat([product, deep], -1)).squeeze(-1)

    return Ncf()


def gpt2(vocabulary: int = 50304, width: int = 768, heads: int = 12, depth: int = 12) -> Any:
    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (
                part.view(b, t, heads, c // heads).transpose(1, 2)
                for part in self.qkv(self.ln_1(x)).split(c, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            places = torch.arange(ids.shape[1], device=ids.device)
            return self.head(self.ln(self.blocks(self.tokens(ids) + self.places(places))))

    return Gpt2()


# --- Steps ---------------------------------------------------------------------------------------


def image_loss(batch: int, last: bool, device: str) -> Callable[[Any], Any]:
    x = torch.randn(batch, 3, 224, 224).to(device)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    target = torch.randint(0, 1000, (batch,)).to(device)
    return lambda model: F.cross_entropy(model(x), target)


def gnmt_loss(batch: int, last: bool, device: str) -> Callable[[Any], Any]:
    source, target = (torch.randint(0, 32000, (50, batch)).to(device) for _ in range(2))
    return lambda model: F.cross_entropy(
        model(source, target).view(-1, 32000), target.view(-1), label_smoothing=0.1
    )


def ncf_loss(batch: int, last: bool, device: str) -> Callable[[Any], Any]:
    user = torch.randint(0, 138493, (batch,)).to(device)
    item = torch.randint(0, 26744, (batch,)).to(device)
    target = torch.randint(0, 2, (batch,)).to(device).float()
    return lambda model: F.binary_cross_entropy_with_logits(model(user, item).float(), target)


def gpt2_loss(batch: int, last: bool, device: str) -> Callable[[Any], Any]:
    ids = torch.randint(0, 50257, (batch, 1025)).to(device)
    return lambda model: F.cross_entropy(model(ids[:, :-1]).view(-1, 50304), ids[:, 1:].reshape(-1))


# name: model, loss, batch, examples of one batch entry, optimizer
MODELS: dict[str, tuple[Callable[[], Any], Callable[..., Any], int, int, str]] = {
    "alexnet": (alexnet, image_loss, 512, 1, "SGD"),
    "vgg19": (vgg19, image_loss, 128, 1, "SGD"),
    "resnet50": (resnet50, image_loss, 128, 1, "SGD"),
    "mobilenet": (mobilenet, image_loss, 256, 1, "SGD"),
    "gnmt": (gnmt, gnmt_loss, 128, 50, "Adam"),
    "ncf": (ncf, ncf_loss, 1 << 20, 1, "Adam"),
    "gpt2": (gpt2, gpt2_loss, 16, 1024, "AdamW"),
}


def measure(name: str, mode: str, device: str, steps: int, scale: float) -> dict[str, Any]:
    make, loss_of, batch, examples, kind = MODELS[name]
    batch = max(1, int(batch * scale))
    torch.manual_seed(0)
    reduced = mode == "bfloat16"
    images = loss_of is image_loss
    model = make().to(device)
    if reduced and images:
        model = model.to(memory_format=torch.channels_last)
    compute_loss = loss_of(batch, reduced and images, device)
    rates = {"lr": 0.01, "momentum": 0.9} if kind == "SGD" else {"lr": 1e-4}
    optimizer = getattr(torch.optim, kind)(model.parameters(), **rates)
    on_gpu = device == "cuda"

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=reduced):
            loss = compute_loss(model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step() for _ in range(5)]
    losses = [round(float(loss), 4) for loss in losses]  # waits for the device
    start = time.perf_counter()
    for _ in range(steps):
        step()
    if on_gpu:
        torch.cuda.synchronize()
    taken = (time.perf_counter() - start) / steps
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0
    return {"rate": batch * examples / taken, "peak": peak, "losses": losses}


def work(arguments: list[str]) -> None:
    global torch, nn, F
    library, name, mode, device, steps, scale = arguments
    torch = importlib.import_module(library)
    nn, F = torch.nn, importlib.import_module(f"{library}.nn.functional")
    print(json.dumps(measure(name, mode, device, int(steps), float(scale))))


def run(library: str, name: str, mode: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", library, name, mode, options.device]
    command += [str(options.steps), str(options.scale)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {options.timeout} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["died"])[-1][:150]}
    return json.loads(done.stdout)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", nargs="*", default=["float32", "bfloat16"])
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--libraries", nargs="*", default=None)
    options = parser.parse_args()
    both = ["flambeau"] + (["torch"] if importlib.util.find_spec("torch") else [])
    libraries = options.libraries or both
    print(f"{'model':<12}{'mode':<10}{'library':<10}{'examples/s':>14}{'GiB':>8}  losses")
    for mode in options.mode:
        for name in options.models:
            for library in libraries:
                answer = run(library, name, mode, options)
                line = f"{name:<12}{mode:<10}{library:<10}"
                if "error" in answer:
                    print(f"{line}{answer['error']}", flush=True)
                    continue
                print(
                    f"{line}{answer['rate']:>14,.0f}{answer['peak']:>8.2f}  {answer['losses']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
