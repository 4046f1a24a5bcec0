"""Entities, Moses' marks and tokenised text are found, and what was meant is written again."""

import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text.quality.checks import CONTROL
from dragoman.text.quality.clean_settings import REASONS, CleanSettings
from dragoman.text.quality.cleaning import clean_files
from dragoman.text.quality.doctor import examine
from dragoman.text.quality.escapes import has_entities, has_marks, is_tokenised, join_marks, unescape
from dragoman.text.settings import Languages

TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="&@", exclude_categories=["Cs"])),
    st.lists(st.sampled_from([*"a1é<>\"'-,. /", "AT", "1,000", "well-known"]), max_size=12).map("".join),
)
INSIDE = re.compile(r"(?<=\w)([-,./])(?=\w)")
NOTHING_REMOVED = CleanSettings(**{name: 0 if name.startswith("max") else False for name in REASONS})


def planted(text, times):
    """The text as Moses' tokenizer marks it, escaped so many times."""
    text = INSIDE.sub(r" @\1@ ", text)
    for _ in range(times):
        text = html.escape(text)
    return text


@given(TEXTS)
def test_a_text_without_ampersands_and_at_signs_stays_as_it_is(text):
    assert (unescape(text), join_marks(text)) == (text, text)
    assert not has_entities(text)
    assert not has_marks(text)


@given(TEXTS, st.integers(0, 12))
@example("a-b", 1)
def test_what_was_escaped_and_marked_is_found_and_written_again(text, times):
    faulty = planted(text, times)
    assert has_entities(faulty) == (times > 0 and html.escape(text) != text)
    assert has_marks(faulty) == bool(INSIDE.search(text))
    assert join_marks(unescape(faulty)) == text


PARTS = ["&", "amp;", "#38;", "#x26;", "lt;", "quot;", "#10;", "&#13;", ";", "#", "a", " @-@ ", "@", "-", " "]


@given(st.characters(min_codepoint=0xA1, exclude_categories=["Cs", "Cn"]), st.integers(0, 2))
def test_a_reference_to_the_number_of_a_character_is_the_character(character, zeros):
    number = ord(character)
    for reference in (f"{number:0{zeros}}", f"x{number:x}", f"X{number:X}"):
        assert unescape(f"a &#{reference}; b") == f"a {character} b"
        assert has_entities(f"&#{reference};")


@given(st.lists(st.sampled_from(PARTS), max_size=15).map("".join))
@example("&am&#112;amp;")
def test_a_text_that_was_mended_stays_as_it_is_and_on_its_line(text):
    mended = join_marks(unescape(text))
    assert join_marks(unescape(mended)) == mended
    assert not {"\n", "\r"} & set(mended)


def test_ampersands_of_addresses_names_and_unknown_words_are_no_entities():
    for text in ("AT&T", "R&D; Q&A;", "?a=1&copy=2&lt=3", "Tom & Jerry;", "&;", "&#;", "&nosuchname;"):
        assert unescape(text) == text


def test_a_long_row_of_escapes_is_read_once():
    assert unescape("&" + "amp;" * 200_000 + "lt;") == "<"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("two young , white males", True),
        ("near many bushes .", True),
        ("they 're here", True),
        ("we do n't know", True),
        ("he said `` yes ''", True),
        ("Quoi ? Oui ! Donc ; voilà : « très bien ».", False),
        ("''", False),
        ("the 1980's, rock 'n' roll; don't", False),
        ("Use .NET , or ,5", True),
        ("Use .NET and .5", False),
    ],
)
def test_tokenised_text_is_told_from_french_spaces(text, found):
    assert is_tokenised(text) is found


LINES = st.lists(TEXTS.filter(lambda text: not re.search("[\n\r\0]", text)), min_size=1, max_size=8)


@settings(max_examples=30)
@given(lines=LINES, times=st.integers(1, 3))
def test_clean_writes_what_was_meant_and_doctor_counts_it(tmp_path_factory, lines, times):
    lines = [line.replace("\ufeff", "") for line in lines]
    folder = tmp_path_factory.mktemp("escapes")
    files = folder / "a.en", folder / "a.de"
    for path in files:
        path.write_bytes("".join(planted(line, times) + "\n" for line in lines).encode())
    report = clean_files(files, folder / "out", NOTHING_REMOVED, Languages(), ([], []))
    for name in ("a.en", "a.de"):
        assert (folder / "out" / name).read_bytes().decode() == "".join(f"{line}\n" for line in lines)
    faults = {
        "entities": [planted(line, times) != planted(line, 0) for line in lines],
        "marks": [planted(line, 0) != line for line in lines],
    }
    findings = examine(*files, {})
    for name, faulty in faults.items():
        numbers = [number for number, is_faulty in enumerate(faulty, 1) if is_faulty]
        assert [record["line"] for record in report.changes[name].sample] == numbers[:5]
        assert report.changes[name].count == len(numbers)
        word = "HTML entities" if name == "entities" else "marks of Moses"
        assert [each.count for each in findings if word in each.name] == [len(numbers)] * 2 * bool(numbers)
    again = clean_files(
        (folder / "out" / "a.en", folder / "out" / "a.de"),
        folder / "again",
        NOTHING_REMOVED,
        Languages(),
        ([], []),
    )
    assert [group.count for group in again.changes.values()] == [0, 0]


@pytest.mark.long
def test_changes_can_be_turned_off_and_what_an_entity_hides_is_checked(tmp_path):
    files = tmp_path / "a.en", tmp_path / "a.de"
    files[0].write_text("a &lt; b\nzero &#8203; width\nwell @-@ known\n")
    files[1].write_text("x &lt; y\nnull breit\nwohl @-@ bekannt\n")
    assert CONTROL.search("\u200b")
    for name in ("entities", "marks"):
        report = clean_files(files, tmp_path / name, CleanSettings(**{name: False}), Languages(), ([], []))
        text = (tmp_path / name / "a.en").read_text()
        assert ("&lt;" in text, "@-@" in text) == (name == "entities", name == "marks")
        assert name not in report.changes
        assert report.reasons["control"].count == (name == "marks")


def test_a_side_that_is_changed_is_counted_sampled_and_compared_with_other_data(tmp_path):
    pairs = [(f"source {letter}", f"target {letter} &lt; well @-@ known fÃ¼r") for letter in "abcdefgh"]
    files = tmp_path / "a.en", tmp_path / "a.de"
    for path, side in zip(files, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    test = tmp_path / "test.de"
    test.write_text("target a &amp;lt; well @-@ known fÃ¼r\ntarget b < well-known für\n")
    for near_duplicates in (False, True):
        report = clean_files(
            files,
            tmp_path / str(near_duplicates),
            CleanSettings(near_duplicates=near_duplicates),
            Languages(),
            ([], [test]),
        )
        assert [record["line"] for record in report.reasons["overlap"].sample] == [1, 2]
        for group in report.changes.values():
            assert (group.count, [record["line"] for record in group.sample]) == (6, [3, 4, 5, 6, 7])
            assert group.sample[0]["before"][1] == "target c &lt; well @-@ known fÃ¼r"
            assert group.sample[0]["after"][1] == "target c < well-known für"
