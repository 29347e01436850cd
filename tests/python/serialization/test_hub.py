"""hub: models from local folders, and state dicts from addresses."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

import flambeau as torch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hub_neighbour.py").write_text("width = 3\n")
    (tmp_path / "hubconf.py").write_text(
        '''
import flambeau as torch
from hub_neighbour import width as _width
dependencies = ["json"]

def small(scale=1):
    """A small model."""
    return torch.nn.Linear(_width, scale)

def _hidden():
    return None
'''
    )
    yield tmp_path
    sys.modules.pop("hub_neighbour", None)


def test_a_model_comes_from_a_folder(folder):
    net = torch.hub.load(str(folder), "small", source="local", scale=2)
    assert net.weight.shape == (2, 3)
    assert torch.hub.list(folder) == ["small"]
    assert torch.hub.help(folder, "small") == "A small model."
    assert str(folder) not in sys.path


def test_what_is_not_there_is_said(folder):
    with pytest.raises(RuntimeError, match="Cannot find callable _hidden"):
        torch.hub.load(folder, "_hidden", source="local")
    with pytest.raises(RuntimeError, match="not fetched from GitHub"):
        torch.hub.load("owner/repository", "small")
    with pytest.raises(ValueError, match="Unknown source"):
        torch.hub.load(folder, "small", source="elsewhere")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package_here']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package_here"):
        torch.hub.load(folder, "small", source="local")


def test_a_state_dict_comes_from_an_address_and_is_checked(tmp_path: Path):
    source = tmp_path / "weights.pth"
    torch.save({"w": torch.ones(2)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    named = source.rename(tmp_path / f"weights-{digest}.pth")
    models = tmp_path / "models"
    loaded = torch.hub.load_state_dict_from_url(named.as_uri(), str(models), check_hash=True)
    assert loaded["w"].tolist() == [1.0, 1.0]
    wrong = tmp_path / "weights-00000000.pth"
    wrong.write_bytes(named.read_bytes())
    with pytest.raises(RuntimeError, match="invalid hash"):
        torch.hub.load_state_dict_from_url(wrong.as_uri(), str(models), check_hash=True)
    assert [path.name for path in models.iterdir()] == [named.name]


def test_the_folder_of_downloads_can_be_set(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch.hub.get_dir() == str(tmp_path / "hub")
    torch.hub.set_dir(tmp_path / "other")
    assert torch.hub.get_dir() == str(tmp_path / "other")
