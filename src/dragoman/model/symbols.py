"""The first four ids of every vocabulary; START is also known as BOS, END as EOS.

Padding is 0: `ids != PAD` is the mask.
"""

PAD, UNKNOWN, START, END = range(4)
