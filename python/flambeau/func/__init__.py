"""Functions of functions: gradients, Jacobians and batches of what a function computes."""

from __future__ import annotations

from flambeau.func._batch_norm import replace_all_batch_norm_modules_
from flambeau.func._functional_call import functional_call, stack_module_state
from flambeau.func._functionalize import debug_unwrap, functionalize
from flambeau.func._grad import grad, grad_and_value, jvp, linearize, vjp
from flambeau.func._jacobian import hessian, jacfwd, jacrev
from flambeau.func._rearrange import rearrange
from flambeau.func._vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
