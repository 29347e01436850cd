"""Under autocast every op computes in what its policy says: that stands beside the op, and is asked
of the registry here."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from harness import Complaints, Sample, build, flat_results, resolve
from samples import ENTRIES, Call, Op

import flambeau as torch

LOW = {"cpu": "bfloat16", "cuda": "float16"}


def policy_of(entry: Op, device: str) -> str:
    """low, exact, widest, narrowest or refused; "" for an op that computes in what it is given."""
    words = [word for word in torch._C._properties(entry.name) if word.startswith(f"{device}_")]
    assert len(words) <= 1, f"the overloads of {entry} have different policies: {words}"
    return words[0].removeprefix(f"{device}_") if words else ""


POLICIES = {"cpu": {}, "cuda": {}}
for device_type, found in POLICIES.items():
    for entry in ENTRIES.values():
        if policy := policy_of(entry, device_type):
            found[entry.name] = policy


def floats(values: Any) -> list[Any]:
    tensors = [leaf for leaf in flat_results(values) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.is_floating_point()]


def is_of(sample: Sample, dtype: Any) -> bool:
    """Whether all floating inputs have a dtype, and none is asked for or given to be written."""
    given = [*sample.args, *sample.kwargs.values()]
    inputs = floats(given)
    names_a_dtype = any(isinstance(value, torch.dtype) for value in given)
    return bool(inputs) and not names_a_dtype and all(x.dtype == dtype for x in inputs)


def complaint(entry: Op, sample: Sample, policy: str, dtype: Any, device: str) -> str | None:
    low = getattr(torch, LOW[device])
    wanted = {"low": low, "exact": torch.float32}.get(policy, dtype)
    with warnings.catch_warnings(), torch.autocast(device, low):
        warnings.simplefilter("ignore")
        if policy == "refused":
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                resolve(torch, entry)(*sample.args, **sample.kwargs)
            return None
        results = floats(resolve(torch, entry)(*sample.args, **sample.kwargs))
    others = [str(result.dtype) for result in results if result.dtype != wanted]
    return f"{policy} of {dtype}: {others} instead of {wanted}" if others else None


def complaints_about(entry: Op, one: Call, policy: str, device: str) -> Any:
    for name in ("float32", LOW[device]):
        sample = build(torch, entry, one, name, device)
        if is_of(sample, getattr(torch, name)):
            yield complaint(entry, sample, policy, getattr(torch, name), device)


@pytest.mark.parametrize("name", sorted({*POLICIES["cpu"], *POLICIES["cuda"]}))
def test_an_op_with_a_policy_gives_the_dtype_that_it_says(name: str, device: str) -> None:
    entry = ENTRIES[name]
    policy = POLICIES[torch.device(device).type].get(name)
    if policy is None:
        return  # of another kind of device
    complaints = Complaints(entry)
    for one in entry.calls:
        if not {"mutating", "creation"} & entry.forms:
            complaints.check(
                one, "float32", lambda one=one: complaints_about(entry, one, policy, device)
            )
    complaints.report()


def test_policies_are_those_of_pytorch_for_each_kind_of_device() -> None:
    # One of each: the whole lists are compared where PyTorch is installed (tests/cuda).
    expected = {
        "mm": {"cpu_low", "cuda_low"},
        "mv": {"cuda_low"},
        "softmax": {"cuda_exact"},
        "exp": {"cuda_exact"},
        "atan2": {"cuda_widest"},
        "fft_fft2": {"cpu_exact"},
        "avg_pool3d": {"cpu_exact"},
        "avg_pool2d": set(),
        "binary_cross_entropy": {"cpu_exact", "cuda_refused"},
        "index_copy": {"cpu_widest"},
        "add": set(),
    }
    for name, words in expected.items():
        found = {word for word in torch._C._properties(name) if word.startswith(("cpu_", "cuda_"))}
        assert found == words, name
