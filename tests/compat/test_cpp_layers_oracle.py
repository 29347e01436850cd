"""Layers of C++ programs against those of PyTorch, from one seed: initial values and names are
equal, outputs and gradients as close as two ways to compute the same.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from compare import ORACLE

ROOT = Path(__file__).parents[2]

CHECK = """
import pathlib, sys, torch
text = pathlib.Path(sys.argv[1]).read_text()
text = text.replace("import flambeau as torch", "import torch")
names = {"__file__": sys.argv[1], "__name__": "rows"}
exec(text, names)
for layer, parts in names["read"](sys.argv[2]).items():
    if layer in ("SoftMarginLoss()", "CrossMapLRN2d(3)"):
        continue  # gives no gradient of its target; has an approximate gradient
    found = names["python_row"](layer, parts)
    if sorted(found) != sorted(parts):
        print(layer, "has", sorted(parts), "but PyTorch", sorted(found))
        continue
    for part, value in parts.items():
        exact = part.startswith(("state", "input|"))
        close = torch.equal if exact else lambda a, b: torch.allclose(a, b, 1e-4, 1e-5)
        if not close(value, found[part]):
            print(layer, part, value, "but in PyTorch", found[part])
"""


def test_layers_are_those_of_pytorch(tmp_path: Path) -> None:
    assert ORACLE is not None
    out = tmp_path / "layers.pt"
    subprocess.run([ROOT / "build" / "dev" / "flambeau_layers", out], check=True)
    rows = ROOT / "tests" / "python" / "nn" / "test_cpp_layers.py"
    told = subprocess.run([ORACLE, "-c", CHECK, rows, out], check=True, capture_output=True)
    assert told.stdout.decode() == ""
