"""What a user did can be told in a sentence: what was given, what was wanted, what to do."""


class DragomanError(Exception):
    """The one exception that the command line prints as a sentence, without a traceback."""
