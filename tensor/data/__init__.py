"""Datasets, loading them in batches, and getting the files that they are read from."""

from .dataset import Subset, TensorDataset, random_split
from .digits import generated_digits
from .fetch import CorruptDataError, DownloadError
from .loader import DataLoader
from .mnist import mnist
from .text import pydoc_corpus, text_corpus, tiny_shakespeare

__all__ = [
    "CorruptDataError",
    "DataLoader",
    "DownloadError",
    "Subset",
    "TensorDataset",
    "generated_digits",
    "mnist",
    "pydoc_corpus",
    "random_split",
    "text_corpus",
    "tiny_shakespeare",
]
