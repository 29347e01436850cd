"""Finds a pattern of nodes in a graph, and puts another in its place."""

from __future__ import annotations

import copy
import dataclasses

import flambeau
from flambeau.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.fx.graph import Graph
    from flambeau.fx.graph_module import GraphModule

__all__ = ["Match", "replace_pattern"]


@dataclasses.dataclass
class Match:
    """Where a pattern was found: its last node, and for each node of the pattern the one found."""

    anchor: Node
    nodes_map: dict[Node, Node]


def _as_graph(pattern: Any) -> Graph:
    from flambeau.fx._symbolic_trace import symbolic_trace
    from flambeau.fx.graph import Graph

    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if hasattr(pattern, "graph") else symbolic_trace(pattern).graph


def _matches(pattern: Any, found: Any, known: dict[Node, Any]) -> bool:
    """Whether an argument fits one of the pattern; notes which node stands for which."""
    if isinstance(pattern, Node):
        if pattern in known:
            return known[pattern] is found
        if pattern.op == "placeholder":
            known[pattern] = found
            return True
        if not isinstance(found, Node) or pattern.op != found.op or pattern.target != found.target:
            return False
        known[pattern] = found
        return _matches(pattern.args, found.args, known) and _matches(
            pattern.kwargs, found.kwargs, known
        )
    if isinstance(pattern, (tuple, list)):
        return (
            isinstance(found, (tuple, list))
            and len(pattern) == len(found)
            and all(_matches(p, f, known) for p, f in zip(pattern, found))
        )
    if isinstance(pattern, dict):
        return (
            isinstance(found, dict)
            and pattern.keys() == found.keys()
            and all(_matches(pattern[key], found[key], known) for key in pattern)
        )
    return not isinstance(found, Node) and type(pattern) is type(found) and pattern == found


def _closed(known: dict[Node, Any], last: Node) -> bool:
    """Whether nobody outside the match uses a node within it, the last excepted."""
    inside = {found for pattern, found in known.items() if pattern.op != "placeholder"}
    return all(
        found is last or all(user in inside for user in found.users)
        for found in inside
        if isinstance(found, Node)
    )


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every place where the pattern is found; places do not overlap.

    Args:
        gm: the module, whose graph is changed.
        pattern: a function, module or graph that has to be found.
        replacement: what stands there afterwards; its inputs are the pattern's, in their order.
    """
    wanted, instead = _as_graph(pattern), _as_graph(replacement)
    anchor = wanted.output_node().args[0]
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    taken: set[Node] = set()
    found: list[tuple[Node, dict[Node, Any]]] = []
    for node in gm.graph.nodes:
        known: dict[Node, Any] = {}
        if not isinstance(anchor, Node) or not _matches(anchor, node, known):
            continue
        inner = {value for key, value in known.items() if key.op != "placeholder"}
        if _closed(known, node) and not inner & taken:
            taken |= inner
            found.append((node, known))
    matches = []
    for node, known in found:
        matches.append(Match(node, dict(known)))
        values = dict(
            zip((n for n in instead.nodes if n.op == "placeholder"), map(known.get, inputs))
        )
        with gm.graph.inserting_before(node):
            result = gm.graph.graph_copy(instead, values)  # type: ignore[arg-type]
        node.replace_all_uses_with(result)
        _erase(gm.graph, node, known)
        for _, later in found:
            later.update({key: result for key, value in later.items() if value is node})
    _adopt(gm, replacement)
    gm.recompile()
    return matches


def _erase(graph: Graph, last: Node, known: dict[Node, Any]) -> None:
    """Removes what was matched, users first."""
    inner = {value for key, value in known.items() if key.op != "placeholder"}
    for node in reversed(list(graph.nodes)):
        if node in inner and not node.users:
            graph.erase_node(node)


def _adopt(gm: GraphModule, replacement: Any) -> None:
    """Gives the module what the replacement's nodes name and it has not."""
    if not isinstance(replacement, flambeau.nn.Module):
        return
    for name, module in replacement.named_modules():
        if name and not any(name == own for own, _ in gm.named_modules()):
            gm.add_submodule(name, copy.deepcopy(module))
