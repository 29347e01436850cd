"""Utilities around tensors and modules; each is a module of its own, loaded when it is asked
for.
"""
