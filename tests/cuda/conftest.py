"""These tests need a CUDA device and are not collected without one."""

from __future__ import annotations

import flambeau

collect_ignore_glob = [] if flambeau.cuda.is_available() else ["test_*.py"]
