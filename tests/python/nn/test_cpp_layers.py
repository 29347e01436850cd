"""Layers of C++ programs against those of Python, from one seed: initial values, names, outputs and
gradients are equal, bit for bit. tests/cpp/layers/layers.cpp has a row a layer.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import flambeau as torch

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "build" / "dev" / "flambeau_layers"


def read(file: Path) -> dict[str, dict[str, Any]]:
    """By the text of a layer: what the program wrote of it, part and name by tensor."""
    rows: dict[str, dict[str, Any]] = {}
    for key, tensor in torch.load(file).items():
        layer, part = key.split("|", 1)
        rows.setdefault(layer, {})[part] = tensor
    return rows


def flat(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        if hasattr(result, "loss"):  # of AdaptiveLogSoftmaxWithLoss: a number in C++
            return [result.output]
        return [tensor for part in result for tensor in flat(part)]
    return [] if result is None else [result]


def python_row(layer: str, parts: dict[str, Any]) -> dict[str, Any]:
    """The same layer made and called here."""
    torch.manual_seed(0)
    module = eval(f"nn.{layer}", {"nn": torch.nn})
    found = {f"state|{name}": value.detach().clone() for name, value in module.state_dict().items()}
    inputs = [value.clone() for part, value in parts.items() if part.startswith("input|")]
    for i, value in enumerate(inputs):
        found[f"input|{i}"] = value.detach().clone()
        if value.is_floating_point():
            value.requires_grad_()
    torch.manual_seed(1)
    outputs = flat(module(*inputs))
    for i, value in enumerate(outputs):
        found[f"output|{i}"] = value.detach()
    sums = [(value * value).sum() for value in outputs if value.requires_grad]
    if sums:
        total = sums[0]
        for part in sums[1:]:
            total = total + part
        total.backward()
    for name, value in module.named_parameters():
        if value.grad is not None:
            found[f"gradient|{name}"] = value.grad
    for i, value in enumerate(inputs):
        if value.grad is not None:
            found[f"input gradient|{i}"] = value.grad
    return found


def differences(rows: dict[str, dict[str, Any]]) -> list[str]:
    wrong = []
    for layer, parts in rows.items():
        found = python_row(layer, parts)
        if sorted(found) != sorted(parts):
            wrong.append(f"{layer}: has {sorted(parts)}, but Python {sorted(found)}")
            continue
        for part, value in parts.items():
            if not torch.equal(value, found[part]):
                wrong.append(f"{layer}: {part} is\n{value}\nbut in Python\n{found[part]}")
    return wrong


def test_layers_are_those_of_python(tmp_path: Path) -> None:
    out = tmp_path / "layers.pt"
    subprocess.run([PROGRAM, out], check=True)
    assert not (wrong := differences(read(out))), "\n".join(wrong)
