"""The tests of `flambeau.library.opcheck`: what an operator has been given must fit together."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau._ops import Operator


def _map(function: Any, values: Any) -> Any:
    if isinstance(values, flambeau.Tensor):
        return function(values)
    if isinstance(values, (list, tuple)):
        return type(values)(_map(function, value) for value in values)
    if isinstance(values, dict):
        return {key: _map(function, value) for key, value in values.items()}
    return values


def _copy(tensor: flambeau.Tensor) -> flambeau.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _schema(operator: Operator, args: Any, kwargs: Any) -> None:
    """Only the arguments that the schema says so are written into."""
    assert operator.schema is not None
    given, keywords = operator.schema.bind(_map(_copy, args), _map(_copy, kwargs))
    before = _map(lambda tensor: tensor.detach().clone(), [*given, *keywords.values()])
    operator(*given, **keywords)
    for argument, old, new in zip(operator.schema.arguments, before, [*given, *keywords.values()]):
        if argument.is_write or not isinstance(new, flambeau.Tensor):
            continue
        if not flambeau.equal(old, new.detach()):
            raise RuntimeError(
                f"opcheck: {operator.name} writes into its argument '{argument.name}', but its "
                f"schema does not say so: {operator.schema}"
            )


def _autograd(operator: Operator, args: Any, kwargs: Any) -> None:
    """Results that require gradients can be differentiated."""
    results = operator(*_map(_copy, args), **_map(_copy, kwargs))
    results = results if isinstance(results, (list, tuple)) else (results,)
    wanted = [one for one in results if isinstance(one, flambeau.Tensor) and one.requires_grad]
    if wanted:
        flambeau.autograd.backward(wanted, [flambeau.ones_like(one) for one in wanted])


def _fake(operator: Operator, args: Any, kwargs: Any) -> None:
    """The results on the meta device have the shapes and dtypes of the real ones."""
    with flambeau.no_grad():
        real = operator(*_map(_copy, args), **_map(_copy, kwargs))
        to_meta = lambda tensor: tensor.to("meta")  # noqa: E731
        fake = operator(*_map(to_meta, args), **_map(to_meta, kwargs))
    pairs = zip(*(one if isinstance(one, (list, tuple)) else (one,) for one in (real, fake)))
    for index, (known, said) in enumerate(pairs):
        if isinstance(known, flambeau.Tensor) and (known.shape, known.dtype) != (
            said.shape,
            said.dtype,
        ):
            raise RuntimeError(
                f"opcheck: result {index} of {operator.name} has shape {tuple(known.shape)} and "
                f"dtype {known.dtype}, but the fake implementation says {tuple(said.shape)} and "
                f"{said.dtype}"
            )


checks = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _autograd,
    "test_aot_dispatch_static": _autograd,
}
