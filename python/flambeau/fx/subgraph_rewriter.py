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


def _closed(known: dict[Node, Any], results: list[Any]) -> bool:
    """Whether nobody outside the match uses a node within it, what it returns excepted."""
    inside = {found for pattern, found in known.items() if pattern.op != "placeholder"}
    return all(
        any(found is result for result in results) or all(user in inside for user in found.users)
        for found in inside
        if isinstance(found, Node)
    )


def _complete(
    anchors: list[Any], known: dict[Node, Any], candidates: list[Node]
) -> dict[Node, Any] | None:
    """A match of all that the pattern returns, of which some is known; None if there is none."""
    open_ones = [anchor for anchor in anchors if isinstance(anchor, Node) and anchor not in known]
    if not open_ones:
        return known
    for node in candidates:
        attempt = dict(known)
        if _matches(open_ones[0], node, attempt):
            found = _complete(anchors, attempt, candidates)
            if found is not None:
                return found
    return None


def _insertion_point(graph: Graph, results: list[Node], inputs: list[Any]) -> Node:
    """The first of the results to replace, or the node behind the last input if that is later."""
    order = {node: at for at, node in enumerate(graph.nodes)}
    first = min(results, key=order.__getitem__)
    last_input = max(
        (x for x in inputs if isinstance(x, Node)), key=order.__getitem__, default=None
    )
    if last_input is None or order[last_input] < order[first]:
        return first
    behind = last_input.next
    while behind.op == "placeholder":
        behind = behind.next
    return behind


def _returned(graph: Graph) -> list[Any]:
    result = graph.output_node().args[0]
    return list(result) if isinstance(result, (tuple, list)) else [result]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every place where the pattern is found; matches do not overlap.

    Args:
        gm: the module, whose graph is changed.
        pattern: a function, module or graph that has to be found.
        replacement: what stands there afterwards; its inputs are the pattern's, in their order.
    """
    wanted, instead = _as_graph(pattern), _as_graph(replacement)
    anchors = _returned(wanted)
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    found = _find(gm.graph, anchors)
    matches = []
    for known in found:
        matches.append(Match(known[anchors[-1]], dict(known)))
        given = [known.get(node) for node in inputs]
        values = dict(zip((n for n in instead.nodes if n.op == "placeholder"), given))
        olds = [known[anchor] for anchor in anchors]
        with gm.graph.inserting_before(_insertion_point(gm.graph, olds, given)):
            made = gm.graph.graph_copy(instead, values)  # type: ignore[arg-type]
        news = list(made) if isinstance(made, (tuple, list)) else [made]
        for old, new in zip(olds, news):
            old.replace_all_uses_with(new)
            for later in found:
                later.update({key: new for key, value in later.items() if value is old})
        _erase(gm.graph, matches[-1].nodes_map)
    _adopt(gm, replacement)
    gm.recompile()
    return matches


def _find(graph: Graph, anchors: list[Any]) -> list[dict[Node, Any]]:
    """Where the pattern that returns the anchors is found; each node is part of one match."""
    taken: set[Node] = set()
    found = []
    for node in graph.nodes:
        start: dict[Node, Any] = {}
        if not all(isinstance(a, Node) for a in anchors) or not _matches(anchors[0], node, start):
            continue
        known = _complete(anchors, start, [n for n in graph.nodes if n not in taken])
        if known is None:
            continue
        inner = {value for key, value in known.items() if key.op != "placeholder"}
        if _closed(known, [known[anchor] for anchor in anchors]) and not inner & taken:
            taken |= inner
            found.append(known)
    return found


def _erase(graph: Graph, known: dict[Node, Any]) -> None:
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
