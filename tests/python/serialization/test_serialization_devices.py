"""Places of storages in files: names that programs register, and functions that put them back."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

import flambeau as torch
from flambeau import serialization
from flambeau._serialization import _storage_io


def _saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_a_function_of_the_program_puts_storages_back_by_the_default_rule() -> None:
    seen = []

    def to_cpu(storage: Any, location: str) -> Any:
        seen.append(location)
        return serialization.default_restore_location(storage, "cpu")

    assert torch.load(_saved(torch.arange(3)), map_location=to_cpu).tolist() == [0, 1, 2]
    assert seen == ["cpu"]
    assert serialization.location_tag(torch.ones(1).untyped_storage()) == "cpu"


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_what_a_function_of_the_program_raises_is_no_fault_of_the_file(
    weights_only: bool, zipped: bool
) -> None:
    def fails(storage: Any, location: str) -> Any:
        raise KeyError(location)

    file = io.BytesIO()
    torch.save(torch.arange(3), file, _use_new_zipfile_serialization=zipped)
    for wrong, error in ((fails, KeyError), (3, TypeError)):
        file.seek(0)
        with pytest.raises(error):
            torch.load(file, map_location=wrong, weights_only=weights_only)


def test_of_two_archives_in_one_file_the_last_is_not_taken_for_the_first() -> None:
    file = io.BytesIO()
    file.write(b"a header")
    torch.save(1, file)
    second = file.tell()
    torch.save(2, file)
    file.seek(8)
    with pytest.raises(RuntimeError, match="another one stands behind the archive"):
        torch.load(file)
    file.seek(second)
    assert torch.load(file) == 2


def test_tar_files_are_told_from_damaged_ones() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("storages"))
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"legacy \.tar format"):
        torch.load(file)


def test_nested_tensors_are_saved_by_their_buffers() -> None:
    parts = [torch.arange(6.0).view(2, 3), torch.ones(1, 3), torch.zeros(0, 3)]
    back = torch.load(_saved(torch.nested.nested_tensor(parts)))
    assert back.is_nested and all(map(torch.equal, back.unbind(), parts))


def test_unknown_devices_are_named_in_the_error() -> None:
    with pytest.raises(RuntimeError, match=r"don't know how to restore.*\(tagged with moon\)"):
        torch.load(_saved(torch.ones(2)), map_location="moon")


def test_registered_packages_tag_and_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_storage_io, "_packages", list(_storage_io._packages))
    restored = []

    def tag(storage: Any) -> str | None:
        return "moon:1" if storage.nbytes() == 24 else None

    def restore(storage: Any, location: str) -> Any:
        if not location.startswith("moon"):
            return None
        restored.append(location)
        return storage

    serialization.register_package(5, tag, restore)
    file = _saved([torch.arange(3), torch.arange(2)])
    assert b"moon:1" in file.getvalue()
    far, near = torch.load(file)
    assert far.tolist() == [0, 1, 2] and near.tolist() == [0, 1]
    assert restored == ["moon:1"]


def test_parameter_types_can_be_joined_with_others() -> None:
    from flambeau.optim.optimizer import ParamsT, StateDict

    assert type(None) in (ParamsT | None).__args__
    assert StateDict == dict[str, Any]


def test_types_without_a_name_are_saved() -> None:
    types = [type(None), type(NotImplemented), type(...), int]
    assert torch.load(_saved(types), weights_only=False) == types


def test_names_that_would_be_refused_are_those_of_the_file_and_not_allowed() -> None:
    file = _saved([torch.nn.Linear(1, 1), slice(1, 2)])
    names = serialization.get_unsafe_globals_in_checkpoint(file)
    assert names == ["builtins.slice", "torch.nn.modules.linear.Linear"]
    with serialization.safe_globals([torch.nn.Linear]):
        assert serialization.get_unsafe_globals_in_checkpoint(file) == ["builtins.slice"]
