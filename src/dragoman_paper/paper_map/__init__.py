"""A model beside the paper: its parameters, its cost, and where it departs. Does not import torch."""
