"""Catalogues of gettext: read and written by Babel as the judge."""

import gettext
import io
import re
import subprocess
from shutil import which

import pytest
from babel.messages.plurals import PLURALS
from babel.messages.pofile import read_po
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import po
from dragoman.documents.document import MARK
from dragoman.documents.file import Reading
from dragoman.documents.plural_forms import FORMS, plural_forms
from dragoman.documents.po_strings import columns_of, escape, move_accelerator, wrap
from dragoman.system.errors import DragomanError

READING = Reading("a.po", "en", "de")
HEADER = """# Names.
#, fuzzy
msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

"""
CATALOGUE = (
    HEADER
    + r"""#. For translators
#: a.c:1
#, fuzzy, c-format
#| msgid "A former text"
msgctxt "menu"
msgid "The file %s has %d lines\n"
msgstr "Ein alter Text\n"

msgid "E&xit"
msgstr ""

#, python-format
msgid "One file"
msgid_plural "%(n)d files"
msgstr[0] ""
msgstr[1] ""

msgid "Done"
msgstr "Fertig"

#, c-format
msgid ""
"It is 100%% certain that this <b>long</b> text has \"several\" lines. "
"It has two sentences.\n"
"And a line."
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
)


def swap_case(sentence):
    return "".join(
        part if MARK.fullmatch(part) else part.swapcase() for part in re.split(f"({MARK.pattern})", sentence)
    )


def translate(text, change, reading=READING):
    file = po.read(text.encode(), reading)
    assert file.write([segment.sentence for segment in file.segments]) == text.encode()
    return file.write([change(segment.sentence) for segment in file.segments]).decode()


def test_what_is_not_translated_gets_a_translation_and_all_else_stays():
    assert (
        translate(CATALOGUE, swap_case)
        == r"""# Names.
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. For translators
#: a.c:1
#, c-format
msgctxt "menu"
msgid "The file %s has %d lines\n"
msgstr "tHE FILE %s HAS %d LINES\n"

msgid "E&xit"
msgstr "&eXIT"

#, python-format
msgid "One file"
msgid_plural "%(n)d files"
msgstr[0] "oNE FILE"
msgstr[1] "%(n)d FILES"

msgid "Done"
msgstr "Fertig"

#, c-format
msgid ""
"It is 100%% certain that this <b>long</b> text has \"several\" lines. "
"It has two sentences.\n"
"And a line."
msgstr ""
"iT IS 100%% CERTAIN THAT THIS <b>LONG</b> TEXT HAS \"SEVERAL\" LINES. iT HAS "
"TWO SENTENCES.\n"
"aND A LINE."

#~ msgid "gone"
#~ msgstr ""
"""
    )


def test_the_order_of_conversions_may_change_where_they_have_numbers():
    catalogue = '#, {}-format\nmsgid "Now %s is in %s here"\nmsgstr ""\n'
    swap = lambda _: "in <g2/> is <g1/> now"  # noqa: E731
    assert 'msgstr "in %2$s is %1$s now"' in translate(catalogue.format("c"), swap)
    assert 'msgstr ""' in translate(catalogue.format("python"), swap)
    assert 'msgstr "so <g1/>"'.replace("<g1/>", "%s is in %s") in translate(
        catalogue.format("python"), lambda _: "so <g1/> is in <g2/>"
    )


def test_everything_is_translated_on_request():
    reading = Reading("a.po", "en", "de", everything=True)
    assert 'msgid "Done"\nmsgstr "DONE"' in translate(CATALOGUE, str.upper, reading)


@pytest.mark.parametrize("target", ["ja", "ru", "ar", "pl", "xx", "pt-BR", "zh-Hant-TW"])
def test_a_catalogue_gets_the_code_and_the_plural_forms_of_its_language(target):
    written = translate(CATALOGUE, lambda text: "X " + text, Reading("a.po", "en", target))
    assert f'"Language: {target.replace("-", "_")}\\n"' in written
    count = int(re.search(r"nplurals=(\d)", plural_forms(target))[1])
    assert len(re.findall(r"^msgstr\[\d\]", written, re.M)) == count
    assert written.count('"X One file"') == (0 if target in {"ja", "ru", "zh-Hant-TW"} else 1)


@given(st.permutations(["%(a)s", "%(b)d", "{c}"]), st.permutations(["%(a)s", "%(b)d", "{c}"]), st.booleans())
def test_the_form_of_one_and_of_others_is_made_of_the_singular_if_it_has_the_same_places(one, other, is_same):
    """In Russian, 21 has the form of 1."""
    other = other if is_same else other[1:]
    text = (
        f'#, python-format\nmsgid "File {" ".join(one)}"\nmsgid_plural "Files {" ".join(other)}"\n'
        'msgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n'
    )
    written = translate(text, lambda text: "X " + text, Reading("a.po", "en", "ru"))
    kinds = re.findall(r'^msgstr\[\d\] "X (\w+)', written, re.MULTILINE)
    assert kinds == ["File" if is_same else "Files", "Files", "Files"]


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["", "eins", "zwei"]), min_size=1, max_size=6),
    st.sampled_from(["", '#, c-format, fuzzy\n#| msgid "One"\n']),
    st.booleans(),
)
def test_the_forms_that_are_translated_stay_and_those_of_the_catalogue_are_complete(
    count, forms, fuzzy, everything
):
    text = (
        f'msgid ""\nmsgstr "Plural-Forms: nplurals={count}; plural=n % {count};\\n"\n\n# A.\n{fuzzy}'
        'msgid "One file"\nmsgid_plural "Many files"\n'
        + "".join(f'msgstr[{number}] "{form}"\n' for number, form in enumerate(forms))
    )
    written = translate(text, lambda text: "X " + text, Reading("a.po", "en", "de", everything=everything))
    found = dict(re.findall(r'^msgstr\[(\d)\] "(.*)"$', written, re.MULTILINE))
    stay = not (fuzzy or everything)
    for number in range(max(count, len(forms))):
        form = forms[number] if number < len(forms) else ""
        if form and stay:
            assert found[str(number)] == form
        elif form or number < count:
            assert found[str(number)] in {"X One file", "X Many files"}
    assert (
        written.partition("msgid_plural")[0]
        == text.replace(fuzzy, "#, c-format\n" if fuzzy else "").partition("msgid_plural")[0]
    )
    if all(forms) and len(forms) >= count and stay:
        assert written == text


@pytest.mark.parametrize(
    "language", sorted({*FORMS, "de", "pt_BR"} & set(PLURALS) - {"cy", "fa", "ar", "mt", "hy"})
)
def test_plural_forms_are_those_of_babel(language):
    count, expression = PLURALS[language]
    declared = po.PLURALS.search(plural_forms(language))
    forms, expected = gettext.c2py(declared[2]), gettext.c2py(expression)
    assert int(declared[1]) == count
    assert [forms(n) for n in range(220)] == [expected(n) for n in range(220)]


@pytest.mark.skipif(which("msgfmt") is None, reason="msgfmt is not installed")
def test_msgfmt_takes_it():
    written = translate(CATALOGUE, lambda text: "X " + text)
    result = subprocess.run(
        ["msgfmt", "-c", "-o", "/dev/null", "-"], check=False, input=written.encode(), capture_output=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("text", "moved"),
    [("E&xit", "&Exit"), ("Save E_xit", "Save _Exit"), ("AT&T", "AT&T"), ("file_name", "file_name"),
     ("&File", "&File"), ("a&amp;b", "a&amp;b"), ("R&D and Q&A", "R&D and Q&A")],
)  # fmt: skip
def test_the_mark_of_a_key_stands_before_its_word(text, moved):
    assert move_accelerator(text) == moved


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n\t\r"\\%&_')
TEXT = st.text(CHARACTERS, max_size=40)  # Babel does not know all escapes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT.filter(str.strip), TEXT), max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_any_text_is_written_and_read_back(messages, newline):
    messages = {f"{number} abc {source}": written for number, (source, written) in enumerate(messages)}
    entries = [f'# {n}\nmsgid "{escape(source)}"\nmsgstr ""\n' for n, source in enumerate(messages)]
    content = "\n".join(entries).replace("\n", newline).encode()
    file = po.read(content, Reading("a.po", "en", "de", split=False))
    assert file.write([segment.sentence for segment in file.segments]) == content
    answer = file.write(["Ä" + segment.sentence for segment in file.segments])
    read = read_po(io.BytesIO(answer), ignore_obsolete=True, abort_invalid=True)
    assert [message.id for message in read if message.id] == list(messages)
    assert [message.string != "" for message in read if message.id] == [True] * len(messages)
    for written in messages.values():
        line = po.read(b'msgid "abc"\nmsgstr ""', READING).write([written]).decode()
        (message,) = (message for message in read_po(io.StringIO(line)) if message.id)
        assert message.string == (written if written.strip() else "")


@given(st.text(), st.sampled_from(["msgstr", "msgstr[0]"]))
def test_a_string_is_wrapped_as_its_lines_and_no_character_is_lost(text, key):
    lines = wrap(key, escape(text))
    assert "".join(line[line.index('"') + 1 : -1] for line in lines) == escape(text)
    assert all(
        sum(map(columns_of, line)) <= 79 for line in lines if line[:-1].count(" ") > 1 and len(line) < 60
    )


@pytest.mark.parametrize("text", ["msgid a\n", 'msgid "a\n', "x", 'msgid ""\nmsgstr "charset=koi8-r"\n'])
def test_what_is_no_catalogue_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.po"):
        po.read(text.encode(), READING)


def test_a_catalogue_says_what_language_its_translations_are_in():
    text = 'msgid ""\nmsgstr "Language: fr_CA\\n"\n\nmsgid "One"\nmsgstr ""\n'
    assert po.read(text.encode(), READING).translated_into == "fr"
    assert not po.read(text.replace("fr_CA", "").encode(), READING).translated_into
