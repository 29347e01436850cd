"""The type stubs in the package are those that the built library writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_stubs_agree_with_the_registry() -> None:
    command = [sys.executable, str(ROOT / "tools" / "stubs.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "python" / "flambeau" / "py.typed").exists()
