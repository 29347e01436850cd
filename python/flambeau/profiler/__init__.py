"""The profiler with a schedule: which steps of a loop are recorded, and what becomes of them."""

from __future__ import annotations

from flambeau.autograd import DeviceType
from flambeau.autograd.profiler import record_function
from flambeau.profiler import itt
from flambeau.profiler._core import _ExperimentalConfig
from flambeau.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "_ExperimentalConfig",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
