"""State dicts and states of optimizers that PyTorch, Flambeau in Python and Flambeau in C++ save
are read by the other two: every bit is the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from compare import ORACLE

PROGRAM = """
import collections, hashlib, json, os, sys
from torch_module import nn, optim

def digest(t):
    numbers = torch.view_as_real(t.detach().resolve_conj()) if t.is_complex() else t.detach()
    raw = numbers.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return [type(t).__name__, str(t.dtype), list(t.shape), list(t.stride()), t.storage_offset(),
            t.requires_grad, t.is_conj(), hashlib.sha1(raw).hexdigest()]

def describe(o):
    if isinstance(o, torch.Tensor):
        return digest(o)
    if isinstance(o, dict):
        pairs = [[repr(k), describe(v)] for k, v in o.items()]
        return [type(o).__name__, pairs, repr(getattr(o, "_metadata", None))]
    if isinstance(o, (list, tuple)):
        return [type(o).__name__, [describe(v) for v in o]]
    return repr(o)

def made():
    torch.manual_seed(0)
    x, ids = torch.randn(4, 6), torch.tensor([[1, 2, 0], [3, 3, 1]])
    models = {
        "linear": (nn.Linear(6, 3), x), "bilinear": (nn.Bilinear(6, 6, 2), (x, x)),
        "norms": (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.LayerNorm(4)), x),
        "conv": (nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.ReLU()),
                 x.view(1, 1, 4, 6)),
        "deconv": (nn.ConvTranspose1d(4, 2, 3), x.view(1, 4, 6)), "prelu": (nn.PReLU(4), x),
        "embedding": (nn.Embedding(5, 4), ids), "bag": (nn.EmbeddingBag(5, 4), ids),
        "lstm": (nn.LSTM(6, 5, 2, bidirectional=True), x.view(2, 2, 6)),
        "gru": (nn.GRUCell(6, 4), x), "group": (nn.GroupNorm(2, 4), x.view(1, 4, 6)),
        "instance": (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), x.view(1, 4, 6)),
        "attention": (nn.MultiheadAttention(6, 2), (x, x, x)),
        "encoder": (nn.TransformerEncoderLayer(6, 2, 8), x),
        "nested": (nn.ModuleDict({"a": nn.ModuleList([nn.Linear(6, 6)])}), None),
    }
    for name, (model, inputs) in models.items():
        model.double() if name == "lstm" else model
        yield name, model.state_dict()
    kinds = {
        "sgd": (optim.SGD, {"lr": 0.1}), "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        "adam": (optim.Adam, {"lr": 0.01}), "amsgrad": (optim.Adam, {"amsgrad": True}),
        "adamw": (optim.AdamW, {"betas": (0.8, 0.9)}), "adamax": (optim.Adamax, {}),
        "adagrad": (optim.Adagrad, {}), "adadelta": (optim.Adadelta, {}),
        "rmsprop": (optim.RMSprop, {"centered": True, "momentum": 0.5}), "rprop": (optim.Rprop, {}),
        "nadam": (optim.NAdam, {}), "radam": (optim.RAdam, {}), "asgd": (optim.ASGD, {}),
    }
    for name, (kind, options) in kinds.items():
        net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
        optimizer = kind(net.parameters(), **options)
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        yield name, optimizer.state_dict()
    yield "checkpoint", {
        "model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "big": 10**25,
        "rng": torch.get_rng_state(), "note": "täxt", "shared": [x, x.t(), x[1]],
        "set": {1}, "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "bytes": bytes(range(256)),
        "device": torch.device("cuda", 1), "parameter": nn.Parameter(x[:2]), "z": 1 - 2j,
    }
    yield "dtypes", collections.OrderedDict(
        (str(d), x.to(d)) for d in (
            torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
            torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.uint16))

found = {}
for task in sys.argv[1:]:
    what, folder = task.split("=")
    if what == "save":
        for name, value in made():
            found[f"{folder}/{name}"] = describe(value)
            torch.save(value, f"{folder}/{name}.pt")
    else:
        for file in sorted(os.listdir(folder)):
            loaded = torch.load(f"{folder}/{file}", weights_only=True)
            found[f"{folder}/{file[:-3]}"] = describe(loaded)
print(json.dumps(found))
"""


def run(module: str, *tasks: str) -> dict[str, object]:
    """What a library says of the values that it saved or loaded."""
    source = f"import {module} as torch\n{PROGRAM.replace('torch_module', module)}"
    interpreter = sys.executable if module == "flambeau" else str(ORACLE)
    command = [interpreter, "-W", "ignore", "-c", source, *tasks]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def exchange(source: Path, target: Path) -> None:
    """Reads every file of a folder in C++, and writes it into another."""
    target.mkdir()
    (program, *_) = Path(__file__).parents[2].glob("build/*/flambeau_exchange")
    pairs = [str(f) for file in sorted(source.iterdir()) for f in (file, target / file.name)]
    done = subprocess.run([str(program), *pairs], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout


def test_what_one_of_three_saves_the_other_two_read_bit_for_bit(tmp_path: Path):
    folders = {name: tmp_path / name for name in ("torch", "flambeau")}
    saved = {}
    for module, folder in folders.items():
        folder.mkdir()
        saved.update(run(module, f"save={folder}"))
        exchange(folder, tmp_path / f"{module}_cpp")
    written = [*folders.values(), *(tmp_path / f"{name}_cpp" for name in folders)]
    assert len(saved) == 60
    for module in folders:
        for path, found in run(module, *(f"load={folder}" for folder in written)).items():
            assert found == saved[path.replace("_cpp/", "/")], (module, path)
