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
        self._add_event(message(5, summary), global_step, walltime)

    def add_graph(self, graph: bytes, run_metadata: bytes, walltime: float | None = None) -> None:
        """Appends a graph and what is known of its run."""
        self._add_event(message(4, graph), None, walltime)
        self._add_event(message(8, text(1, "step1") + message(2, run_metadata)), None, walltime)

    def _add_event(self, what: bytes, global_step: int | None, walltime: float | None) -> None:
        event = fixed64(1, time.time() if walltime is None else walltime)
        if global_step is not None:
            event += varint(2, int(global_step))
        self._records.write(event + what)
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
        self._embeddings: list[str] = []
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
        content = summary.scalar(tag, scalar_value, new_style, double_precision)
        self._add(content, global_step, walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a tensor as it stands."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

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

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Adds an image with rectangles on it; it takes the package Pillow."""
        content = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(content, global_step, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Adds films, (N, T, C, H, W), side by side; it takes the package Pillow."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

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

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds precision and recall that were computed elsewhere."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts)
        rows = (*counts, false_negative_counts, precision, recall)
        self._add(summary.pr_curve_raw(tag, rows, num_thresholds), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds points in space, (N, points, 3), with their colours and triangles."""
        content = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(content, global_step, walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Adds the graph of what a model does to an input, or to a tuple of them."""
        from flambeau.utils.tensorboard import _graph

        graph = _graph.model_graph(model, input_to_model, verbose)
        self._get_file_writer().add_graph(graph, _graph.run_metadata())

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Adds the graph of a model in a file of ONNX; it takes the package onnx."""
        from flambeau.utils.tensorboard import _graph

        self._get_file_writer().add_graph(_graph.onnx_graph(prototxt), _graph.run_metadata())

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Adds points, a row of ``mat`` each, to the projector, with labels and pictures."""
        from urllib.parse import quote

        from flambeau.utils.tensorboard._projector import write_embedding

        step = f"{global_step or 0:05d}"
        place = f"{step}/{quote(tag, safe='')}"
        entry = write_embedding(
            self.log_dir, place, f"{tag}:{step}", mat, metadata, label_img, metadata_header
        )
        self._embeddings.append(entry)
        path = os.path.join(self.log_dir, "projector_config.pbtxt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(self._embeddings)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Adds that scalars are drawn as lines of one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Adds that three scalars are drawn as a line between two others."""
        if len(tags) != 3:
            raise AssertionError(f"expected three tags, got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

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
