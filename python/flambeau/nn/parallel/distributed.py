"""DistributedDataParallel: a module whose gradients are averaged over the processes of a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Runs a module in each process of a group and averages their gradients.

    In a group of one process, the only kind there is, gradients are their own average: it is the
    module itself, with the checks, names and attributes that programs rely on.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        from flambeau.distributed._group import _group_or_default

        super().__init__()
        self.process_group = _group_or_default(process_group)
        parameters = [p for p in module.parameters() if p.requires_grad]
        if not parameters:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        devices = {p.device for p in module.parameters()}
        self.is_multi_device_module = len(devices) > 1
        self._check_devices(device_ids, output_device, devices)
        self.device_ids = None if not device_ids else [_index(d) for d in device_ids]
        self.output_device = (
            self.device_ids[0] if self.device_ids and output_device is None else output_device
        )
        self.module = module
        self.device = next(iter(devices))
        self.device_type = self.device.type
        self.dim = dim
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.mixed_precision = mixed_precision
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((bucket_cap_mb or 25) * 1024 * 1024)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))

    def _check_devices(self, device_ids: Any, output_device: Any, devices: set[Any]) -> None:
        if not device_ids and output_device is None:
            return
        kinds = {device.type for device in devices}
        if self.is_multi_device_module or kinds == {"cpu"} or len(device_ids or ()) > 1:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters {devices}."
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.device_ids:
            from flambeau.nn.parallel.scatter_gather import scatter

            moved = scatter((inputs, kwargs), self.device_ids, self.dim)
            inputs, kwargs = moved[0]
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside do not average gradients."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, **kwargs: Any
    ) -> Iterator[None]:
        """Lets processes with fewer batches wait for the others; alone there is none to wait."""
        yield

    def will_sync_module_buffers(self) -> bool:
        """Whether forward would bring buffers of several processes in line."""
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and any(True for _ in self.module.buffers())
        )

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Raises: gradients of one process are not exchanged, so a hook would never be called."""
        raise RuntimeError(
            "register_comm_hook: the gradients of one process are not exchanged, a communication "
            "hook would never be called"
        )

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """Splits arguments among devices, as DataParallel does."""
        from flambeau.nn.parallel.scatter_gather import scatter

        return scatter(inputs, device_ids, self.dim), scatter(kwargs, device_ids, self.dim)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Joins the results of several devices, as DataParallel does."""
        from flambeau.nn.parallel.scatter_gather import gather

        return gather(outputs, output_device, dim=self.dim)


def _index(device: Any) -> Any:
    import flambeau

    return device if isinstance(device, int) else flambeau.device(device).index
