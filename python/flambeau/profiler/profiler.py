"""`profile` with steps: waits, warms up, records, and hands the trace on."""

from __future__ import annotations

import enum
import gzip
import json
import os
import shutil
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau import cuda
from flambeau.autograd import profiler as _plain
from flambeau.autograd.profiler_util import EventList

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What can be recorded; here it is the work of the CPU and of CUDA devices."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What to do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """The CPU, and CUDA where there is a device."""
    on_device = {ProfilerActivity.CUDA} if cuda.is_available() else set()
    return {ProfilerActivity.CPU} | on_device


def kineto_available() -> bool:
    """False: the recorder is Flambeau's own."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Steps in cycles: `wait` idle ones, `warmup` ones that are thrown away, `active` ones that are
    recorded; `repeat` cycles or, for 0, cycles without end, after `skip_first` steps.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, **options: Any
) -> Callable[[profile], None]:
    """What `on_trace_ready` may be: each trace becomes a file that TensorBoard finds."""

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = "pt.trace.json.gz" if use_gzip else "pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.{ending}"))

    return handler


class profile:
    """Records what runs inside of it, by a schedule if there is one.

    Args:
        activities: what to record: the CPU's work and, by NVIDIA's library CUPTI, that of CUDA
            devices. Both by default.
        schedule: a function from the number of a step to a `ProfilerAction`, see `schedule`. Then
            the program calls `step` after each of its steps.
        on_trace_ready: called with the profiler when a cycle has been recorded.
        record_shapes: keeps the shapes of arguments.
        profile_memory: keeps how much memory ops take and give back.
        with_stack, with_flops, with_modules: PyTorch's; not recorded.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        self._asked_for = activities is not None
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or _always
        self._stepwise = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: _plain.profile | None = None
        self._step_span: Any = None
        self._metadata: dict[str, Any] = {}

    def start(self) -> None:
        """Begins, as entering the context does."""
        self._begin_if_wanted()
        self._name_step()

    def stop(self) -> None:
        """Ends, as leaving the context does."""
        self._step_span = None
        recording = self._is_recording()
        self._end()
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Tells that the program's next step begins."""
        self._step_span = None
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before == ProfilerAction.RECORD_AND_SAVE:
            self._end()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif before == ProfilerAction.WARMUP and self._wants_recording():
            self._end()  # what was seen while warming up is thrown away
        elif self.current_action == ProfilerAction.NONE:
            self._end()
        self._begin_if_wanted()
        self._name_step()

    def _wants_recording(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _is_recording(self) -> bool:
        running = self.profiler is not None and self.profiler.function_events is None
        return running and self._wants_recording()

    def _begin_if_wanted(self) -> None:
        if self.current_action == ProfilerAction.NONE:
            return
        if self.profiler is None or self.profiler.function_events is not None:
            self.profiler = self._recorder()
            try:
                self.profiler.__enter__()
            except RuntimeError as error:
                # Who did not ask for the device's time does not need what records it.
                if self._asked_for or self.profiler.use_device is None:
                    raise
                warnings.warn(f"{error} Only the CPU's work is recorded.", stacklevel=4)
                self.activities.discard(ProfilerActivity.CUDA)
                self.profiler = self._recorder()
                self.profiler.__enter__()

    def _recorder(self) -> _plain.profile:
        return _plain.profile(
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            use_cuda=ProfilerActivity.CUDA in self.activities and cuda.is_available(),
        )

    def _end(self) -> None:
        if self.profiler is not None and self.profiler.function_events is None:
            self.profiler.__exit__(None, None, None)

    def _name_step(self) -> None:
        if self._stepwise:
            span = _plain.record_function(f"ProfilerStep#{self.step_num}")
            self._step_span = span.__enter__()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def events(self) -> EventList:
        """The events of the last recording."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before accessing events")
        return self.profiler._events()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The events by name; see `EventList.key_averages`."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.profiler.key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events for `chrome://tracing` and Perfetto, compressed if the name ends so."""
        if not str(path).endswith(".gz"):
            return self.events().export_chrome_trace(path, self._metadata)
        plain = str(path)[: -len(".gz")]
        self.events().export_chrome_trace(plain, self._metadata)
        with open(plain, "rb") as source, gzip.open(path, "wb") as target:
            shutil.copyfileobj(source, target)
        os.unlink(plain)

    def add_metadata(self, key: str, value: str) -> None:
        """Keeps a text with the traces."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keeps a value, given as JSON, with the traces."""
        self._metadata[key] = json.loads(value)
