"""save, load, pickle, copy and deepcopy."""

from __future__ import annotations

import copy
import io
import pickle
import types
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128,
)  # fmt: skip


def through_file(obj, **arguments):
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return torch.load(buffer, **arguments)


def through_pickle(obj):
    return pickle.loads(pickle.dumps(obj))


ways = pytest.mark.parametrize("way", [through_file, through_pickle, copy.deepcopy])


@ways
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(way, dtype) -> None:
    tensor = torch.arange(6).to(dtype).reshape(2, 3)
    again = way(tensor)
    assert again.dtype == dtype and torch.equal(again, tensor)
    assert again.data_ptr() != tensor.data_ptr()


@ways
def test_strides_sharing_and_requires_grad(way) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    again = way(
        {"base": base, "t": base.t(), "row": base[1], "leaf": torch.ones(2).requires_grad_()}
    )
    assert again["t"].stride() == (1, 4)
    assert again["leaf"].requires_grad and again["leaf"].is_leaf
    if way is through_pickle:
        return  # pickle knows nothing of storages: each tensor has its own copy, as in PyTorch
    assert again["row"].data_ptr() == again["base"].data_ptr() + 16
    again["base"][1, 0] = 100
    assert again["t"][0, 1] == 100 and again["row"][0] == 100


@ways
def test_attributes_and_subclasses(way) -> None:
    tensor = torch.ones(2)
    tensor.note = "kept"
    assert way(tensor).note == "kept"
    marked = torch.ones(2).as_subclass(Marked)
    again = through_file(marked, weights_only=False) if way is through_file else way(marked)
    assert type(again) is Marked


class Marked(torch.Tensor):
    pass


@ways
def test_other_things(way) -> None:
    thing = {
        "dtype": torch.float32,
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "mixed": [1, 2.5, "text", None, True, (3,), OrderedDict(a=1)],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3),
        "meta": torch.empty(2, device="meta"),
    }
    again = way(thing)
    for name in ("dtype", "size", "device", "mixed"):
        assert again[name] == thing[name] and type(again[name]) is type(thing[name])
    assert again["empty"].shape == (0, 3) and again["scalar"].item() == 3
    assert again["meta"].device.type == "meta"


def test_parameters_and_modules() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    state = through_file(model.state_dict())
    assert list(state) == ["0.weight", "0.bias"] and torch.equal(state["0.weight"], model[0].weight)
    again = through_file(model, weights_only=False)
    assert isinstance(again[0].weight, torch.nn.Parameter)
    assert torch.equal(again(torch.ones(1, 2)), model(torch.ones(1, 2)))


def test_names_in_files_are_pytorchs() -> None:
    buffer = io.BytesIO()
    torch.save({"w": torch.nn.Parameter(torch.ones(2))}, buffer)
    data = zipfile.ZipFile(buffer).read("archive/data.pkl")
    assert b"ctorch._utils\n_rebuild_parameter\n" in data and b"ctorch\nFloatStorage\n" in data
    assert b"flambeau" not in data


def test_paths_and_mapping(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    base = torch.arange(1000.0)
    torch.save({"base": base, "part": base[10:20]}, path)
    assert zipfile.ZipFile(path).namelist()[0] == "model/data.pkl"
    for arguments in (
        {},
        {"mmap": True},
        {"map_location": "cpu"},
        {"map_location": {"cpu": "cpu"}},
    ):
        again = torch.load(path, **arguments)
        assert torch.equal(again["base"], base) and torch.equal(again["part"], base[10:20])
        again["base"].add_(1)
        assert again["part"][0] == 11.0
    assert torch.equal(torch.load(path)["base"], base)
    seen = []
    torch.load(path, map_location=lambda storage, location: seen.append(location) or storage)
    assert seen == ["cpu"]


class Custom:
    pass


def test_weights_only_refuses_what_it_does_not_know() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"(?s)Weights only load failed.*Custom"):
        through_file(Custom())
    with torch.serialization.safe_globals([Custom]):
        assert type(through_file(Custom())) is Custom
    assert torch.serialization.get_safe_globals() == []
    assert type(through_file(Custom(), weights_only=False)) is Custom


def test_weights_only_does_not_run_code() -> None:
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    with pytest.raises(pickle.UnpicklingError, match="exec"):
        through_file(Evil())


def test_unsafe_globals_are_listed() -> None:
    buffer = io.BytesIO()
    torch.save([Custom(), torch.ones(2)], buffer)
    buffer.seek(0)
    (name,) = torch.serialization.get_unsafe_globals_in_checkpoint(buffer)
    assert name.endswith(".Custom")


def test_broken_files(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(100), buffer)
    with pytest.raises(RuntimeError, match="failed reading zip archive"):
        torch.load(io.BytesIO(buffer.getvalue()[:200]))
    with pytest.raises(EOFError):
        torch.load(io.BytesIO())
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing.pt")
    with pytest.raises(AttributeError, match="seek"):
        torch.load(3)
    with pytest.raises(AttributeError, match="write"):
        torch.save(torch.ones(1), 3)


def test_deepcopy_of_a_graph_is_refused() -> None:
    y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(y)


def test_deepcopy_copies_gradients_and_keeps_identity() -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    one, two = copy.deepcopy([x, x])
    assert one is two and one.grad.tolist() == [3.0, 3.0] and one.grad is not x.grad


def test_typed_storages() -> None:
    storage = torch.arange(4.0).storage()
    assert storage.tolist() == [0.0, 1.0, 2.0, 3.0] and len(storage) == 4
    assert storage.dtype == torch.float32 and storage[2] == 2.0
    assert torch.FloatStorage([1, 2]).tolist() == [1.0, 2.0]
    assert through_pickle(storage).tolist() == storage.tolist()


class Renamed:
    """What a checkpoint names as OldName of a module that is gone."""


class _RenamingUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name == "OldName":
            return Renamed
        return super().find_class(module, name)


def test_load_reads_with_the_unpickler_of_a_given_module() -> None:
    old = type("OldName", (), {"__module__": __name__})
    globals()["OldName"] = old
    buffer = io.BytesIO()
    try:
        torch.save({"model": old(), "weight": torch.arange(3)}, buffer)
    finally:
        del globals()["OldName"]
    buffer.seek(0)
    renaming = types.SimpleNamespace(Unpickler=_RenamingUnpickler)
    loaded = torch.load(buffer, pickle_module=renaming)
    assert isinstance(loaded["model"], Renamed)
    assert loaded["weight"].tolist() == [0, 1, 2]


def test_save_refuses_one_storage_under_two_types() -> None:
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        torch.save([x, x.view(torch.int32)], io.BytesIO())


def test_load_takes_a_file_that_only_reads_and_seeks() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    buffer.seek(0)
    file = types.SimpleNamespace(read=buffer.read, seek=buffer.seek, tell=buffer.tell)
    assert torch.load(file).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["relu", "gelu", "cross_entropy", "max_pool2d", "softplus"])
def test_functions_of_nn_are_pickled_by_name(name: str) -> None:
    function = getattr(torch.nn.functional, name)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_transformer_layer_with_its_activation_is_saved_whole(activation: str) -> None:
    buffer = io.BytesIO()
    torch.save(torch.nn.TransformerEncoderLayer(4, 2, activation=activation), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert loaded.activation is getattr(torch.nn.functional, activation)


def test_what_programs_are_told_about_folders_and_the_environment(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match=r"Parent directory .*absent does not exist\."):
        torch.save(1, tmp_path / "absent" / "x.pt")
    torch.save(1, tmp_path / "x.pt")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        torch.load(tmp_path / "x.pt")
    with pytest.raises(TypeError, match="set_default_load_endianness"):
        torch.serialization.set_default_load_endianness("little")
