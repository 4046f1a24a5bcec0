"""Tensors in, tensors out: the paper's model, the baselines, and the contract that they keep."""
