"""Comparisons with PyTorch are collected only when FLAMBEAU_ORACLE names an interpreter with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if os.environ.get("FLAMBEAU_ORACLE") else ["test_*.py"]


@pytest.fixture(scope="session")
def comparison() -> Iterator[Any]:
    from compare import Comparison

    both = Comparison()
    yield both
    both.close()


@pytest.fixture(scope="session")
def exact() -> Iterator[Any]:
    """A comparison that allows no difference in any value."""
    from compare import Comparison

    both = Comparison(tolerances={})
    yield both
    both.close()
