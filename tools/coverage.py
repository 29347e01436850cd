"""Which names of an API list the package has, which of them the op samples test, and which lack.

    python tools/coverage.py core.txt [--usage usage.tsv] [--missing]

The list holds a qualified name a line (torch.add, torch.Tensor.add). The usage table is
tab-separated with the columns name, uses, repos and scope; each name weighs as many as use it.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "ops")]

import flambeau  # noqa: E402

# The classes that usage tables name without their module.
CLASSES = {
    "Tensor": "torch.Tensor",
    "Module": "torch.nn.Module",
    "Optimizer": "torch.optim.Optimizer",
    "Distribution": "torch.distributions.Distribution",
    "FunctionCtx": "torch.autograd.function.FunctionCtx",
}


def resolve(name: str) -> Any:
    """The object that a qualified name of PyTorch's stands for here; AttributeError if none."""
    parts = name.split(".")
    parts[:1] = CLASSES.get(parts[0], parts[0]).split(".")
    found: Any = flambeau
    if name.startswith(("Module.", "Optimizer.")):  # what __init__ sets, only an object has
        found, parts = example(parts[-2]), parts[-2:]
    for depth, part in enumerate(parts[1:], 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            # What a class only declares, its objects have.
            if isinstance(found, type) and part in getattr(found, "__annotations__", {}):
                return found.__annotations__[part]
            try:
                found = importlib.import_module(".".join(["flambeau", *parts[1 : depth + 1]]))
            except ImportError:
                raise AttributeError(name) from None
    return found


def example(kind: str) -> Any:
    """A module or an optimizer."""
    module = flambeau.nn.Linear(1, 1)
    return module if kind == "Module" else flambeau.optim.SGD(module.parameters(), 0.1)


def is_present(name: str) -> bool:
    try:
        resolve(name)
    except (AttributeError, NotImplementedError):  # some only say that they have no answer
        return False
    except RuntimeError:  # the answer is a GPU's, and there is none
        return True
    return True


def sampled_names() -> set[str]:
    """The last words of all names that the op samples call, in-place forms included."""
    from samples import ENTRIES

    names = set(ENTRIES).union(*(entry.covers for entry in ENTRIES.values()))
    names |= {name.split("_", 1)[1] for name in names if name.startswith(("linalg_", "fft_"))}
    return names | {f"{name}_" for name in names}


def weighted(path: Path) -> tuple[float, list[str]]:
    """The share of use that present names make up, and the missing ones, most used first."""
    with path.open(newline="") as table:
        rows = [row for row in csv.DictReader(table, delimiter="\t") if row["scope"] == "core"]
    missing = [row for row in rows if not is_present(row["name"])]
    total = sum(int(row["repos"]) for row in rows)
    lacking = sum(int(row["repos"]) for row in missing)
    return 1 - lacking / max(total, 1), [f"{row['name']} ({row['repos']})" for row in missing]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("list", type=Path, help="a qualified name a line")
    parser.add_argument("--usage", type=Path, help="a table of how often names are used")
    parser.add_argument("--missing", action="store_true", help="print every missing name")
    options = parser.parse_args()
    names = [line for line in options.list.read_text().split() if line]
    present = [name for name in names if is_present(name)]
    sampled = sampled_names()
    tested = [name for name in present if name.rsplit(".", 1)[-1] in sampled]
    absent = sorted(set(names) - set(present))
    print(f"{len(present)} of {len(names)} names present ({len(present) / len(names):.1%})")
    print(f"{len(tested)} of them are ops with samples")
    print(f"{len(absent)} missing")
    if options.missing:
        print("\n".join(f"  {name}" for name in absent))
    if options.usage:
        share, unmet = weighted(options.usage)
        print(f"{share:.2%} of use covered; most used of the {len(unmet)} missing:")
        print("\n".join(f"  {name}" for name in (unmet if options.missing else unmet[:25])))


if __name__ == "__main__":
    main()
