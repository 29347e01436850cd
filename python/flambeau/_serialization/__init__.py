"""The formats of PyTorch's files, and storages on their way between memory and files."""
