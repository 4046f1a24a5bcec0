"""Datasets by name: where their files are, how they are checked and read."""
