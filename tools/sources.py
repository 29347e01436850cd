"""Which files of the repository the checks in this folder look at."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP_SUFFIXES = (".cpp", ".h", ".cu", ".cuh")


def source_files(*suffixes: str) -> Iterator[Path]:
    """Files that git tracks, or would track, with one of the suffixes; relative to ROOT."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in sorted(set(listing.stdout.splitlines())):
        if name.endswith(suffixes) and (ROOT / name).is_file():
            yield Path(name)
