"""Transforms: invertible functions of tensors, with the logarithm of their Jacobian determinant.

`TransformedDistribution` is the distribution of a transform of a variable. Domain and codomain are
constraints; a bijective transform has an inverse, `t.inv`.
"""

from __future__ import annotations

from flambeau.distributions._element_transforms import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from flambeau.distributions._element_transforms import (
    _clipped_sigmoid as _clipped_sigmoid,  # programs take it from here
)
from flambeau.distributions._transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from flambeau.distributions._transform import (
    _InverseTransform as _InverseTransform,  # programs ask for inverses by this name
)
from flambeau.distributions._vector_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
