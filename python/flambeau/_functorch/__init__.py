"""Transforms of functions by the names of PyTorch's own modules, which libraries import from."""
