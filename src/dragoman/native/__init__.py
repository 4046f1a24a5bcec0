"""C++ that is compiled where it runs: what all of it shares, and how it is made."""
