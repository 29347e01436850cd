"""Anomaly mode: every node remembers the line that made it, and a NaN gradient stops the backward
pass.
"""

from __future__ import annotations

import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switches anomaly mode on or off: at once as a call, until the end of the block under `with`.

    Args:
        mode: on or off.
        check_nan: whether a backward function that returns NaN raises an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: Any) -> None:
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Inside it, an error in backward is reported with the line of the forward pass behind it.

    It slows everything down: for finding errors only.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *args: Any) -> None:
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)
