"""DataParallel: a module that splits its batch among the devices of one process."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter

__all__ = ["DataParallel", "data_parallel"]


def _device(device: Any) -> Any:
    return flambeau.device("cuda", device) if isinstance(device, int) else flambeau.device(device)


def _all_devices() -> list[Any]:
    count = flambeau.cuda.device_count() if flambeau.cuda.is_available() else 0
    return [_device(index) for index in range(count)]


class DataParallel(Module):
    """Runs a module on the CUDA devices of this process, a part of the batch on each.

    Without any such device it is the module itself.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        devices = _all_devices() if device_ids is None else [_device(d) for d in device_ids]
        self.device_ids = [device.index if device.type == "cuda" else device for device in devices]
        if not devices:
            return
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.src_device_obj = devices[0]
        if len(devices) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            if tensor.device != self.src_device_obj:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{self.src_device_obj} (device_ids[0]) but found one of them on device: "
                    f"{tensor.device}"
                )
        return data_parallel(
            self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs
        )


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """One call of DataParallel as a function."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    keywords = module_kwargs or {}
    devices = _all_devices() if device_ids is None else [_device(d) for d in device_ids]
    if not devices:
        return module(*arguments, **keywords)
    scattered = scatter(arguments, devices, dim) if arguments else [()]
    named: list[dict[str, Any]] = scatter(keywords, devices, dim) if keywords else []
    # A batch smaller than the number of devices leaves some of them idle.
    used = max(len(scattered), len(named))
    rows = [*scattered, *([()] * (used - len(scattered)))]
    options = [*named, *({} for _ in range(used - len(named)))]
    if used == 1:
        return module.to(devices[0])(*rows[0], **options[0])
    replicas = replicate(module, devices[:used], detach=not flambeau.is_grad_enabled())
    outputs = parallel_apply(replicas, rows, options, devices[:used])
    target = devices[0] if output_device is None else _device(output_device)
    return gather(outputs, target, dim)
