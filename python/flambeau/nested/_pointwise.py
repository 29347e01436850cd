"""The operations that treat each element alone, by name: what a nested tensor may hand to its
values. An operation that is not here and has no rule is refused, for it might mean a dimension.
"""

from __future__ import annotations

_BINARY = """add sub mul div true_divide floor_divide remainder fmod pow rsub atan2 maximum minimum
fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
and or xor where masked_fill lerp addcmul addcdiv copysign hypot xlogy logaddexp truediv floordiv
mod multiply divide subtract greater less greater_equal less_equal not_equal nextafter arctan2
logaddexp2 bitwise_left_shift bitwise_right_shift clamp clip clamp_min clamp_max isclose"""
_UNARY = """abs absolute neg negative exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square
reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid logit relu relu6 gelu
silu mish elu celu selu leaky_relu hardtanh hardswish hardsigmoid softplus softsign tanhshrink
threshold softshrink hardshrink logsigmoid erf erfc erfinv lgamma digamma sign sgn signbit ceil
floor round trunc frac isnan isinf isfinite isposinf isneginf logical_not bitwise_not invert
positive nan_to_num rad2deg deg2rad i0 sinc angle real imag conj conj_physical rrelu fix arcsin
arccos arctan arcsinh arccosh arctanh"""
_OTHERS = """clone detach to type type_as float double half bfloat16 int long short char bool byte
cpu cuda pin_memory zeros_like ones_like empty_like full_like rand_like randn_like randint_like
dropout alpha_dropout feature_alpha_dropout native_dropout bernoulli copy fill zero uniform normal
alias view_as is_same_size"""
POINTWISE = frozenset(f"{_BINARY} {_UNARY} {_OTHERS}".split())


def is_pointwise(name: str) -> bool:
    """Whether an operation, perhaps in place or an operator, treats each element alone."""
    base = name.removeprefix("_nn_").strip("_")
    if base in POINTWISE:
        return True
    return name.startswith("__") and base[0] in "ri" and base[1:] in POINTWISE
