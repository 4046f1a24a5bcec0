"""The verbs of the companion, a file each."""
