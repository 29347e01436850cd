"""Files of TensorBoard's projector: points of many dimensions, their labels and their pictures."""

from __future__ import annotations

import math
import os

from flambeau.utils.tensorboard.summary import make_np, png

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["write_embedding"]


def _write_rows(path: str, rows: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write("\t".join(map(str, row)) + "\n")


def _sprite(images: Any) -> Any:
    """Pictures, NCHW, row by row in a square."""
    import numpy

    if images.dtype != numpy.uint8:
        images = numpy.clip(images * 255.0, 0, 255).astype(numpy.uint8)
    count, channels, height, width = images.shape
    side = math.ceil(math.sqrt(count))
    canvas = numpy.zeros((side * height, side * width, channels), numpy.uint8)
    for i, picture in enumerate(images):
        y, x = i // side * height, i % side * width
        canvas[y : y + height, x : x + width] = picture.transpose(1, 2, 0)
    return canvas


def write_embedding(
    log_dir: str, place: str, name: str, mat: Any, metadata: Any, label_img: Any, header: Any
) -> str:
    """Writes points into a folder below ``log_dir``; returns their entry in the configuration."""
    points = make_np(mat)
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    folder = os.path.join(log_dir, place)
    os.makedirs(folder, exist_ok=True)
    entry = f'embeddings {{\n  tensor_name: "{name}"\n'
    if metadata is not None:
        if len(metadata) != len(points):
            raise AssertionError("#labels should equal with #data points")
        rows = [row if header else [row] for row in metadata]
        _write_rows(os.path.join(folder, "metadata.tsv"), [header, *rows] if header else rows)
        entry += f'  metadata_path: "{place}/metadata.tsv"\n'
    if label_img is not None:
        images = make_np(label_img)
        if len(images) != len(points):
            raise AssertionError("#images should equal with #data points")
        with open(os.path.join(folder, "sprite.png"), "wb") as file:
            file.write(png(_sprite(images)))
        height, width = images.shape[2:]
        entry += f'  sprite {{\n    image_path: "{place}/sprite.png"\n'
        entry += f"    single_image_dim: {width}\n    single_image_dim: {height}\n  }}\n"
    _write_rows(os.path.join(folder, "tensors.tsv"), points.tolist())
    return entry + f'  tensor_path: "{place}/tensors.tsv"\n}}\n'
