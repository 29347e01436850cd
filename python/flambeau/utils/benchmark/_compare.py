"""Compare: measurements of the same things side by side."""

from __future__ import annotations

from flambeau.utils.benchmark._measurement import UNIT_NAMES, Measurement, select_unit

__all__ = ["Compare"]

_BEST, _PLAIN = "\x1b[92m\x1b[1m", "\x1b[0m\x1b[0m"


class Compare:
    """A table for each label: rows by sub-label and threads, columns by description."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = False
        self._colors = False
        self.extend_results(results)

    def extend_results(self, results: list[Measurement]) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows no more digits than the spread of the times leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Shows the best time of each row in color."""
        self._colors = True

    def highlight_warnings(self) -> None:
        """Accepted; times that vary much are not marked."""

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(one.task_spec.label for one in merged))
        return "\n".join(
            self._table(label, [one for one in merged if one.task_spec.label == label])
            for label in labels
        )

    def _cell(self, found: Measurement | None, scale: float, best: float | None) -> str:
        if found is None:
            return ""
        text = f"{found.median / scale:.1f}"
        if self._trim:
            text = f"{float(f'{found.median / scale:.{found.significant_figures}g}'):g}"
        return f"{_BEST}{text}{_PLAIN}" if self._colors and found.median == best else text

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(one.median for one in results))
        columns = list(dict.fromkeys(one.task_spec.description or "" for one in results))
        threads = sorted({one.task_spec.num_threads for one in results})
        names = list(dict.fromkeys(one.as_row_name for one in results))
        cells: dict[tuple[int, str], list[str]] = {}
        for count in threads:
            for name in names:
                row = {
                    one.task_spec.description or "": one
                    for one in results
                    if one.task_spec.num_threads == count and one.as_row_name == name
                }
                if row:
                    best = min(one.median for one in row.values())
                    cells[count, name] = [self._cell(row.get(c), scale, best) for c in columns]
        return _drawn(label or "", columns, cells, UNIT_NAMES[unit], unit)


def _visible(text: str) -> int:
    return len(text.replace(_BEST, "").replace(_PLAIN, ""))


def _drawn(
    label: str,
    columns: list[str],
    cells: dict[tuple[int, str], list[str]],
    unit_name: str,
    unit: str,
) -> str:
    first = max(len(name) for _, name in cells) + 6
    widths = [
        max(len(column), *(_visible(row[k]) for row in cells.values()))
        for k, column in enumerate(columns)
    ]

    def line(start: str, values: list[str]) -> str:
        padded = [" " * (w - _visible(v)) + v for v, w in zip(values, widths)]
        return f"{start:<{first}}  |  " + "  |  ".join(padded)

    head = line("", columns)
    width = len(head)
    lines = ["[" + f" {label} ".center(width - 2, "-") + "]", head]
    shown = None
    for (count, name), row in cells.items():
        if count != shown:
            lines.append(f"{count} threads: ".ljust(width, "-"))
            shown = count
        lines.append(line(f"      {name}", row))
    return "\n".join([*lines, "", f"Times are in {unit_name} ({unit}).", ""])
