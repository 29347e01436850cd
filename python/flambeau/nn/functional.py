"""Functional forms of the layers and losses of ``flambeau.nn``.

Functions whose arguments are exactly those of an op are that op: calling them costs no Python.
"""

from __future__ import annotations

import flambeau
from flambeau import _C
from flambeau.nn import grad as grad
from flambeau.nn._functional.activation import *  # noqa: F403
from flambeau.nn._functional.attention import *  # noqa: F403
from flambeau.nn._functional.attention import (  # noqa: F401
    _canonical_mask,
    _in_projection_packed,
    _none_or_dtype,
)
from flambeau.nn._functional.linear_loss import grouped_mm, linear_cross_entropy  # noqa: F401
from flambeau.nn._functional.loss import *  # noqa: F403
from flambeau.nn._functional.normalization import *  # noqa: F403
from flambeau.nn._functional.overridable import overridable as _overridable
from flambeau.nn._functional.pooling import *  # noqa: F403
from flambeau.nn._functional.scaled import *  # noqa: F403
from flambeau.nn._functional.sparse import *  # noqa: F403
from flambeau.nn._functional.vision import *  # noqa: F403
from flambeau.overrides import (  # noqa: F401
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

linear = _C.linear
bilinear = _C.bilinear
conv1d = _C.conv1d
conv_tbc = _C.conv_tbc
conv2d = _C.conv2d
conv3d = _C.conv3d
conv_transpose1d = _C.conv_transpose1d
conv_transpose2d = _C.conv_transpose2d
conv_transpose3d = _C.conv_transpose3d
avg_pool1d = _C.avg_pool1d
avg_pool2d = _C.avg_pool2d
avg_pool3d = _C.avg_pool3d
adaptive_avg_pool1d = _C.adaptive_avg_pool1d
gelu = _C._nn_gelu
softplus = _C.softplus
hardshrink = _C.hardshrink
prelu = _C.prelu
relu_ = _C.relu_
elu_ = _C.elu_
selu_ = _C.selu_
celu_ = _C.celu_
leaky_relu_ = _C.leaky_relu_
rrelu_ = _C.rrelu_
hardtanh_ = _C.hardtanh_
threshold_ = _C.threshold_
one_hot = _C.one_hot
pairwise_distance = _C.pairwise_distance
cosine_similarity = _C.cosine_similarity
pixel_shuffle = _C.pixel_shuffle
pixel_unshuffle = _C.pixel_unshuffle
channel_shuffle = _C.channel_shuffle
native_channel_shuffle = _C.native_channel_shuffle
pad = _C.pad
pdist = _C.pdist
scaled_dot_product_attention = _C.scaled_dot_product_attention

# Pickle looks for an op in the package, under the op's own name.
vars(flambeau)["_nn_gelu"] = gelu

for _name, _function in list(globals().items()):
    _is_ours = getattr(_function, "__module__", "").startswith("flambeau.nn._functional.")
    if _is_ours and hasattr(_function, "__code__") and not _name.startswith("_"):
        _public = globals()[_name] = _overridable(_function)
        _public.__module__ = __name__  # where pickle finds it
