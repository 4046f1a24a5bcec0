"""The languages of a model, as codes of BCP 47: `en`, `pt-BR`. This module imports no torch."""

import re
from dataclasses import dataclass
from pathlib import Path

from dragoman.system.errors import DragomanError

UNKNOWN = "und"
CODE = re.compile(r"[a-zA-Z]{2,3}(-[a-zA-Z0-9]{2,8})*")
PACKED = (".gz", ".txt")


@dataclass(frozen=True)
class Languages:
    """The language that a model reads, and the one that it writes; `und` is an unknown one.

    Raises `DragomanError` for what is no language code.
    """

    source: str = UNKNOWN
    target: str = UNKNOWN

    def __post_init__(self) -> None:
        for side, code in (("source", self.source), ("target", self.target)):
            if not CODE.fullmatch(code):
                raise DragomanError(
                    f"The {side} language is {code!r}; it has to be a language code such as en, de or pt-BR."
                )


def language_of_file(path: Path | None) -> str:
    """The language that a file's ending names, as in `train.en` or `train.en.gz`; `und` for any other name.

    Only codes of ISO 639-1 and a few of three letters count.
    """
    if path is None:
        return UNKNOWN
    name = path.name
    while name.endswith(PACKED):
        name = name.rpartition(".")[0]
    code = name.rpartition(".")[2] if "." in name else ""
    return code.lower() if code.lower() in CODES.split() else UNKNOWN


CODES = (
    # ISO 639-1, and codes of three letters that corpora use
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv "
    "dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig "
    "ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh "
    "mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru "
    "rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug "
    "uk ur uz ve vi vo wa wo xh yi yo za zh zu ast ceb fil haw hsb dsb kab sco yue"
)
