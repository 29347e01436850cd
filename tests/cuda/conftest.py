"""These tests need a CUDA device and are not collected without one; some need PyTorch as well.
After each of them the device's memory must be as it was before."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator

import pytest

import flambeau

collect_ignore_glob = [] if flambeau.cuda.is_available() else ["test_*.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("test_*_oracle.py")


@pytest.fixture(autouse=True)
def memory_is_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test allocated is gone when it is over; reports of failures hold on to it."""
    gc.collect()
    before, failures = flambeau.cuda.memory_allocated(), request.session.testsfailed
    yield
    if request.session.testsfailed > failures:
        return
    flambeau.cuda.synchronize()
    gc.collect()
    left = flambeau.cuda.memory_allocated() - before
    assert left <= 0, f"{left} bytes of the device's memory are still in use after the test"
