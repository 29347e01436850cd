"""Fails when a header is included against the layering of the library.

Each folder may include itself and the folders that its row names. Backends (cpu, cuda) plug into
slots, so no row names them. `python tools/layers.py` prints every offending line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sources import CPP_SUFFIXES, ROOT, source_files

ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "tensor": {"base"},
    "kernels": {"base", "tensor"},
    "cpu": {"base", "tensor", "kernels"},
    "cuda": {"base", "tensor", "kernels"},
    "autograd": {"base", "tensor", "kernels"},
    "ops": {"base", "tensor", "kernels", "autograd"},
    "api": {"base", "tensor", "autograd", "ops", "io"},
    "io": {"base", "tensor", "autograd", "ops"},
    "nn": {"base", "api", "io"},
    "optim": {"base", "api", "io", "nn"},
    "data": {"base", "api", "io", "nn"},
    "frontend": {"base", "tensor", "autograd", "api", "io"},
    "dist": {"base", "tensor", "autograd", "ops"},
    "python": {"base", "tensor", "kernels", "autograd", "ops", "api", "nn", "optim", "io", "dist"},
}

# Single headers that a folder may include beyond its row, and why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("autograd", "flambeau/ops/ops.h"): "formulas call ops; the header only declares them",
    ("api", "flambeau/torch.h"): "printed from the registry; the header says what stands behind it",
    ("api", "flambeau/kernels/math_mode.h"): "what programs choose for all kernels",
    ("nn", "flambeau/torch.h"): "what C++ programs include",
    ("optim", "flambeau/torch.h"): "what C++ programs include",
    ("optim", "flambeau/serialize.h"): "archives for those who include the printed header",
    ("data", "flambeau/torch.h"): "what C++ programs include",
    ("frontend", "flambeau/torch.h"): "what C++ programs include",
    ("tensor", "cuda_fp16.h"): "under nvcc the 16-bit types convert with the device's instructions",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
PYTHON_HEADER = re.compile(r"^(Python\.h|nanobind/|pybind11/|numpy/)")
CUDA_HEADER = re.compile(
    r"^(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|cub/|thrust/)"
)
CUDA_CALL = re.compile(
    r"\b(cuda[A-Z]\w+|cublas\w+|cudnn(?!_is_available)\w+)\s*\(|<<<.*>>>|\b__global__\b"
)


def layer_of(path: Path) -> str | None:
    """The row of ALLOWED that a file belongs to; tests and tools belong to none."""
    if path.parts[0] == "flambeau" and len(path.parts) > 2:
        return path.parts[1]
    if path.parts[:2] == ("python", "src"):
        return "python"
    return None


def include_problem(layer: str, quote: str, header: str) -> str | None:
    """What is wrong with including `header` in `layer`, or None."""
    if (layer, header) in EXCEPTIONS:
        return None
    if PYTHON_HEADER.match(header) and layer != "python":
        return f"only python/ may include {header}"
    if CUDA_HEADER.match(header) and layer != "cuda":
        return f"only flambeau/cuda may include {header}"
    if quote == "<":
        return None
    if header.startswith(("python/src/", "python/extension/")):
        return None if layer == "python" else "the library must not know Python"
    if not header.startswith("flambeau/"):
        return f'write "{header}" from the root of the repository'
    target = header.split("/")[1]
    if target == layer or target in ALLOWED[layer]:
        return None
    return f"{layer} may not include {target}"


def file_problems(path: Path, layer: str) -> list[str]:
    problems = []
    for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1):
        match = INCLUDE.match(line)
        problem = include_problem(layer, match[1], match[2]) if match else None
        code = line.split("//")[0]
        if problem is None and layer != "cuda" and CUDA_CALL.search(code):
            problem = "only flambeau/cuda may use CUDA"
        if problem:
            problems.append(f"{path}:{number}: {problem}")
    return problems


def main() -> int:
    problems: list[str] = []
    for path in source_files(*CPP_SUFFIXES, ".def"):
        layer = layer_of(path)
        if layer is None:
            continue
        if layer not in ALLOWED:
            problems.append(f"{path}: folder {layer} has no row in tools/layers.py")
        else:
            problems.extend(file_problems(path, layer))
    print("\n".join(problems) if problems else "layers: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
