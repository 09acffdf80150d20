"""The numerical work behind the ops, on ndarrays: plain numpy, nothing recorded."""
