"""TorchScript's files give their modules, parameters and buffers; their programs are not run."""

from __future__ import annotations

import io
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn, serialization

LAYER = """class Layer(Module):
  __parameters__ = ["weight", "bias", ]
  __buffers__ = ["mean", ]
  weight : Tensor
  def forward(self: __torch__.made.___torch_mangle_0.Layer, x: Tensor) -> Tensor:
    return torch.mul(x, self.weight)
"""
TOP = """class Top(Module):
  __parameters__ = []
  __buffers__ = []
  layer : __torch__.made.___torch_mangle_0.Layer
"""


def _class(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> Any:
    """A class that a pickle finds under the name that a compiler would give it."""
    made = type(name, (), {"__module__": module})
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        parent = ".".join(parts[:count])
        if parent not in sys.modules:
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    setattr(sys.modules[module], name, made)
    return made


def _write(monkeypatch: pytest.MonkeyPatch, path: Path) -> dict[str, Any]:
    layer = _class(monkeypatch, "__torch__.made.___torch_mangle_0", "Layer")()
    layer.weight, layer.bias = torch.arange(6.0).view(2, 3).requires_grad_(), None
    layer.mean, layer.scale, layer.training = torch.ones(3), 2.5, False
    top = _class(monkeypatch, "__torch__.made", "Top")()
    top.training, top.layer, top.again = False, layer, layer
    storages = serialization._Storages()
    content = io.BytesIO()
    serialization._Pickler(content, 2, storages.persistent_id).dump(top)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("made/data.pkl", content.getvalue())
        for key, storage in enumerate((layer.weight, layer.mean)):
            file.writestr(f"made/data/{key}", storage.detach().numpy().tobytes())
        code = {"made/___torch_mangle_0": LAYER, "made": TOP}
        for name, text in code.items():
            record = f"made/code/__torch__/{name}.py"
            file.writestr(record, text, compress_type=zipfile.ZIP_DEFLATED)
        file.writestr("made/constants.pkl", b"\x80\x02).")
        file.writestr("made/extra/note", "a word")
    return {"layer.weight": layer.weight, "layer.mean": layer.mean}


def test_a_module_is_read_with_its_parameters_and_buffers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = _write(monkeypatch, tmp_path / "made.pt")
    notes = {"note": ""}
    module = torch.jit.load(tmp_path / "made.pt", map_location="cpu", _extra_files=notes)
    assert notes == {"note": "a word"} and module.original_name == "Top"
    assert isinstance(module, torch.jit.ScriptModule) and not module.training
    assert isinstance(module.layer.weight, nn.Parameter) and module.layer.bias is None
    assert module.again is module.layer and module.layer.scale == 2.5
    assert [name for name, _ in module.named_buffers()] == ["layer.mean"]
    state = module.state_dict()
    for name, value in written.items():
        assert torch.equal(state[name], value)
    with pytest.raises(RuntimeError, match=r"Top\.forward: .* does not run their programs"):
        module(torch.ones(3))


def test_a_file_whose_text_and_objects_disagree_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(globals(), "LAYER", LAYER.replace('"mean"', '"median"'))
    _write(monkeypatch, tmp_path / "made.pt")
    with pytest.raises(RuntimeError, match=r"torch\.jit\.load: the file is damaged.*median"):
        torch.jit.load(tmp_path / "made.pt")


def test_load_sends_to_the_reader_of_modules_only_who_trusts_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _write(monkeypatch, tmp_path / "made.pt")
    with pytest.raises(RuntimeError, match="weights_only=True`` with TorchScript archives"):
        torch.load(tmp_path / "made.pt")
    assert torch.load(tmp_path / "made.pt", weights_only=False).original_name == "Top"
