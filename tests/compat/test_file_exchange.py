"""Files exchanged with PyTorch, both ways: what one library saves, the other loads as the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from compare import ORACLE

OBJECTS = """
import collections, sys
torch.manual_seed(0)
x = torch.arange(12.0).view(3, 4)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
for p in net.parameters():
    torch.nn.init.constant_(p, 0.5)
conv = torch.nn.Conv2d(2, 3, 3)
torch.nn.init.constant_(conv.weight, 0.25)
torch.nn.init.constant_(conv.bias, 0.5)
adam = torch.optim.Adam(net.parameters(), lr=0.01)
net(torch.ones(4, 3)).sum().backward()
adam.step()
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sgd.step()
schedule = torch.optim.lr_scheduler.StepLR(sgd, 2)
generator = torch.Generator().manual_seed(3)
objects = {
    "float": x, "double": x.double(), "half": x.half(), "bfloat16": x.bfloat16(),
    "long": x.long(), "int": x.int(), "short": x.short(), "char": x.to(torch.int8),
    "byte": x.to(torch.uint8), "bool": x > 3, "complex": torch.complex(x, -x),
    "complex128": torch.complex(x.double(), x.double()), "uint16": x.to(torch.uint16),
    "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "transposed": x.t(),
    "slice": x[1:, ::2], "expanded": torch.ones(1).expand(5), "shared": [x, x[0], x.view(-1)],
    "parameter": torch.nn.Parameter(x), "frozen": torch.nn.Parameter(x, requires_grad=False),
    "requires_grad": x.clone().requires_grad_(), "channels_last":
        torch.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "state_dict": net.state_dict(), "convolution": conv.state_dict(), "adam": adam.state_dict(),
    "sgd": sgd.state_dict(), "schedule": schedule.state_dict(),
    "ordered": collections.OrderedDict(b=1, a=[2, (3, None)]), "plain":
        {"s": "text", "n": 1.5, "t": (1, 2), "set": {1, 2}, "b": b"bytes", "big": 10**30, "z": 1j},
    "dtype": [torch.float16, torch.int64], "size": torch.Size([2, 3]),
    "device": torch.device("cpu"), "layout": torch.strided, "counter": collections.Counter("aab"),
    "generator": generator.get_state(), "sparse": x.to_sparse(), "rows": x.to_sparse_csr(),
    "columns": x.to_sparse_csc(), "uncoalesced":
        torch.sparse_coo_tensor([[1, 1, 0]], torch.ones(3, 2), (2, 2)),
    "conjugate": torch.complex(x, x).conj(), "negative": x._neg_view(),
}
"""
DESCRIBE = """
def describe(o):
    if isinstance(o, torch.Tensor):
        kind = "Parameter" if isinstance(o, torch.nn.Parameter) else "Tensor"
        if o.layout is not torch.strided:
            return (str(o.layout), str(o.dtype), tuple(o.shape), o._nnz(), o.to_dense().tolist())
        numbers = torch.view_as_real(o.detach().resolve_conj()) if o.is_complex() else o.detach()
        return (kind, str(o.dtype), tuple(o.shape), o.stride(), o.storage_offset(),
                o.requires_grad, numbers.double().tolist())
    if isinstance(o, dict):
        return (type(o).__name__, [(k, describe(v)) for k, v in o.items()])
    if isinstance(o, (list, tuple)):
        return (type(o).__name__, [describe(v) for v in o])
    if isinstance(o, set):
        return sorted(o)
    return repr(o)
"""
# PyTorch itself cannot read all it writes in the format before 1.6.
KINDS = """
zipped = sys.argv[2] == "zip"
if not zipped:
    del objects["uint16"]
"""
SAVE = """
for name, value in objects.items():
    torch.save(value, f"{sys.argv[1]}/{name}.pt", _use_new_zipfile_serialization=zipped)
"""
LOAD = """
import json
found = {}
for name in objects:
    loaded = torch.load(f"{sys.argv[1]}/{name}.pt")
    found[name] = [repr(describe(loaded)), repr(describe(objects[name]))]
    if name == "shared":
        loaded[0][0, 0] = 99
        found["shared memory"] = [str(loaded[1][0].item()), "99.0"]
print(json.dumps(found))
"""


def run(interpreter: str, module: str, program: str, *arguments: str) -> str:
    """The output of a program with `torch` being one of the libraries."""
    source = f"import {module} as torch\n{program}"
    command = [interpreter, "-c", source, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("kind", ["zip", "old"])
@pytest.mark.parametrize("writer", ["flambeau", "torch"])
def test_files_of_one_library_are_those_of_the_other(writer: str, kind: str, tmp_path: Path):
    import json

    pythons = {"flambeau": sys.executable, "torch": str(ORACLE)}
    reader = "torch" if writer == "flambeau" else "flambeau"
    where = (str(tmp_path), kind)
    run(pythons[writer], writer, OBJECTS + KINDS + SAVE, *where)
    answer = run(pythons[reader], reader, OBJECTS + KINDS + DESCRIBE + LOAD, *where)
    found = json.loads(answer.splitlines()[-1])
    assert len(found) > 30
    different = {name: pair for name, (*pair,) in found.items() if pair[0] != pair[1]}
    assert not different
