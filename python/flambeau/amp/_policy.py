"""Which ops autocast computes in which dtype, by name, for each kind of device.

The lists are those of PyTorch's documentation. An op that is in none computes in the dtype of its
inputs.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PRODUCTS = """
    __matmul__ __rmatmul__ addbmm addmm affine_grid baddbmm bmm chain_matmul conv1d conv2d
    conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution einsum inner
    linear lstm matmul mm multi_dot prelu rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    scaled_dot_product_attention linalg_vecdot linalg_multi_dot
"""
_PRODUCTS_ON_CPU = "tensordot"
_PRODUCTS_ON_CUDA = "addmv addr gru gru_cell lstm_cell mv"
# Made of products and of sums with states that nobody casts: low where the input is.
_NARROWEST_ON_CPU = "gru gru_cell lstm_cell"
_LOSSES = """
    binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss ctc_loss
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss nll_loss2d nll_loss_nd poisson_nll_loss smooth_l1_loss
    soft_margin_loss triplet_margin_loss
"""
_EXACT_ON_CPU = """
    _cdist adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cdist
    cholesky cholesky_inverse cholesky_solve fake_quantize_per_tensor_affine fft_fft fft_fft2
    fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sample
    grid_sampler grid_sampler_2d grid_sampler_3d inverse linalg_cholesky linalg_cholesky_ex
    linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product
    linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve linalg_svd
    linalg_svdvals linalg_tensorinv linalg_tensorsolve local_response_norm lu_solve max_pool3d
    max_unpool2d max_unpool3d nanquantile orgqr ormqr pinverse polar prod qr quantile
    reflect_pad replicate_pad stft svd trace triangular_solve view_as_complex
"""
_EXACT_ON_CUDA = """
    __pow__ __rdiv__ __rpow__ __rtruediv__ _cdist acos asin cdist cosh cosine_similarity cumprod
    cumsum dist erfinv exp expm1 frobenius_norm group_norm interpolate layer_norm
    linalg_matrix_norm linalg_norm linalg_vector_norm local_response_norm log log10 log1p log2
    log_softmax logsumexp norm normalize nuclear_norm pairwise_distance pdist pow prod
    reciprocal renorm rsqrt sinh softmax softmin softplus sum tan trace
"""
_WIDEST_ON_CPU = "cat index_copy stack"
_WIDEST_ON_CUDA = """
    addcdiv addcmul atan2 bilinear cat cross dot grid_sample grid_sampler index_put scatter_add
    stack tensordot vdot
"""

_LOW, _EXACT, _WIDEST, _NARROWEST, _REFUSED = "low", "exact", "widest", "narrowest", "refused"


def _table(**groups: str) -> dict[str, str]:
    return {name: policy for policy, names in groups.items() for name in names.split()}


POLICIES = {
    "cpu": _table(
        low=_PRODUCTS + _PRODUCTS_ON_CPU,
        exact=_LOSSES + _EXACT_ON_CPU,
        widest=_WIDEST_ON_CPU,
        narrowest=_NARROWEST_ON_CPU,
    ),
    "cuda": _table(
        low=_PRODUCTS + _PRODUCTS_ON_CUDA,
        exact=_LOSSES + _EXACT_ON_CUDA,
        widest=_WIDEST_ON_CUDA,
        refused="binary_cross_entropy",
    ),
}


def mapped(value: Any, function: Any) -> Any:
    """A value, or a sequence or dictionary of values, with a function applied to its tensors."""
    if isinstance(value, Tensor):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(item, function) for item in value)
    if type(value) is dict:
        return {key: mapped(item, function) for key, item in value.items()}
    return value


def _first_device(value: Any) -> str | None:
    """The kind of device of the first tensor among arguments."""
    if isinstance(value, Tensor):
        return value.device.type
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(_first_device, value)), None)
    return None


def eligible(tensor: Tensor, device: str) -> bool:
    double = tensor.dtype == flambeau.float64
    return tensor.is_floating_point() and not double and tensor.device.type == device


def _sums_products(equation: str, *given: Any) -> bool:
    """Whether einsum adds up products, along a letter of two operands that the output lacks."""
    operands = given[0] if isinstance(given[0], (list, tuple)) else given
    inputs, arrow, output = equation.replace(" ", "").replace("...", ".").partition("->")
    for letter in {*inputs} - {*".,"} - {*output}:
        if not arrow and inputs.count(letter) == 1:
            continue
        along: list[int] = []
        for term, operand in zip(inputs.split(","), operands):
            before, here, after = term.partition(letter)
            place = -1 - len(after) if "." in before else len(before)
            along += operand.shape[place : place + 1 or None] if here else ()
        if sum(size != 1 for size in along) > 1:
            return True
    return False


def _policy_name(name: str, args: Any, kwargs: Any) -> str:
    """The name that an op's policy goes by: ways of padding and of resizing have policies of their
    own, the inner product of vectors is dot, and einsum may multiply without adding up.
    """
    if name == "einsum" and len(args) > 1 and isinstance(args[0], str):
        return "matmul" if _sums_products(*args) else "mul"
    if name == "pad":
        return f"{args[2] if len(args) > 2 else kwargs.get('mode', 'constant')}_pad"
    if name == "interpolate" and "area" in (*args[3:4], kwargs.get("mode")):
        return "adaptive_avg_pool2d"
    if name == "inner" and all(x.dim() == 1 for x in (*args, *kwargs.values())):
        return "dot"
    return name


def cast_arguments(name: str, args: Any, kwargs: Any, enabled: Any, cast: Any) -> tuple[Any, Any]:
    """The arguments of an op in the dtype that its policy asks for.

    Args:
        name: the op.
        enabled: the low dtype of each kind of device that autocast is enabled for.
        cast: makes a tensor of another dtype.
    """
    device = _first_device(args) or _first_device(tuple(kwargs.values()))
    low = enabled.get(device)
    policy = None
    if low is not None and device in POLICIES:
        policy = POLICIES[device].get(_policy_name(name, args, kwargs))
    if device is None or policy is None or kwargs.get("out") is not None:
        return args, kwargs  # a result that is given has its dtype
    if policy == _REFUSED:
        raise RuntimeError(
            f"torch.nn.functional.{name} and torch.nn.BCELoss are unsafe to autocast: they take "
            "logarithms of probabilities that were rounded to half precision. Use "
            "binary_cross_entropy_with_logits or BCEWithLogitsLoss, without the sigmoid."
        )
    target = flambeau.float32
    if policy == _LOW:
        target = low
    elif policy != _EXACT:
        found: list[Any] = []
        mapped((args, kwargs), lambda t: found.append(t.dtype) if eligible(t, device) else None)
        wanted = flambeau.float32 if policy == _WIDEST else low
        other = low if policy == _WIDEST else flambeau.float32
        target = wanted if wanted in found else other

    def convert(tensor: Tensor) -> Tensor:
        wrong = tensor.dtype != target and eligible(tensor, device)
        return cast(tensor, target) if wrong else tensor

    if name == "cross_entropy_loss" and args:
        # It reads logits of half precision as if they had been cast, so they need not be.
        return (args[0], *mapped(args[1:], convert)), {**mapped(kwargs, convert), "wide": True}
    return mapped(args, convert), mapped(kwargs, convert)
