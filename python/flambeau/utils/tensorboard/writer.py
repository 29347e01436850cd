"""SummaryWriter: writes what a program measures to event files, which TensorBoard opens."""

from __future__ import annotations

import os
import time

from flambeau.utils.tensorboard import summary
from flambeau.utils.tensorboard._records import RecordWriter, fixed64, message, text, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

__all__ = ["FileWriter", "SummaryWriter"]

_files_opened = 0


class FileWriter:
    """Appends events to a new file in a folder.

    Args:
        log_dir: the folder, made if there is none.
        max_queue: how many events may wait before they are handed to the system.
        flush_secs: for how long they may.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        import socket

        global _files_opened
        self._log_dir = os.fspath(log_dir)
        os.makedirs(self._log_dir, exist_ok=True)
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}."
            f"{_files_opened}{filename_suffix}"
        )
        _files_opened += 1
        self._records = RecordWriter(open(os.path.join(self._log_dir, name), "wb"))  # noqa: SIM115
        self._max_queue, self._flush_secs = max_queue, flush_secs
        self._waiting, self._flushed = 0, time.monotonic()
        self._records.write(fixed64(1, time.time()) + text(3, "brain.Event:2"))
        self.flush()

    def get_logdir(self) -> str:
        """The folder."""
        return self._log_dir

    def add_summary(
        self, summary: bytes, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Appends an event with a summary."""
        event = fixed64(1, time.time() if walltime is None else walltime)
        if global_step is not None:
            event += varint(2, int(global_step))
        self._records.write(event + message(5, summary))
        self._waiting += 1
        late = time.monotonic() - self._flushed > self._flush_secs
        if late or self._waiting > self._max_queue:
            self.flush()

    def flush(self) -> None:
        """Hands all events to the system."""
        self._records.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._records.close()


def _default_folder(comment: str) -> str:
    import socket
    from datetime import datetime

    now = datetime.now().strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")


class SummaryWriter:
    """Writes numbers, histograms, images and the like, each under a tag and at a step.

    Args:
        log_dir: the folder; by default one below ``runs`` named after the time and the machine.
        comment: ends the name of the default folder.
        purge_step: accepted for compatibility: TensorBoard hides events of a crashed run by the
            order of steps.
        max_queue: how many events may wait before they are handed to the system.
        flush_secs: for how long they may.
        filename_suffix: the end of the names of event files.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = os.fspath(log_dir) if log_dir else _default_folder(comment)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The file of this writer, opened anew when it was closed."""
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
        return self.file_writer

    def _add(self, content: bytes, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(content, step, walltime)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Adds a number."""
        self._add(summary.scalar(tag, scalar_value, new_style), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds several numbers that are drawn together, each to a file of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            path = os.path.join(folder, f"{main_tag.replace('/', '_')}_{tag}")
            if path not in writers:
                writers[path] = FileWriter(path, *self._options)
            writers[path].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Adds how often values fall between edges."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a histogram that was computed elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        content = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(content, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Adds an image."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Adds a batch of images, side by side."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Adds a figure of matplotlib, or a list of them, and closes it."""
        import numpy

        figures = figure if isinstance(figure, list) else [figure]
        pictures = []
        for one in figures:
            one.canvas.draw()
            pictures.append(numpy.asarray(one.canvas.buffer_rgba())[..., :3])
            if close:
                import matplotlib.pyplot

                matplotlib.pyplot.close(one)
        picture = numpy.stack(pictures)
        self._add(summary.image(tag, picture, "NHWC"), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Adds a sound of one channel."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a text."""
        self._add(summary.text_summary(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds precision and recall of a binary classifier."""
        content = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(content, global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Any]) -> None:
        """Adds which scalars are drawn together."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Adds the hyperparameters of a run and what they led to, in a folder of their own."""
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for part in parts:
                writer._add(part, None, None)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Hands all events to the system."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flushes and closes all files; a later event opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
