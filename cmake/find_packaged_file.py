"""Prints where an installed Python package put one of its files.

Usage: find_packaged_file.py PACKAGE SUFFIX. Works in a virtual environment and in the isolated
environment that pip builds wheels in, because it asks the package's own record of files.
"""

import importlib.metadata
import os
import sys


def main() -> None:
    package, suffix = sys.argv[1:]
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"{package} is not installed for {sys.executable}: run `make setup`")
    for file in files:
        if str(file).endswith(suffix):
            print(os.path.abspath(file.locate()))
            return
    sys.exit(f"{package} is installed for {sys.executable} but holds no {suffix}: reinstall it")


if __name__ == "__main__":
    main()
