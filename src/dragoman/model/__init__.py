"""Tensors in, tensors out: the paper's model, a recurrent baseline, and the contract that both keep."""
