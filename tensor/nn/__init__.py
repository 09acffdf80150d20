"""Layers and losses, PyTorch's way."""
