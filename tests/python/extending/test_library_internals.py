"""Names inside of PyTorch that libraries and programs take for granted: what they give."""

from __future__ import annotations

import io
import pickle

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def test_tensors_are_laid_out_as_one_and_found_again() -> None:
    parts = [torch.arange(6.0).view(2, 3).t(), torch.tensor([7.0]), torch.empty(0, 2)]
    flat = torch._utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 7.0]
    again = torch._utils._unflatten_dense_tensors(flat, parts)
    assert all(torch.equal(one, other) for one, other in zip(parts, again, strict=True))
    assert again[1].data_ptr() == flat[6:].data_ptr()


def test_an_archive_written_record_by_record_is_loaded(tmp_path) -> None:
    """As programs do that save large models without holding them: they pickle by themselves."""
    weights = torch.arange(5.0)
    weights.note = "kept"
    path = tmp_path / "weights.pt"
    writer = torch._C.PyTorchFileWriter(str(path))

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            if not isinstance(obj, torch.storage.TypedStorage):
                return None
            untyped = obj._untyped_storage
            writer.write_record("data/0", untyped, untyped.nbytes())
            kind = getattr(torch, obj._pickle_storage_type())
            location = torch.serialization.location_tag(untyped)
            return ("storage", kind, "0", location, obj._size())

    buffer = io.BytesIO()
    Pickler(buffer, protocol=2).dump({"w": weights})
    writer.write_record("data.pkl", buffer.getvalue(), len(buffer.getvalue()))
    writer.write_end_of_file()
    loaded = torch.load(path)["w"]
    assert torch.equal(loaded, weights) and loaded.note == "kept"


def test_attributes_of_tensors_are_pickled_as_pytorch_does() -> None:
    """Programs that write files themselves take what __reduce_ex__ gives apart."""
    tensor = torch.arange(3.0)
    assert tensor.__reduce_ex__(2)[0] is torch._utils._rebuild_tensor_v2
    tensor.note = "kept"
    rebuild, arguments = tensor.__reduce_ex__(2)
    assert arguments[0] is torch._utils._rebuild_tensor_v2
    assert arguments[1] is torch.Tensor
    assert isinstance(arguments[2][0], torch.storage.TypedStorage)
    assert arguments[3] == {"note": "kept"}
    again = pickle.loads(pickle.dumps(tensor))
    assert torch.equal(rebuild(*arguments), again) and again.note == "kept"


def test_a_writer_takes_strings_and_addresses() -> None:
    file = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(file)
    numbers = torch.tensor([1, 2], dtype=torch.uint8)
    writer.write_record("text", "word", 4)
    writer.write_record("numbers", numbers.data_ptr(), 2)
    writer.write_end_of_file()
    from zipfile import ZipFile

    archive = ZipFile(file)
    assert archive.read("archive/text") == b"word"
    assert archive.read("archive/numbers") == b"\1\2"


def test_storage_classes_are_found_by_name() -> None:
    assert torch.serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage


def test_tensors_are_grouped_by_device_and_dtype() -> None:
    a, b, c = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.ones(2)
    groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype(
        [[a, b, c], [c, None, a]], True
    )
    lists, indices = groups[(a.device, torch.float32)]
    assert [len(chosen) for chosen in lists] == [2, 2]
    assert lists[0][1] is c and lists[1][1] is a
    assert indices == [0, 2]
    assert groups[(a.device, torch.float64)] == ([[b], [None]], [1])


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_at_the_output_of_softmax(name) -> None:
    x = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    y, g = getattr(torch, name)(x, 1), torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
    (want,) = torch.autograd.grad(y, x, g)
    got = getattr(torch, f"_{name}_backward_data")(g, y.detach(), 1, torch.float64)
    torch.testing.assert_close(got, want)


def test_autocast_casts_collections() -> None:
    single, double = torch.ones(1), torch.ones(1, dtype=torch.float64)
    got = torch.amp.autocast_mode.cast({"a": [single, double, 3]}, "cpu", torch.bfloat16)
    assert got["a"][0].dtype is torch.bfloat16
    assert got["a"][1] is double and got["a"][2] == 3


def test_functional_has_what_copies_of_attention_import() -> None:
    x, w, b = torch.randn(2, 1, 4), torch.randn(12, 4), torch.randn(12)
    q, k, v = F._in_projection_packed(x, x, x, w, b)
    other = F._in_projection_packed(x, x.clone(), x.clone(), w, b)
    for one, two in zip((q, k, v), other, strict=True):
        torch.testing.assert_close(one, two)
    mask = F._canonical_mask(
        torch.tensor([True, False]), "mask", F._none_or_dtype(None), "", torch.float32
    )
    assert mask.tolist() == [float("-inf"), 0.0]
    assert not F.has_torch_function((x,))
    assert torch.backends.cuda.SDPBackend is torch.nn.attention.SDPBackend


def test_a_function_makes_its_tensors_on_a_device() -> None:
    from flambeau.utils._device import DeviceContext, set_device

    assert set_device("meta")(torch.zeros)(2).is_meta
    with DeviceContext("meta"):
        assert torch.zeros(2).is_meta
    assert not torch.zeros(2).is_meta


def test_shufflers_are_where_loaders_look_for_them() -> None:
    from flambeau.utils.data.datapipes.iter import IterableWrapper
    from flambeau.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe

    assert isinstance(IterableWrapper([1, 2]).shuffle(), ShufflerIterDataPipe)


def test_annotations_of_scripts_are_a_module() -> None:
    assert torch.jit.annotations.BroadcastingList2[int] is int


def test_nothing_is_compiled_and_libraries_are_told_so(recwarn) -> None:
    from flambeau._dynamo.eval_frame import is_dynamo_supported
    from flambeau._dynamo.utils import disable_cache_limit, warn_once
    from flambeau._library.infer_schema import infer_schema
    from flambeau.utils import _triton

    assert infer_schema is torch.library.infer_schema
    assert not is_dynamo_supported()
    assert not (_triton.has_triton() or _triton.has_triton_package() or _triton.has_triton_tma())
    with disable_cache_limit():
        for _ in range(3):
            warn_once("said once")
    assert [str(warning.message) for warning in recwarn] == ["said once"]
