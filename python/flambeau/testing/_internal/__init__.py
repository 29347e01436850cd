"""The base of tests that are written against PyTorch's own test helpers."""
