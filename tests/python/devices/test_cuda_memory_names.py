"""The numbers of CUDA's allocators under all the names that programs ask for them by."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_older_names_give_the_same_numbers() -> None:
    assert torch.cuda.memory_cached() == torch.cuda.memory_reserved()
    assert torch.cuda.max_memory_cached() == torch.cuda.max_memory_reserved()
    assert torch.cuda.get_allocator_backend() == "native"


def test_nested_numbers_are_the_flat_ones() -> None:
    nested = torch.cuda.memory_stats_as_nested_dict()
    for name, value in torch.cuda.memory_stats().items():
        inner = nested
        for part in name.split("."):
            inner = inner[part]
        assert inner == value


def test_products_are_never_tuned() -> None:
    tunable = torch.cuda.tunable
    with pytest.warns(UserWarning, match="does not tune"):
        tunable.enable()
    assert not tunable.is_enabled() and not tunable.record_untuned_is_enabled()
    tunable.enable(False)
    assert tunable.get_results() == () and not tunable.read_file("nothing.csv")
    kept = tunable.get_max_tuning_iterations()
    tunable.set_max_tuning_iterations(7)
    assert tunable.get_max_tuning_iterations() == 7
    tunable.set_max_tuning_iterations(kept)


def test_names_that_are_only_looked_up() -> None:
    torch.accelerator.empty_host_cache()
    assert not torch.cuda.gds.is_available()
    assert torch.cuda.amp.common.amp_definitely_not_available() is not torch.cuda.is_available()
    assert torch.backends.cuda.cublaslt_workspace_size() == 32 << 20
    with pytest.warns(UserWarning, match="cannot be changed"):
        torch.backends.cuda.blas_workspace_size(1)
    with pytest.raises(NotImplementedError, match="green contexts"):
        torch.cuda.GreenContext.create(num_sms=8)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch.cuda.amp.nothing  # noqa: B018


def test_text_without_a_template_is_no_function() -> None:
    from flambeau.cuda import jiterator

    with pytest.raises(ValueError, match="function template"):
        jiterator.create_jit_fn("float f(float x) { return x; }")
    function = jiterator.create_jit_fn("template <class T> T f(T x) { return x; }")
    with pytest.raises(RuntimeError, match="CUDA device"):
        function(torch.ones(3))
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event(enable_timing=True, interprocess=True)
