"""What `torch.cuda.amp` and `torch.cpu.amp` say of the names they had before `torch.amp`."""

from __future__ import annotations

import warnings


def warn_older_name(name: str, device: str) -> None:
    """Tells the caller of the caller which name to use."""
    args = "args..., device_type=" if name.startswith("custom") else ""
    use = f"{name}({args}'{device}'{'' if args else ', args...'})"
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{use}` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )
