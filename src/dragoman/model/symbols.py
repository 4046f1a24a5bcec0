"""The four ids that every vocabulary of Dragoman begins with; padding is 0 so that `ids != PAD` is the mask."""

PAD, UNKNOWN, START, END = range(4)
