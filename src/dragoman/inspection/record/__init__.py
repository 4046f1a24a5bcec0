"""What a model computed for a translation: hooks that record it, and the data."""
