"""What may be wrong with a corpus: checks, `doctor`, which counts, and `clean`, which removes."""
