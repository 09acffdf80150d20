"""Optimizers, PyTorch's way."""
