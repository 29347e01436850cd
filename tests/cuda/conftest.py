"""These tests need a CUDA device and are not collected without one; some need PyTorch as well."""

from __future__ import annotations

import importlib.util

import flambeau

collect_ignore_glob = [] if flambeau.cuda.is_available() else ["test_*.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob.append("test_*_oracle.py")
