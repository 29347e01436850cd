"""PyTorch's operators: those that this library computes in other steps, and who answers for them
with `__torch_dispatch__`."""
