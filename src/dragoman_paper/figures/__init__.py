"""The figures of the paper, and others that explain it, drawn from a model of one's own."""
