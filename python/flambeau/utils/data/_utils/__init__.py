"""Parts of the data loader, where programs of PyTorch look for them."""

from __future__ import annotations

import importlib.util
import sys

# How many seconds a process waits before it looks whether the one it works with is still there.
MP_STATUS_CHECK_INTERVAL = 5.0
IS_WINDOWS = sys.platform == "win32"
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
python_exit_status = False  # no iterator is alive when Python ends

from flambeau.utils.data._utils import (  # noqa: E402
    collate,
    fetch,
    pin_memory,
    signal_handling,
    worker,
)

__all__ = ["collate", "fetch", "pin_memory", "signal_handling", "worker"]
