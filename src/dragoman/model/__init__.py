"""Tensors in, tensors out: the paper's model, its opponent, and the contract that both keep."""
