"""Tables of the paper, trained cell by cell: rows as data, a resumable runner, a page with verdicts."""
