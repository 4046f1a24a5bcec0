"""Other engines' formats: one file each, a plain map of names and shapes."""
