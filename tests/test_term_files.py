"""Glossaries: tables as Python's csv writes them, and TBX as lxml reads it."""

import csv
import io
import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from dragoman.documents.table import DELIMITERS
from dragoman.documents.terms import MAX_TERM, read_terms, terms_of
from dragoman.system.errors import DragomanError
from dragoman.text.settings import Languages
from dragoman.translation.glossary import Term

LANGUAGES = Languages("en", "de")
WORD = st.text("aß \"',;\t-é1", min_size=1, max_size=6).map("x{}y".format)
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def table(rows, delimiter=",", quoting=csv.QUOTE_MINIMAL):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(rows)
    return file.getvalue().encode()


def tidy(text):
    return " ".join(text.split())


@pytest.mark.short_form(4)
@pytest.mark.parametrize(
    ("suffix", "delimiter"),
    [(".tsv", "\t"), (".tab", "\t"), (".txt", "\t"), *((".csv", delimiter) for delimiter in DELIMITERS)],
)
@settings(max_examples=25)
@given(
    st.lists(st.tuples(WORD, WORD), max_size=4),
    st.sampled_from(
        [
            None, ("source", "target"), ("Source", "TRANSLATION"), ("en", "de"), ("en-US", "de_AT"),
            ("en", "target"), ("term", "translation"), ("fr", "fr"), ("fr", "it"), ("en", "fr"),
            ("FR", "de-DE"), ("English", "German"), ("ENGLISH (US)", "Deutsch"), ("term", "german"),
            ("EN", "DE"), ("English", "French"),
        ]
    ),
    st.permutations([0, 1, 2]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(0, 4),
    st.booleans(),
)  # fmt: skip
def test_the_terms_of_a_table_are_those_of_its_columns(
    suffix, delimiter, pairs, header, order, quoting, gap, says_delimiter
):
    """Without a header that names both, they are the first two. Empty rows count for nothing.

    A header that names one of the languages beside another one is that of a table without terms.
    """
    is_of_others = header in {("en", "fr"), ("FR", "de-DE"), ("English", "French")}
    is_named = header is not None and header not in {("fr", "fr"), ("fr", "it")} and not is_of_others
    rows = [["" if place == 2 else pair[place] for place in order] for pair in pairs]
    if not is_named:
        order, rows = [0, 1, 2], [[*pair, ""] for pair in pairs]
    rows.insert(min(gap, len(rows)), ["", " ", ""])
    if suffix == ".csv" and not says_delimiter:  # a sign that all rows have may be the delimiter as well
        others = dict.fromkeys(map(ord, DELIMITERS[: DELIMITERS.index(delimiter)]), ".")
        rows = [[cell.translate(others) for cell in row] for row in rows]
        pairs = [[text.translate(others) for text in pair] for pair in pairs]
    if header:
        names = [*header, "notes"]
        rows.insert(0, [names[place] for place in order])
    expected = [Term(*map(tidy, pair)) for pair in pairs]
    if header and not is_named:
        expected.insert(0, Term(*header))
    if is_of_others:
        expected = []
    first_line = f"sep={delimiter}\r\n".encode() * says_delimiter
    assert terms_of(first_line + table(rows, delimiter, quoting), suffix, "a", LANGUAGES) == expected


@pytest.mark.parametrize("header", [("en", "de"), ("German", "English"), ("Polski", "TR")])
@pytest.mark.parametrize("unknown", [Languages("und", "und"), Languages("und", "xx")])
def test_where_the_languages_are_unknown_a_header_is_what_names_two_of_them(header, unknown):
    assert terms_of(table([header, ("x", "y")]), ".csv", "a", unknown) == [Term("x", "y")]
    assert len(terms_of(table([(header[0], "y"), ("x", "y")]), ".csv", "a", unknown)) == 2


@given(
    st.lists(
        st.sampled_from([("en", "de"), ("en-GB", "DE"), ("de", "en"), ("en", "fr"), ("fr", "de")]), max_size=5
    )
)
def test_of_four_columns_the_last_two_are_the_languages_of_each_term(codes):
    rows = [[f"a{number}", f"b{number}", *pair] for number, pair in enumerate(codes)]
    expected = [
        Term(row[0], row[1]) for row in rows if [code[:2].lower() for code in row[2:]] == ["en", "de"]
    ]
    assert terms_of(table([["x", "y", "z", "w w"], *rows]), ".csv", "a", LANGUAGES) == [
        Term("x", "y"),
        *expected,
    ]
    more = [[*row, "note"] for row in rows]
    assert len(terms_of(table([["x", "y"], *more]), ".csv", "a", LANGUAGES)) == 1 + len(rows)


@given(
    st.lists(
        st.sampled_from([["one"], ["one", ""], ["", "two"], ["one", " "], ["x", "y"], ["", ""]]), max_size=5
    )
)
def test_rows_without_a_translation_are_counted_and_refused_if_there_is_no_other(rows):
    complete = [row for row in rows if row == ["x", "y"]]
    incomplete = [row for row in rows if row not in (["x", "y"], ["", ""])]
    content = table([["source", "target"], *rows])
    if incomplete and not complete:
        first = 2 + rows.index(incomplete[0])
        with pytest.raises(DragomanError, match=rf"a, row {first} .* columns 1 and 2"):
            terms_of(content, ".csv", "a", LANGUAGES)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert terms_of(content, ".csv", "a", LANGUAGES) == [Term("x", "y")] * len(complete)
    counts = [re.search(r"a has (\d+) rows? without", str(one.message))[1] for one in caught]
    assert counts == [str(len(incomplete))] * bool(incomplete)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("length", [MAX_TERM, MAX_TERM + 1])
def test_a_term_has_a_bounded_length(place, length):
    row = ["x", "y"]
    row[place] = "z" * length
    if length <= MAX_TERM:
        assert terms_of(table([row]), ".csv", "a", LANGUAGES) == [Term(*row)]
    else:
        with pytest.raises(DragomanError, match=r"a, row 1: .*501 characters"):
            terms_of(table([row]), ".csv", "a", LANGUAGES)


STATUSES = {
    "": None, "preferredTerm-admn-sts": True, "admittedTerm-admn-sts": False, "standardizedTerm": False,
    "Preferred": True, "deprecatedTerm-admn-sts": None, "supersededTerm-admn-sts": None, "Deprecated": None,
}  # fmt: skip
"""Whether a term is preferred; "" stands for none, and the last ones for terms that nobody is to use."""
TERM = st.tuples(
    st.sampled_from(["en", "en-US", "de", "DE-AT", "fr"]),
    st.sampled_from(["red  house", "a &amp; b", "H<hi>2</hi>O", "&lt;b&gt;", "", "x&#233;"]),
    st.sampled_from(sorted(STATUSES)),
)


@pytest.mark.parametrize(
    ("root", "entry", "language"),
    [("martif", "termEntry", "langSet"), ("tbx", "conceptEntry", "langSec")],
)
@settings(max_examples=40)
@given(
    entries=st.lists(st.lists(TERM, max_size=4), max_size=3),
    note=st.sampled_from(["administrativeStatus", "normativeAuthorization", "partOfSpeech"]),
)
def test_the_terms_of_a_tbx_file_are_those_of_its_concepts(root, entry, language, entries, note):
    """Each source term with the first preferred target term, or else the first; none that is deprecated."""
    parts = [
        "".join(
            f'<{language} xml:lang="{code}"><tig><term id="t">{term}</term>'
            + f'<termNote type="{note}">{status}</termNote>' * bool(status)
            + f"</tig></{language}>"
            for code, term, status in terms
        )
        for terms in entries
    ]
    text = f'<{root} type="TBX"><text><body>' + "".join(
        f'<{entry} id="c{n}"><note type="{note}">superseded</note>{part}</{entry}>'
        for n, part in enumerate(parts)
    )
    text = f'<?xml version="1.0"?>\n{text}</body></text></{root}>'
    expected = []
    for concept in etree.fromstring(text.encode()).iter(entry):
        found = {"en": [], "de": []}
        for term in concept.iter("term"):
            status = term.getparent().findtext("termNote") or ""
            status = status if note != "partOfSpeech" else ""
            is_left_out = "deprecated" in status.lower() or "superseded" in status.lower()
            code = term.getparent().getparent().get(XML_LANG).lower()[:2]
            if code in found and not is_left_out:
                found[code].append((not STATUSES[status], tidy("".join(term.itertext()))))
        targets = sorted(found["de"], key=lambda pair: pair[0])
        expected += [
            Term(source, targets[0][1]) for _, source in found["en"] if targets and source and targets[0][1]
        ]
    for suffix in (".tbx", ".xml"):
        assert terms_of(text.encode(), suffix, "a", LANGUAGES) == expected


@given(
    st.lists(st.tuples(WORD, WORD), max_size=4),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_a_glossary_has_the_same_terms_in_any_encoding_that_names_itself(pairs, encoding, end):
    rows = [pair for pair in pairs if "\t" not in "".join(pair) and '"' not in "".join(pair)]
    content = "".join(f"{source}\t{target}{end}" for source, target in rows)
    terms = terms_of(content.encode(encoding), ".tsv", "a.tsv", LANGUAGES)
    assert terms == [Term(tidy(source), tidy(target)) for source, target in rows]
    for other in ("utf-16-le", "utf-16-be", "latin-1"):
        if content and (other != "latin-1" or not content.isascii()):
            with pytest.raises(DragomanError, match=r"line 1|not UTF-8"):
                terms_of(content.encode(other), ".tsv", "a.tsv", LANGUAGES)


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_a_table_of_excel_that_is_not_utf_8_is_refused_with_what_to_choose(delimiter):
    with pytest.raises(DragomanError, match=r"line 1, byte 6: not UTF-8 .*CSV UTF-8"):
        terms_of(f"oven{delimiter}Öfen".encode("cp1252"), ".csv", "a", LANGUAGES)


def test_what_is_no_glossary_is_refused(tmp_path):
    with pytest.raises(DragomanError, match=r"a is no TBX"):
        terms_of(b"<resources/>", ".tbx", "a", LANGUAGES)
    with pytest.raises(DragomanError, match=r"\.tsv, \.csv or \.tbx"):
        terms_of(b"a,b", ".xls", "a", LANGUAGES)
    with pytest.raises(DragomanError, match=r"cannot be read"):
        read_terms(tmp_path / "a.csv", LANGUAGES)
    (tmp_path / "a.CSV").write_bytes(b"\xef\xbb\xbfone,two\n")
    assert read_terms(tmp_path / "a.CSV", LANGUAGES) == [Term("one", "two")]
