"""The place of PyTorch's legacy types of sparse tensors on CUDA.

There are none: sparse tensors are made by ``flambeau.sparse_coo_tensor(..., device="cuda")``.
"""
