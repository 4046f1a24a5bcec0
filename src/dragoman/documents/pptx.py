"""Files of Microsoft PowerPoint (.pptx): the paragraphs of slides, notes, charts and diagrams."""

import re

from dragoman.documents.drawing import PART, read_drawing
from dragoman.documents.file import Archive, Reading
from dragoman.documents.office import content_types, ending_advice, read_office
from dragoman.system.errors import DragomanError

SLIDE = re.compile(r"presentationml\.(?:slide|notesSlide)\+xml\Z")
NUMBER = re.compile("[0-9]+")


def read(content: bytes, reading: Reading) -> Archive:
    """A file of PowerPoint. Raises `DragomanError` if it is damaged, or has no slides."""
    members = read_office(content, reading)
    types = content_types(members, reading.name)
    names = [name for name, kind in types.items() if SLIDE.search(kind) or PART.search(kind)]
    if not any(SLIDE.search(types[name]) for name in names):
        raise DragomanError(f"{reading.name} has no slides{ending_advice(members)}.")
    parts = {name: read_drawing(members[name], reading) for name in sorted(names, key=natural_order)}
    return Archive(content, parts)


def natural_order(name: str) -> tuple[str, int]:
    """What sorts slide2.xml before slide10.xml."""
    return NUMBER.sub("", name), int("0" + "".join(NUMBER.findall(name))[-9:])
