"""Summaries: one value of a tag each (a number, a histogram, an image, text, ...), as the bytes of
TensorFlow's Summary message. Arrays pass through NumPy.
"""

from __future__ import annotations

import struct
import zlib

from flambeau.utils.tensorboard._records import (
    doubles,
    fixed32,
    fixed64,
    integer,
    message,
    text,
    varint,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

__all__ = [
    "audio",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "make_np",
    "mesh",
    "png",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text_summary",
    "video",
]

_STRING_TENSOR, _FLOAT_TENSOR, _DOUBLE_TENSOR = 7, 1, 2


def make_np(x: Any) -> Any:
    """A tensor, a number or a sequence as a NumPy array."""
    import numpy

    if isinstance(x, numpy.ndarray):
        return x
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        return (x if str(x.dtype) != "torch.bfloat16" else x.float()).numpy()
    if isinstance(x, str):
        raise NotImplementedError(f"a number, an array or a tensor was expected, got str {x!r}")
    return numpy.asarray([x] if numpy.isscalar(x) else x)


def _value(tag: str, content: bytes) -> bytes:
    """A summary of one value."""
    return message(1, text(1, tag) + content)


def _metadata(plugin: str, content: bytes = b"") -> bytes:
    """Which part of TensorBoard shows a value."""
    return message(9, message(1, text(1, plugin) + message(2, content)))


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> bytes:
    """A number."""
    number = make_np(float(value) if isinstance(value, str) else value)
    if number.size != 1:
        raise AssertionError(f"scalar should be 0D or one element, got shape {number.shape}")
    number = float(number.reshape(()))
    if not new_style:
        return _value(tag, fixed32(2, number))
    if double_precision:
        tensor = varint(1, _DOUBLE_TENSOR) + doubles(6, [number])
    else:
        tensor = varint(1, _FLOAT_TENSOR) + message(5, struct.pack("<f", number))
    return _value(tag, message(8, tensor) + _metadata("scalars"))


# Histograms ---------------------------------------------------------------------------------------
def _default_edges() -> Any:
    """Edges that grow by a tenth from 1e-12 to 1e20, on both sides of zero."""
    import numpy

    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return numpy.array([-edge for edge in reversed(positive)] + [0.0] + positive)


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> bytes:
    """How often the values fall between edges."""
    import numpy

    values = make_np(values).reshape(-1).astype(float)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = numpy.histogram(values, _default_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), step))
        edges = numpy.append(edges[:-1:step], edges[-1])
    filled = numpy.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    # One empty bucket in front says where the first one begins.
    first, last = filled[0], filled[-1] + 1
    limits = [edges[first], *edges[first + 1 : last + 1]]
    return histogram_raw(
        tag,
        values.min(),
        values.max(),
        values.size,
        values.sum(),
        values.dot(values),
        limits,
        [0, *counts[first:last]],
    )


def histogram_raw(
    tag: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Sequence[float],
    bucket_counts: Sequence[float],
) -> bytes:
    """A histogram that was computed elsewhere."""
    numbers = (min, max, num, sum, sum_squares)
    content = b"".join(fixed64(field + 1, float(value)) for field, value in enumerate(numbers))
    content += doubles(6, map(float, bucket_limits)) + doubles(7, map(float, bucket_counts))
    return _value(tag, message(5, content))


# Images -------------------------------------------------------------------------------------------
def png(pixels: Any) -> bytes:
    """An array of bytes, height x width x channels, as a PNG file."""
    height, width, channels = pixels.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    # Every row begins with the number of its filter, 0 for none.
    rows = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _grid(images: Any) -> Any:
    """A batch of images, NHWC, side by side in one."""
    import numpy

    count, height, width, channels = images.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    canvas = numpy.zeros((rows * height, columns * width, channels), images.dtype)
    for index in range(count):
        y, x = index // columns * height, index % columns * width
        canvas[y : y + height, x : x + width] = images[index]
    return canvas


def _as_pixels(array: Any, dataformats: str) -> Any:
    """An image, or a batch of them, as one array of bytes, HWC."""
    import numpy

    formats = dataformats.upper()
    if len(set(formats)) != len(formats) or array.ndim != len(formats):
        raise AssertionError(
            f"the image has shape {array.shape}, which the dataformats {dataformats} do not fit"
        )
    if "C" not in formats:
        array, formats = array[..., None], formats + "C"
    order = "NHWC" if "N" in formats else "HWC"
    array = numpy.transpose(array, [formats.index(letter) for letter in order])
    if order == "NHWC":
        array = _grid(array)
    if array.shape[2] == 1:
        array = numpy.repeat(array, 3, axis=2)
    # Bytes are pixels as they stand; other numbers are from 0 to 1.
    scaled = array if array.dtype == numpy.uint8 else array.astype(numpy.float32) * 255.0
    return numpy.ascontiguousarray(numpy.clip(scaled, 0, 255).astype(numpy.uint8))


def image(tag: str, tensor: Any, dataformats: str = "CHW") -> bytes:
    """An image, or several side by side, as PNG."""
    pixels = _as_pixels(make_np(tensor), dataformats)
    height, width, channels = pixels.shape
    content = varint(1, height) + varint(2, width) + varint(3, channels) + message(4, png(pixels))
    return _value(tag, message(4, content))


def image_boxes(
    tag: str, tensor: Any, boxes: Any, rescale: float = 1, dataformats: str = "CHW",
    labels: Any = None,
) -> bytes:  # fmt: skip
    """An image with named rectangles, (left, top, right, bottom), drawn on it."""
    import numpy
    from PIL import Image, ImageDraw

    picture = Image.fromarray(_as_pixels(make_np(tensor), dataformats))
    draw = ImageDraw.Draw(picture)
    rectangles = make_np(boxes).reshape(-1, 4).tolist()
    names = [labels] * len(rectangles) if isinstance(labels, str) else labels
    if names is not None and len(names) != len(rectangles):
        names = None
    for i, box in enumerate(rectangles):
        draw.rectangle(box, outline="red", width=2)
        if names is not None:
            draw.text((box[0] + 3, box[1] + 3), str(names[i]), fill="red")
    if rescale != 1:
        picture = picture.resize([int(size * rescale) for size in picture.size])
    return image(tag, numpy.asarray(picture), "HWC")


def video(tag: str, tensor: Any, fps: float = 4) -> bytes:
    """A batch of films, (N, T, C, H, W), side by side, as GIF."""
    import io

    from PIL import Image

    frames = [
        Image.fromarray(_as_pixels(moment, "NCHW")) for moment in make_np(tensor).swapaxes(0, 1)
    ]
    buffer = io.BytesIO()
    duration = 1000 / fps
    frames[0].save(
        buffer, "GIF", save_all=True, append_images=frames[1:], duration=duration, loop=0
    )
    width, height = frames[0].size
    content = varint(1, height) + varint(2, width) + varint(3, 3) + message(4, buffer.getvalue())
    return _value(tag, message(4, content))


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> bytes:
    """A sound of one channel, from -1 to 1, as WAV."""
    import io
    import wave

    import numpy

    samples = make_np(tensor).reshape(-1).astype(numpy.float64)
    pcm = (numpy.clip(samples, -1, 1) * numpy.iinfo(numpy.int16).max).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(pcm.tobytes())
    content = fixed32(1, sample_rate) + varint(2, 1) + varint(3, pcm.size)
    content += message(4, buffer.getvalue()) + text(5, "audio/wav")
    return _value(tag, message(6, content))


# Text and tables ----------------------------------------------------------------------------------
def text_summary(tag: str, content: str) -> bytes:
    """A text, shown as Markdown."""
    shape = message(2, message(2, varint(1, 1)))
    tensor = varint(1, _STRING_TENSOR) + shape + message(8, content.encode())
    plugin = message(9, message(1, text(1, "text") + message(2, varint(1, 0))))
    return _value(f"{tag}/text_summary", message(8, tensor) + plugin)


def _struct_value(value: Any) -> bytes:
    """A google.protobuf.Value."""
    if isinstance(value, bool):
        return varint(4, value)
    if isinstance(value, (int, float)):
        return fixed64(2, float(value))
    if isinstance(value, str):
        return text(3, value)
    array = make_np(value)
    if array.size == 1:
        return fixed64(2, float(array.reshape(())))
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def _map_entry(field: int, key: str, value: bytes) -> bytes:
    return message(field, text(1, key) + message(2, value))


_DATA_TYPES = {str: 1, bool: 2, int: 3, float: 3}


def hparams(
    hparam_dict: Mapping[str, Any],
    metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[bytes, bytes, bytes]:
    """The hyperparameters of a run: what there is, the begin and the end of the session."""
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("parameter: hparam_dict and metric_dict should be a dictionary.")
    domains = hparam_domain_discrete or {}
    infos, values = b"", b""
    for name, value in hparam_dict.items():
        if value is None:
            continue
        info = text(1, name) + varint(4, _DATA_TYPES.get(type(value), 3))
        if name in domains:
            choices = b"".join(message(1, _struct_value(choice)) for choice in domains[name])
            info += message(5, choices)
        infos += message(1, info)
        values += _map_entry(1, name, _struct_value(value))
    metrics = b"".join(message(2, message(1, text(2, name))) for name in metric_dict)

    def plugin(tag: str, content: bytes) -> bytes:
        return _value(tag, _metadata("hparams", varint(1, 0) + content))

    return (
        plugin("_hparams_/experiment", message(2, infos + metrics)),
        plugin("_hparams_/session_start_info", message(3, values)),
        plugin("_hparams_/session_end_info", message(4, varint(1, 1))),
    )


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> bytes:
    """Precision and recall of a binary classifier at evenly spaced thresholds."""
    import numpy

    count = min(num_thresholds, 127)
    labels = make_np(labels).reshape(-1).astype(bool)
    predictions = make_np(predictions).reshape(-1)
    weight = numpy.ones(labels.shape) if weights is None else make_np(weights).reshape(-1)
    bucket = numpy.clip(numpy.floor(predictions * (count - 1)), 0, count - 1).astype(int)

    def at_least(chosen: Any) -> Any:
        sums = numpy.bincount(bucket, weights=weight * chosen, minlength=count)
        return sums[::-1].cumsum()[::-1]

    true_positive, false_positive = at_least(labels), at_least(~labels)
    true_negative = false_positive[0] - false_positive
    false_negative = true_positive[0] - true_positive
    tiny = 1e-7
    precision = true_positive / numpy.maximum(tiny, true_positive + false_positive)
    recall = true_positive / numpy.maximum(tiny, true_positive + false_negative)
    rows = (true_positive, false_positive, true_negative, false_negative, precision, recall)
    return pr_curve_raw(tag, rows, count)


def pr_curve_raw(tag: str, rows: Sequence[Any], num_thresholds: int = 127) -> bytes:
    """Counts of true and false positives and negatives, precision and recall at thresholds."""
    import numpy

    plugin = _metadata("pr_curves", varint(1, 0) + varint(2, min(num_thresholds, 127)))
    return _value(tag, _float_tensor(numpy.stack([make_np(row) for row in rows])) + plugin)


def _shape(sizes: Sequence[int]) -> bytes:
    return b"".join(message(2, varint(1, size)) for size in sizes)


def _float_tensor(data: Any) -> bytes:
    numbers = message(5, data.astype("<f4").tobytes())
    return message(8, varint(1, _FLOAT_TENSOR) + message(2, _shape(data.shape)) + numbers)


_TENSOR_TYPES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8,
    "int64": 9, "bool": 10, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22,
    "uint64": 23,
}  # fmt: skip


def tensor_proto(tag: str, tensor: Any) -> bytes:
    """A tensor as it stands."""
    array = make_np(tensor)
    kind = _TENSOR_TYPES.get(array.dtype.name)
    if kind is None:
        raise ValueError(f"tensors of {array.dtype} have no place in an event file")
    content = varint(1, kind) + message(2, _shape(array.shape)) + message(4, array.tobytes())
    return _value(tag, message(8, content) + _metadata("tensor"))


_MESH_PARTS = {"VERTEX": 1, "FACE": 2, "COLOR": 3}


def mesh(
    tag: str, vertices: Any, colors: Any = None, faces: Any = None, config: Any = None
) -> bytes:
    """Points in space, with colours and triangles if there are any."""
    import json

    given = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
    parts = {name: make_np(part) for name, part in given.items() if part is not None}
    present = sum(1 << _MESH_PARTS[name] for name in parts)
    settings = json.dumps(config or {}, sort_keys=True)
    values = b""
    for name, array in parts.items():
        sizes = message(6, b"".join(integer(size) for size in array.shape))
        content = text(2, tag) + varint(3, _MESH_PARTS[name]) + text(5, settings) + sizes
        plugin = _metadata("mesh", content + varint(7, present))
        values += _value(f"{tag}_{name}", _float_tensor(array) + plugin)
    return values


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> bytes:
    """Which scalars TensorBoard draws together."""
    categories = b""
    for category, charts in layout.items():
        content = b""
        for title, (kind, tags) in charts.items():
            names = b"".join(text(1, tag) for tag in tags)
            if kind == "Margin":
                value, lower, upper = tags
                series = text(1, value) + text(2, lower) + text(3, upper)
                chart = message(3, message(1, series))
            else:
                chart = message(2, names)
            content += message(2, text(1, title) + chart)
        categories += message(2, text(1, category) + content)
    shape = message(2, b"")
    tensor = varint(1, _STRING_TENSOR) + shape + message(8, categories)
    return _value("custom_scalars__config__", message(8, tensor) + _metadata("custom_scalars"))
