"""Trains the models of PyTorch's paper, GPT-2, BERT and a vision transformer for some steps:
examples a second, peak memory, and the first losses, beside PyTorch.

Usage: python benchmarks/train.py [--device cuda] [--mode float32 bfloat16] [--models resnet50 ...]
       [--rounds 1] [--steps 20] [--scale 1.0] [--oracle PYTHON] [--losses]

Each library runs in a process of its own and both take turns, so that a busy moment of the machine
hits both alike; the best round counts. The models are the same text. In bfloat16 mode products run
under autocast and images lie channels last. --oracle (or FLAMBEAU_ORACLE) names an interpreter that
has PyTorch, where this one has not. Peak memory is the allocator's on a GPU; on the CPU it is the
process's largest resident size less what it was before the model was made.

--losses compares the losses of all steps instead: how far ours lie from PyTorch's at most, relative
to these, and beside it what rounding alone does: PyTorch's own distance from PyTorch with the last
bit of every initial weight changed at random, and in bfloat16 that of PyTorch's losses in float32.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
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
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            positions = torch.arange(ids.shape[1], device=ids.device)
            return self.head(self.ln(self.blocks(self.tokens(ids) + self.positions(positions))))

    return Gpt2()


def encoder(width: int, heads: int, depth: int, **options: Any) -> Any:
    """The layers that BERT-base and ViT-B share: 12 of width 768."""
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, activation="gelu", batch_first=True, **options
    )
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def bert(vocabulary: int = 30522, width: int = 768) -> Any:
    class Bert(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
            self.ln, self.drop = nn.LayerNorm(width, 1e-12), nn.Dropout(0.1)
            self.layers = encoder(width, 12, 12, layer_norm_eps=1e-12)
            self.transform, self.ln_head = nn.Linear(width, width), nn.LayerNorm(width, 1e-12)
            self.head = nn.Linear(width, vocabulary)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            positions = torch.arange(ids.shape[1], device=ids.device)
            x = self.drop(self.ln(self.tokens(ids) + self.positions(positions)))
            return self.head(self.ln_head(F.gelu(self.transform(self.layers(x)))))

    return Bert()


def vit(width: int = 768, patch: int = 16) -> Any:
    class Vit(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.mark = nn.Parameter(torch.zeros(1, 1, width))
            self.positions = nn.Parameter(torch.randn(1, (224 // patch) ** 2 + 1, width) * 0.02)
            self.layers = encoder(width, 12, 12, norm_first=True, dropout=0.0)
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.mark.expand(x.shape[0], -1, -1), x], 1) + self.positions
            return self.head(self.ln(self.layers(x))[:, 0])

    return Vit()


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


def bert_loss(batch: int, last: bool, device: str) -> Callable[[Any], Any]:
    ids = torch.randint(0, 30522, (batch, 128)).to(device)
    masked = torch.where(torch.rand(batch, 128) < 0.15, ids.cpu(), -100).to(device)
    return lambda model: F.cross_entropy(model(ids).view(-1, 30522), masked.view(-1))


# name: model, loss, batch on a GPU and on the CPU, examples of one batch entry, optimizer
MODELS: dict[str, tuple[Callable[[], Any], Callable[..., Any], int, int, int, str]] = {
    "alexnet": (alexnet, image_loss, 512, 16, 1, "SGD"),
    "vgg19": (vgg19, image_loss, 128, 4, 1, "SGD"),
    "resnet50": (resnet50, image_loss, 128, 8, 1, "SGD"),
    "mobilenet": (mobilenet, image_loss, 256, 16, 1, "SGD"),
    "gnmt": (gnmt, gnmt_loss, 128, 4, 50, "Adam"),
    "ncf": (ncf, ncf_loss, 1 << 20, 1 << 13, 1, "Adam"),
    "gpt2": (gpt2, gpt2_loss, 16, 1, 1024, "AdamW"),
    "bert": (bert, bert_loss, 64, 4, 128, "AdamW"),
    "vit": (vit, image_loss, 128, 4, 1, "AdamW"),
}


def resident() -> float:
    """The largest resident size of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def change_last_bits(model: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            up = torch.rand(weight.shape, generator=generator) < 0.5
            weight.copy_(torch.nextafter(weight, torch.where(up, torch.inf, -torch.inf)))


def training(name: str, mode: str, device: str, batch: int, shaken: bool) -> Callable[[], Any]:
    """A function that does one step and returns the loss."""
    make, loss_of, _, _, _, kind = MODELS[name]
    torch.manual_seed(0)
    reduced = mode == "bfloat16"
    images = loss_of is image_loss
    model = make()
    if shaken:
        change_last_bits(model)
    model = model.to(device)
    if reduced and images:
        model = model.to(memory_format=torch.channels_last)
    compute_loss = loss_of(batch, reduced and images, device)
    rates = {"lr": 0.01, "momentum": 0.9} if kind == "SGD" else {"lr": 1e-4}
    optimizer = getattr(torch.optim, kind)(model.parameters(), **rates)

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=reduced):
            loss = compute_loss(model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def work(arguments: list[str]) -> None:
    """Answers each number of steps read from standard input with time, memory and losses."""
    global torch, nn, F
    library, name, mode, device, threads, batch = arguments
    shaken = library == "shaken"
    torch = importlib.import_module("torch" if shaken else library)
    nn, F = torch.nn, importlib.import_module(f"{torch.__name__}.nn.functional")
    torch.set_num_threads(int(threads))
    at_first = resident()
    step = training(name, mode, device, int(batch), shaken)
    for line in sys.stdin:
        start = time.perf_counter()
        losses = [step() for _ in range(int(line))]
        values = [float(loss) for loss in losses]  # waits for the device
        taken = time.perf_counter() - start
        on_gpu = device == "cuda"
        peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else resident() - at_first
        print(json.dumps({"taken": taken, "peak": peak, "losses": values}), flush=True)


class Worker:
    """A process that trains one model with one library."""

    def __init__(self, interpreter: str, arguments: list[str], timeout: float) -> None:
        environment = dict(os.environ)
        if arguments[0] == "flambeau":
            environment.setdefault("PYTHONPATH", str(Path(__file__).parents[1] / "python"))
        else:
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [interpreter, __file__, "--worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.timeout = timeout

    def steps(self, count: int) -> dict[str, Any] | None:
        """The answer, or None where the process died or took too long."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        alarm = threading.Timer(self.timeout, self.process.kill)
        alarm.start()
        try:
            stdin.write(f"{count}\n")
            stdin.flush()
            return json.loads(stdout.readline() or "null")
        except BrokenPipeError:
            return None
        finally:
            alarm.cancel()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def start_workers(
    name: str, mode: str, batch: int, libraries: list[str], options: argparse.Namespace
) -> dict[str, Worker]:
    problem = [name, mode, options.device, str(options.threads), str(batch)]
    oracle = options.oracle or sys.executable
    return {
        library: Worker(
            sys.executable if library == "flambeau" else oracle,
            [library, *problem],
            options.timeout,
        )
        for library in libraries
    }


def batch_of(name: str, options: argparse.Namespace) -> int:
    _, _, on_gpu, on_cpu, _, _ = MODELS[name]
    return max(1, int((on_gpu if options.device == "cuda" else on_cpu) * options.scale))


def compare_losses(name: str, mode: str, options: argparse.Namespace) -> None:
    """Prints one line: the first and last losses, and how far others lie from PyTorch's."""
    batch = batch_of(name, options)
    runs = [("torch", mode), ("flambeau", mode), ("shaken", mode), ("torch", "float32")]
    losses: list[list[float]] = []
    for library, precision in runs if mode != "float32" else runs[:-1]:
        worker = start_workers(name, precision, batch, [library], options)[library]
        answer = worker.steps(options.steps)
        worker.end()
        if answer is None:
            return print(f"{name:<12}{mode:<10}{library} died", flush=True)
        losses.append(answer["losses"])

    def apart(values: list[float]) -> float:
        return max(abs(a - b) / abs(b) for a, b in zip(values, losses[0], strict=True))

    distances = "".join(f"{apart(values):>9.1e}" for values in losses[1:])
    ends = "  ".join(f"{values[0]:.5f} .. {values[-1]:.5f}" for values in losses)
    print(f"{name:<12}{mode:<10}{distances:<27}  {ends}", flush=True)


def compare(name: str, mode: str, options: argparse.Namespace) -> None:
    """Prints one line a library."""
    batch, examples = batch_of(name, options), MODELS[name][4]
    workers = start_workers(name, mode, batch, options.libraries, options)
    first = {library: worker.steps(3) for library, worker in workers.items()}
    rounds: dict[str, list[dict[str, Any] | None]] = {library: [] for library in workers}
    for _ in range(options.rounds):
        for library, worker in workers.items():
            rounds[library].append(worker.steps(options.steps))
    for library, worker in workers.items():
        worker.end()
        line = f"{name:<12}{batch:<8}{mode:<10}{library:<10}"
        start, answers = first[library], rounds[library]
        done = [answer for answer in answers if answer]
        if start is None or len(done) < len(answers):
            print(f"{line}died, or took more than {options.timeout} s", flush=True)
            continue
        rate = batch * examples * options.steps / min(answer["taken"] for answer in done)
        peak = max(answer["peak"] for answer in done)
        losses = [round(loss, 4) for loss in start["losses"]]
        print(f"{line}{rate:>14,.2f}{peak:>8.2f}  {losses}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", nargs="*", default=["float32", "bfloat16"])
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--oracle", default=os.environ.get("FLAMBEAU_ORACLE"))
    parser.add_argument("--libraries", nargs="*", default=None)
    parser.add_argument("--losses", action="store_true")
    options = parser.parse_args()
    has_torch = options.oracle or importlib.util.find_spec("torch")
    options.libraries = options.libraries or ["flambeau"] + (["torch"] if has_torch else [])
    if options.losses:
        titles = f"{'ours':>9}{'last bit':>9}{'float32':>9}  PyTorch's, ours, the others'"
        print(f"{'model':<12}{'mode':<10}{titles}")
    else:
        titles = f"{'library':<10}{'examples/s':>14}{'GiB':>8}  losses"
        print(f"{'model':<12}{'batch':<8}{'mode':<10}{titles}")
    for mode in options.mode:
        for name in options.models:
            (compare_losses if options.losses else compare)(name, mode, options)


if __name__ == "__main__":
    main()
