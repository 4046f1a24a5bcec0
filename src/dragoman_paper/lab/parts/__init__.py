"""Parts of experiments that are too long for the experiment's own page, or that several of them share."""
