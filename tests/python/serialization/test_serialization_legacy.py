"""The format of PyTorch before 1.6, states of subclasses, and who may trust files."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from typing import Any

import pytest

import flambeau as torch
from flambeau import serialization
from flambeau._serialization import _legacy_format


def old_bytes(obj: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(obj, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def test_old_files_are_written_and_read() -> None:
    shared = torch.arange(6.0).view(2, 3)
    saved = {
        "whole": shared,
        "row": shared[1],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "complex": torch.ones(2, dtype=torch.complex64),
        "empty": torch.empty(0),
        "plain": ["a", 1, None],
    }
    data = old_bytes(saved)
    assert not data.startswith(b"PK")
    loaded = torch.load(io.BytesIO(data))
    assert list(loaded) == list(saved) and loaded["plain"] == saved["plain"]
    for name in list(saved)[:-1]:
        assert torch.equal(loaded[name], saved[name]) and loaded[name].dtype == saved[name].dtype
    loaded["row"].zero_()
    assert loaded["whole"][1].tolist() == [0.0, 0.0, 0.0]
    assert isinstance(loaded["parameter"], torch.nn.Parameter)
    assert not torch.load(io.BytesIO(data), map_location="meta")["whole"].is_cpu


def test_old_files_follow_one_another_in_an_open_file() -> None:
    buffer = io.BytesIO()
    for value in ("first", torch.arange(3), {"third": 3}):
        torch.save(value, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    first, second, third = (torch.load(buffer) for _ in range(3))
    assert first == "first" and second.tolist() == [0, 1, 2] and third == {"third": 3}


def test_old_files_hold_sparse_tensors_whose_indices_come_last() -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    saved = [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()]
    data = old_bytes(saved)
    for made, again in zip(saved, torch.load(io.BytesIO(data)), strict=True):
        assert again.layout is made.layout and torch.equal(again.to_dense(), dense)
    # An index that lies outside is found when it has been read.
    columns = torch.tensor([0, 1, 0]).numpy().tobytes()
    wrong = torch.tensor([0, 1, 9]).numpy().tobytes()
    with pytest.raises(RuntimeError, match="index 9"):
        coo = torch.sparse_coo_tensor([[0, 1, 0]], torch.ones(3), (2,))
        torch.load(io.BytesIO(old_bytes(coo).replace(columns, wrong)))


def test_conjugates_and_negatives_in_files_of_pytorch() -> None:
    from collections import OrderedDict

    from flambeau._utils import _rebuild_tensor_v2

    storage = torch.tensor([1 + 2j, 3 - 1j]).storage()
    facts = (0, (2,), (1,), False, OrderedDict())
    conjugate = _rebuild_tensor_v2(storage, *facts, {"conj": True})
    assert conjugate.is_conj() and conjugate.tolist() == [1 - 2j, 3 + 1j]
    negative = _rebuild_tensor_v2(torch.ones(2).storage(), *facts, {"neg": True})
    assert negative.is_neg() and negative.tolist() == [-1.0, -1.0]


def test_one_memory_is_not_written_as_two_types() -> None:
    x = torch.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        old_bytes([x, x.view(torch.int32)])


def test_names_that_python_2_wrote_as_bytes() -> None:
    data = old_bytes([torch.ones(2)])
    for name in (b"storage", b"cpu"):
        data = data.replace(
            b"X" + len(name).to_bytes(4, "little") + name, b"U%c" % len(name) + name
        )
    assert torch.load(io.BytesIO(data), encoding="bytes")[0].tolist() == [1.0, 1.0]


def test_storages_that_are_parts_of_others() -> None:
    parts = [object(), object()]
    kind = serialization._StorageType(torch.FloatStorage)

    def persistent_id(item: Any) -> Any:
        if item not in parts:
            return None
        return ("storage", kind, "0", "cpu", 4, (str(id(item)), parts.index(item) + 1, 2))

    content, file = io.BytesIO(), io.BytesIO()
    serialization._Pickler(content, 2, persistent_id).dump(parts)
    memory = {"0": torch.arange(4.0).untyped_storage()}
    _legacy_format.write_legacy(file, content.getvalue(), memory, {"0": torch.FloatStorage}, 2)
    file.seek(0)
    first, second = torch.load(file)
    assert (first.tolist(), second.tolist()) == ([1.0, 2.0], [2.0, 3.0])
    assert first.data_ptr() + 4 == second.data_ptr()


def test_what_is_saved_to_an_open_file_is_there_at_once() -> None:
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"x": torch.ones(2)}, file)
        assert torch.load(file.name, mmap=True)["x"].tolist() == [1.0, 1.0]


class Slotted(torch.Tensor):
    __slots__ = ("note",)


class Stateful(torch.Tensor):
    def __getstate__(self) -> Any:
        return ("mark", self.__dict__)

    def __setstate__(self, state: Any) -> None:
        self.mark, attributes = state
        self.__dict__.update(attributes)


def test_subclasses_keep_slots_and_states_of_their_own() -> None:
    x = torch.ones(2).as_subclass(Slotted)
    x.note, x.other = "slot", "attribute"
    y = torch.ones(2).as_subclass(Stateful)
    y.other = "attribute"
    buffer = io.BytesIO()
    torch.save([x, y], buffer)
    buffer.seek(0)
    with torch.serialization.safe_globals([Slotted, Stateful]):
        loaded, stateful = torch.load(buffer)
    for again in (loaded, copy.deepcopy(x)):
        assert type(again) is Slotted and (again.note, again.other) == ("slot", "attribute")
    assert type(stateful) is Stateful and (stateful.mark, stateful.other) == ("mark", "attribute")


def test_the_environment_says_who_may_trust_files(tmp_path, monkeypatch) -> None:
    path = tmp_path / "module.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert isinstance(torch.load(path), torch.nn.Linear)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        torch.load(path)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path, weights_only=False)


def test_keys_of_storages_are_text_in_any_encoding() -> None:
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(3)}, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False, encoding="bytes")
    assert next(iter(loaded.values())).tolist() == [0, 1, 2]
