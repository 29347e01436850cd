"""Prints what a development environment installs: the packages that pyproject.toml names.

pip installs a project's own dependencies only together with the project; the development build is
imported from the source tree instead, so this lists them: build, run-time and the `dev` extra.
"""

import re
from pathlib import Path


def table_list(text: str, table: str, key: str) -> list[str]:
    """The strings of the list `key` in `[table]`; Python 3.10 has no TOML reader."""
    section = re.search(rf"^\[{re.escape(table)}\]$(.*?)(?=^\[|\Z)", text, re.M | re.S)
    if section is None:
        raise SystemExit(f"pyproject.toml has no [{table}]")
    entry = re.search(rf"^{key} = \[(.*?)\]$", section[1], re.M | re.S)
    if entry is None:
        raise SystemExit(f"pyproject.toml: [{table}] has no list {key}")
    return re.findall(r'"([^"]+)"', entry[1])


def main() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    wanted = [
        *table_list(text, "build-system", "requires"),
        *table_list(text, "project", "dependencies"),
        *table_list(text, "project.optional-dependencies", "dev"),
    ]
    print("\n".join(dict.fromkeys(wanted)))


if __name__ == "__main__":
    main()
