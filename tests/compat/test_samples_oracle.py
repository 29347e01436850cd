"""Every sample of every op gives PyTorch's result, strides and exception for every dtype.

Where the two differ and should, the sample is named below with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import Comparison
from samples import ENTRIES

OPS = Path(__file__).parent.parent / "ops"

EMPTY = r"t\(([^)]*, )?0(,[^)]*)?\)"  # a tensor without elements among the arguments
HALVES = r" b?float16 "
INTEGERS = r" (bool|u?int\d+) "

# Reason -> op -> what is found in "name(call) dtype layout" of the samples it explains.
EXPLAINED: dict[str, dict[str, str]] = {
    "PyTorch looks at the dtype of some arguments only where there is an element": dict.fromkeys(
        "addmm addmv addbmm grid_sampler_3d scaled_dot_product_attention".split(), EMPTY
    ),
    "matrices without elements: LAPACK is not asked, so the dtype is not looked at": dict.fromkeys(
        "linalg_det det linalg_cond nuclear_norm".split(), EMPTY
    ),
    "PyTorch approximates how gamma and Dirichlet samples move to three digits": dict.fromkeys(
        ("_standard_gamma_grad", "_dirichlet_grad"), "float"
    ),
    "eigenvectors and singular vectors are determined up to a factor": dict.fromkeys(
        "linalg_eigh linalg_eig linalg_svd svd".split(), r"t\("
    ),
    "PyTorch's error in half precision is larger than the tolerance": dict.fromkeys(
        ("linalg_matrix_exp", "matrix_exp"), HALVES
    ),
    "PyTorch's Bessel and Airy functions are good to 1e-8 only": {
        f"special_{name}": " float64 "
        for name in "bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai".split()
    },
    "PyTorch makes grids of integers and complex numbers, which nothing can sample by": {
        "affine_grid_generator": rf"{HALVES}|{INTEGERS}|complex",
    },
    "both refuse integers, PyTorch a range that bytes do not reach in other words": dict.fromkeys(
        ("histogram", "histogramdd"), " uint8 "
    ),
    "PyTorch has the recurrent layers of numbers for which it has no derivative": dict.fromkeys(
        "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split(),
        rf"{INTEGERS}|complex",
    ),
    "PyTorch keeps it in another module than the top one": dict.fromkeys(
        ("im2col", "col2im"), r"t\("
    ),
    "PyTorch cannot view the strided tensor that it makes on the way": {
        "take_along_dim": r"t\(5,\):int64\) \w+ transposed",
        "kron": r"t\(2,\)\) \w+ transposed",
        "conv_tbc": "transposed",
    },
    "PyTorch does not tell the bag of each index where it adds up float rows in place": {
        "embedding_bag": r"t\(3,\):int64\) (b?float16|float32) contiguous"
    },
    "PyTorch approximates these derivatives to three digits": dict.fromkeys(
        ("_standard_gamma_grad", "_dirichlet_grad"), " float(32|64) "
    ),
    "PyTorch has no default for the dtype": {"_sobol_engine_draw": "int64"},
    "PyTorch hands an empty tensor back as it is": {"pixel_unshuffle": EMPTY},
    "PyTorch has no convolution of complex numbers under this name": {"convolution": "complex"},
    "the order of equal elements is free without stable=True": {
        "sort": r"descending=True\) bool",
    },
}


def patterns(name: str) -> list[str]:
    return [ops[name] for ops in EXPLAINED.values() if name in ops]


@pytest.mark.parametrize("name", ENTRIES)
def test_samples_agree_with_pytorch(name: str, comparison: Comparison) -> None:
    text = comparison.difference([
        f"import re, sys; sys.path.insert(0, {str(OPS)!r}); import harness",
        f"explained = {patterns(name)!r}",
        f"result = {{key: value for key, value in harness.outcomes(torch, {name!r}).items()"
        " if not any(re.search(pattern, key) for pattern in explained)}",
    ])  # fmt: skip
    assert text is None, text


def test_explained_ops_have_samples() -> None:
    assert [op for ops in EXPLAINED.values() for op in ops if op not in ENTRIES] == []
