"""`dragoman shortlist`: likely translations of tokens, for faster translation."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from dragoman.cli.console import say
from dragoman.cli.languages import warn_of_files
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.system.options import check_options, option
from dragoman.system.wording import counted
from dragoman.text.mixture import refuse_both_sides

MAX_TOKENS = 250  # of a side: the memory grows with the product of both


@dataclass(frozen=True)
class MakeShortlist:
    """Learn likely translations of tokens from parallel text, for faster translation."""

    run: Path
    """The run's folder, or the folder `model` in it. The shortlist works with its vocabularies only."""
    source: Path
    """Sentences such as those of the model's training data."""
    target: Path
    """Their translations: line n is that of source line n."""
    out: Path
    """The file to write."""
    most: int = option(30, at_least=1, at_most=10_000)
    """Number of likeliest translations that are kept for each source token."""
    always: int = option(200, at_least=0, at_most=1_000_000)
    """Number of frequent tokens that every translation may contain."""

    def __post_init__(self) -> None:
        check_options(self)


def shortlist(arguments: Arguments) -> None:
    """Learn a shortlist."""
    settings = settings_from(MakeShortlist, arguments)
    refuse_replacing("--out", settings.out, settings.source, settings.target)
    refuse_missing_folder("--out", settings.out)
    for path in (settings.source, settings.target):
        refuse_both_sides(path)
    from dragoman.search.shortlist import Shortlist
    from dragoman.text.lines import read_pairs
    from dragoman.translation.model_folder import Tokenizers, model_folder, read_about

    folder = model_folder(settings.run)
    tokenizers, languages = Tokenizers.load(folder), read_about(folder).languages
    warn_of_files(settings.run, languages, [settings.source], [settings.target])
    pairs = read_pairs(settings.source, settings.target)
    texts = list(zip(*pairs, strict=True)) or [(), ()]
    sides = (tokenizers.source, tokenizers.target)
    ids = [side.encode(list(text)) for side, text in zip(sides, texts, strict=True)]
    sizes = len(tokenizers.source), len(tokenizers.target)
    tokens = [pair for pair in zip(*ids, strict=True) if max(map(len, pair)) <= MAX_TOKENS]
    if count := len(ids[0]) - len(tokens):
        say(f"{counted(count, 'pair')} with more than {MAX_TOKENS} tokens in a side: left out.")
    if not any(source and target for source, target in tokens):
        raise DragomanError(f"{settings.source} and {settings.target} have no pair to learn from.")
    learned = Shortlist.learn(tokens, sizes, settings.most, settings.always)
    with atomic_write(settings.out) as new:
        learned.save(new)
    say(f"{settings.out} has the translations of the tokens of {counted(len(tokens), 'pair')}.")
    say(f"Use it with: dragoman translate {quote(str(settings.run))} --shortlist {quote(str(settings.out))}")


COMMAND = Command(
    "shortlist",
    "Learn likely translations of tokens from parallel text, for faster translation.",
    shortlist,
    MakeShortlist,
    example="dragoman shortlist runs/ende -s train.en -t train.de -o ende.shortlist",
    arguments="RUN -s FILE -t FILE -o FILE",
    groups={"text": ("run", "source", "target"), "shortlist": ("out", "most", "always")},
    metavars={"run": "RUN"},
)
