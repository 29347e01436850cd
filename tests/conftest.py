"""Options and fixtures that all tests share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

# Test modules import their helpers by plain names: tests/ops/harness.py is `harness`.
sys.path.insert(0, str(Path(__file__).parent / "ops"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="the device on which op tests run")
    parser.addoption(
        "--thin", action="store_true", help="fewer samples of ops: see samples/spec.py"
    )
    parser.addoption("--slice", default="0/1", help="k/n: every n-th test or op, from the k-th on")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out of the quick tier")
    config.addinivalue_line("markers", "large: takes minutes under a sanitizer of the device")
    config.addinivalue_line("markers", "unwatched: wants what a sanitizer takes: cache, haste")
    config.addinivalue_line("markers", "layouts: asks where operands and results may lie")
    config.addinivalue_line("markers", "repeated: starts no kernels but those of other questions")
    if config.getoption("--thin"):
        from samples import spec

        spec.thin = True
    if config.getoption("--device") != "cpu":
        import flambeau

        flambeau.backends.cudnn.allow_tf32 = False  # references are exact
    config.addinivalue_line("markers", "quick: all that is not slow; a minute or two")


def _subject(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    return str(call.params["entry"]) if call and "entry" in call.params else item.nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first, step = map(int, config.getoption("--slice").split("/"))
    numbers: dict[str, int] = {}  # all questions to an op have one: they start the same kernels
    items[:] = [
        item for item in items if numbers.setdefault(_subject(item), len(numbers)) % step == first
    ]
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker("quick")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    harness = sys.modules.get("harness")
    if config.getoption("--device") == "cpu" or harness is None or not harness.NOT_IMPLEMENTED:
        return
    terminalreporter.section(f"not implemented on {config.getoption('--device')}")
    for line in sorted(harness.NOT_IMPLEMENTED):
        terminalreporter.line(line)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))
