"""The first four ids of every vocabulary; others call START BOS, and END EOS. Padding is 0: `ids != PAD` is the mask."""

PAD, UNKNOWN, START, END = range(4)
