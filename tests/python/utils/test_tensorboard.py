"""SummaryWriter: its files, read back field by field with a reader written for these tests."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard._records import crc32c


def fields(data: bytes) -> dict[int, list[Any]]:
    """A protocol-buffer message as lists of values by field number."""
    found: dict[int, list[Any]] = {}
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = number()
        value: Any
        if key & 7 == 0:
            value = number()
        elif key & 7 == 1:
            value = struct.unpack_from("<d", data, position)[0]
            position += 8
        elif key & 7 == 5:
            value = struct.unpack_from("<f", data, position)[0]
            position += 4
        else:
            size = number()
            value = data[position : position + size]
            position += size
        found.setdefault(key >> 3, []).append(value)
    return found


def unmasked(crc: int) -> int:
    rotated = (crc - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def events(folder: Path) -> list[dict[int, list[Any]]]:
    """The events of the one file in a folder, checksums verified."""
    (path,) = folder.glob("events.out.tfevents.*")
    data = path.read_bytes()
    found, position = [], 0
    while position < len(data):
        length, length_crc = struct.unpack_from("<QI", data, position)
        body = data[position + 12 : position + 12 + length]
        (body_crc,) = struct.unpack_from("<I", data, position + 12 + length)
        assert unmasked(length_crc) == crc32c(data[position : position + 8])
        assert unmasked(body_crc) == crc32c(body)
        found.append(fields(body))
        position += 16 + length
    assert found[0][3] == [b"brain.Event:2"]
    return found[1:]


def values(folder: Path) -> list[dict[int, list[Any]]]:
    return [fields(fields(event[5][0])[1][0]) for event in events(folder)]


def test_the_checksum_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283


def test_scalars_carry_tag_value_step_and_time(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", torch.tensor(0.5), 3, walltime=12.0)
        writer.add_scalar("loss", 0.25, 4)
    first, second = events(tmp_path)
    assert first[1] == [12.0] and first[2] == [3] and second[2] == [4]
    assert [value[1] + value[2] for value in values(tmp_path)] == [[b"loss", 0.5], [b"loss", 0.25]]


def test_scalars_drawn_together_get_folders_of_their_own(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss", {"train": 1.0, "test": 2.0}, 0)
    assert values(tmp_path / "loss_train")[0][2] == [1.0]
    assert values(tmp_path / "loss_test")[0][2] == [2.0]


def test_a_histogram_counts_every_value(tmp_path: Path):
    data = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", data, 1)
        writer.add_histogram("few", data, 1, bins=[-2.0, 0.0, 1.0, 3.0])
    histogram = fields(values(tmp_path)[0][5][0])
    assert [histogram[field][0] for field in range(1, 6)] == [-1.0, 2.0, 5.0, 2.0, 5.5]
    counts = struct.unpack(f"<{len(histogram[7][0]) // 8}d", histogram[7][0])
    assert sum(counts) == 5 and len(histogram[6][0]) == len(histogram[7][0])
    few = fields(values(tmp_path)[1][5][0])
    assert struct.unpack("<4d", few[6][0]) == (-2.0, 0.0, 1.0, 3.0)
    assert struct.unpack("<4d", few[7][0]) == (0.0, 1.0, 3.0, 1.0)


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and the bytes of the rows of a PNG file, without their filters."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack_from(">II", png, 16)
    start = png.index(b"IDAT")
    (size,) = struct.unpack_from(">I", png, start - 4)
    rows = zlib.decompress(png[start + 4 : start + 4 + size])
    row = len(rows) // height
    return width, height, b"".join(rows[y * row + 1 : (y + 1) * row] for y in range(height))


def test_images_become_png_in_every_data_format(tmp_path: Path):
    image = torch.rand(3, 2, 5)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("chw", image)
        writer.add_image("hwc", image.permute(1, 2, 0), dataformats="HWC")
        writer.add_image("grey", torch.ones(2, 5), dataformats="HW")
        writer.add_images("two", torch.stack([image, image]))
    expected = bytes((image.permute(1, 2, 0) * 255).to(torch.uint8).flatten().tolist())
    found = [fields(value[4][0]) for value in values(tmp_path)]
    for image_fields in found[:2]:
        assert image_fields[1] + image_fields[2] == [2, 5]
        assert pixels(image_fields[4][0]) == (5, 2, expected)
    assert pixels(found[2][4][0]) == (5, 2, b"\xff" * 30)
    assert found[3][2] == [10]


def test_an_image_whose_shape_does_not_fit_its_format_is_refused(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(AssertionError, match="dataformats"):
        writer.add_image("x", torch.ones(2, 5))


def test_text_sound_and_curves_name_their_plugin(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "**done**")
        writer.add_audio("tone", torch.zeros(10), sample_rate=8000)
        writer.add_pr_curve("pr", torch.tensor([0, 1, 1]), torch.tensor([0.1, 0.8, 0.4]))
    text, sound, curve = values(tmp_path)
    assert text[1] == [b"note/text_summary"] and fields(text[8][0])[8] == [b"**done**"]
    assert fields(fields(text[9][0])[1][0])[1] == [b"text"]
    assert fields(sound[6][0])[4][0].startswith(b"RIFF") and fields(sound[6][0])[3] == [10]
    table = struct.unpack("<762f", fields(curve[8][0])[5][0])
    assert table[0] == 2.0 and table[127] == 1.0 and table[5 * 127] == 1.0


def test_hyperparameters_go_to_a_run_of_their_own(tmp_path: Path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "name": "a", "bias": True}, {"accuracy": 0.5}, run_name="r")
    tags = [value[1][0] for value in values(tmp_path / "r")]
    assert tags == [
        b"_hparams_/experiment",
        b"_hparams_/session_start_info",
        b"_hparams_/session_end_info",
        b"accuracy",
    ]


def test_what_was_flushed_is_in_the_file_and_closing_twice_is_harmless(tmp_path: Path):
    writer = SummaryWriter(tmp_path, flush_secs=1000, max_queue=1000)
    writer.add_scalar("a", 1)
    writer.flush()
    assert len(events(tmp_path)) == 1
    writer.close()
    writer.close()


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.stem(x)) + y


def test_the_graph_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Branches()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, (torch.ones(2, 3), torch.ones(4)), verbose=True)
    assert model.training and model.dropout.training and not model._forward_hooks
    graph, run = events(tmp_path)
    nodes = [fields(node) for node in fields(graph[4][0])[1]]
    names = {node[1][0].decode(): [source.decode() for source in node.get(3, [])] for node in nodes}
    by_op = {node[2][0].decode(): node[1][0].decode() for node in nodes}
    stem = "Branches/Sequential[stem]"
    weights = [f"{stem}/Linear[0]/weight/weight", f"{stem}/Linear[0]/bias/bias"]
    product, turned = by_op["aten::addmm"], by_op["aten::t"]
    assert product.startswith(f"{stem}/Linear[0]/") and names[turned] == weights[:1]
    assert set(names[product]) == {"input/input.1", turned, weights[1]}
    assert names[by_op["aten::relu"]] == [product]
    assert by_op["aten::relu"].startswith(f"{stem}/ReLU[1]/")
    assert "input/input.2" in names[by_op["aten::add"]]
    assert names["output/output.1"] == [by_op["aten::add"]]
    # Every edge leads to a node, and shapes are told.
    assert all(source in names for sources in names.values() for source in sources)
    assert b"_output_shapes" in graph[4][0] and fields(run[8][0])[1] == [b"step1"]
    assert f"{by_op['aten::relu']} = aten::relu({product})" in capsys.readouterr().out


def test_points_of_the_projector(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        pictures = torch.zeros(3, 3, 2, 2)
        writer.add_embedding(torch.eye(3), ["a", "b", "c"], pictures, global_step=7, tag="x/y")
        writer.add_embedding(torch.ones(1, 2), [[1, 2]], metadata_header=["p", "q"])
        with pytest.raises(AssertionError, match="#labels should equal"):
            writer.add_embedding(torch.eye(2), ["a"])
    folder = tmp_path / "00007" / "x%2Fy"
    assert (folder / "tensors.tsv").read_text().splitlines()[1] == "0.0\t1.0\t0.0"
    assert (folder / "metadata.tsv").read_text() == "a\nb\nc\n"
    assert struct.unpack(">II", (folder / "sprite.png").read_bytes()[16:24]) == (4, 4)
    assert (tmp_path / "00000/default/metadata.tsv").read_text() == "p\tq\n1\t2\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and 'tensor_name: "x/y:00007"' in config
    assert "single_image_dim: 2" in config and 'image_path: "00007/x%2Fy/sprite.png"' in config


def test_tensors_meshes_and_curves_as_they_stand(tmp_path: Path) -> None:
    counts = torch.arange(5.0)
    with SummaryWriter(tmp_path) as writer:
        writer.add_tensor("t", torch.arange(6).view(2, 3), 4)
        writer.add_mesh("m", torch.ones(1, 4, 3), faces=torch.tensor([[[0, 1, 2]]]))
        writer.add_pr_curve_raw("p", counts, counts, counts, counts, counts, counts, 1, 5)
        writer.add_scalar("d", "1e-300", new_style=True, double_precision=True)
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"], "of", "name")
    tensor, mesh, curve, number, lines, margin = events(tmp_path)
    (content,) = fields(fields(tensor[5][0])[1][0])[8]
    assert fields(content)[1] == [9] and len(fields(content)[4][0]) == 48 and tensor[2] == [4]
    parts = [fields(value) for value in fields(mesh[5][0])[1]]
    assert [part[1][0] for part in parts] == [b"m_VERTEX", b"m_FACE"]
    plugin = fields(fields(fields(parts[1][9][0])[1][0])[2][0])
    assert plugin[2] == [b"m"] and plugin[3] == [2] and plugin[7] == [6]
    assert plugin[6] == [b"\x01\x01\x03"]
    rows = fields(fields(fields(curve[5][0])[1][0])[8][0])
    assert len(rows[5][0]) == 6 * 5 * 4
    double = fields(fields(fields(number[5][0])[1][0])[8][0])
    assert struct.unpack("<d", double[6][0]) == (1e-300,)
    assert b"untitled" in lines[5][0] and b"\x0a\x01a\x12\x01b\x1a\x01c" in margin[5][0]


def test_boxes_and_films(tmp_path: Path) -> None:
    image = torch.zeros(3, 12, 16, dtype=torch.uint8)
    with SummaryWriter(tmp_path) as writer:
        box = torch.tensor([[2, 3, 9, 10]])
        writer.add_image_with_boxes("b", image, box, labels=["name"], rescale=2)
        writer.add_video("v", torch.rand(2, 3, 3, 8, 10))
    boxes, film = (fields(value[4][0]) for value in values(tmp_path))
    assert boxes[1] == [24] and boxes[2] == [32] and boxes[4][0].startswith(b"\x89PNG")
    assert film[1] == [8] and film[2] == [20] and film[4][0].startswith(b"GIF89a")
