"""PyTorch's operators: which one a call stands for, those that this library computes in other
steps, and tensors whose class answers for them with `__torch_dispatch__`."""
