"""Catalogues of gettext: read and written by Babel as the judge."""

import gettext
import io
import itertools
import re
import subprocess
from shutil import which

import polib
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
from dragoman.text.letters import has_letter
from tests.document_laws import upper

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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=60)
@given(st.lists(TEXT, min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_the_text_of_which_the_msgid_is_the_key_is_translated_like_a_msgid(lines, newline, is_fuzzy):
    first, *following = (f'"{escape(line)}"' for line in lines)
    comments = ["#. A note", f"#. Default: {first}", *(f"#. {line}" for line in following), "#: a.pt:1"]
    flags = ["#, fuzzy"] * is_fuzzy
    keyed = newline.join([*comments, *flags, 'msgid "front-title"', 'msgstr ""', ""])
    text = "".join(lines)
    message = text if has_letter(text) else "front-title"
    plain = newline.join([f'msgid "{escape(message)}"', 'msgstr ""', ""])
    head, _, written = translate(keyed, upper).partition("msgstr")
    assert written == translate(plain, upper).partition("msgstr")[2]
    assert head == newline.join([*comments, 'msgid "front-title"', ""]) or written == f' ""{newline}'


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


# ---- random catalogues, read by polib

PO_WORDS = (
    "word",
    "é",
    'say "x"',
    "<b>one</b>",
    "{name}",
    "%s",
    "%(n)d",
    "a\tb",
    "50 %",
    "line\n",
    "\\",
    "%1",
    "%n",
    "%L1",
)
PO_TEXT = st.lists(st.sampled_from(PO_WORDS), max_size=6).map(lambda parts: " ".join(["one", *parts, "two"]))
FLAGS = ("fuzzy", "c-format", "python-format", "no-wrap", "no-c-format", "kde-format")
ENTRY = st.fixed_dictionaries(
    {
        "msgctxt": st.sampled_from([None, "", "menu", "a\nb"]),
        "plural": st.booleans(),
        "previous": st.booleans(),
        "flags": st.lists(st.sampled_from(FLAGS), unique=True, max_size=3),
        "translations": st.lists(st.sampled_from(["", "da", "da\ndort"]), min_size=3, max_size=3),
        "obsolete": st.booleans(),
        "comment": st.sampled_from(["", "no", "fuzzy"]),
        "text": PO_TEXT,
    }
)


def catalogue(entries, count):
    file = polib.POFile(wrapwidth=60)
    file.metadata = {
        "Content-Type": "text/plain; charset=UTF-8",
        "Plural-Forms": f"nplurals = {count}; plural = n % {count};",
    }
    for number, entry in enumerate(entries):
        form = {form: entry["translations"][form] for form in range(count)}
        file.append(
            polib.POEntry(
                msgid=f"{number} {entry['text']}", msgctxt=entry["msgctxt"], flags=entry["flags"],
                msgid_plural=f"{number} many {entry['text']}" if entry["plural"] else "",
                msgstr="" if entry["plural"] else entry["translations"][0],
                msgstr_plural=form if entry["plural"] else {},
                previous_msgid="former" if entry["previous"] else None,
                obsolete=entry["obsolete"], tcomment=entry["comment"], comment="for translators, fuzzy",
                occurrences=[("a.c", "1")],
            )
        )  # fmt: skip
    return str(file)


def po_capitals(text, is_format):
    """A text in capitals, but for its places."""
    places = r"%s|%\(n\)d|%L?1|%n\b|</?b>|\{name\}" + r"|%" * is_format
    return re.sub(rf"({places})|.", lambda match: match[1] or match[0].upper(), text, flags=re.DOTALL)


@settings(max_examples=30)
@given(
    st.lists(ENTRY, max_size=4),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_only_what_has_no_translation_changes_in_any_catalogue(entries, count, everything, newline, is_open):
    for entry in entries:
        entry["flags"] = [
            flag
            for flag in entry["flags"]
            if flag not in {"c-format", "python-format"} or "%n" not in entry["text"]
        ]
        if {"c-format", "python-format"} & {*entry["flags"]}:
            entry["text"] = re.sub("%L?1|50 %|%n", "word", entry["text"])
    text = catalogue(entries, count)
    raw = (text.rstrip("\n") if is_open else text).replace("\n", newline)
    file = po.read(raw.encode(), Reading("a.po", "en", "de", split=False, everything=everything))
    assert file.write([segment.sentence for segment in file.segments]).decode() == raw
    written = file.write([upper(segment.sentence) for segment in file.segments]).decode()
    assert ("\r\n" in written) == (newline == "\r\n" and "\n" in text)
    assert written.endswith("\n") != is_open
    before, after = polib.pofile(text), polib.pofile(written.replace("\r\n", "\n"))
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        for name in ("msgid", "msgid_plural", "msgctxt", "tcomment", "comment", "occurrences", "obsolete"):
            assert getattr(one, name) == getattr(other, name)
        if one.obsolete:
            assert (one.flags, one.msgstr, one.msgstr_plural) == (
                other.flags,
                other.msgstr,
                other.msgstr_plural,
            )
            continue
        is_anew = "fuzzy" in one.flags or everything
        forms = one.msgstr_plural or {0: one.msgstr}
        new_forms = other.msgstr_plural or {0: other.msgstr}
        assert other.flags == [flag for flag in one.flags if flag != "fuzzy"]
        assert other.previous_msgid == (None if "fuzzy" in one.flags else one.previous_msgid)
        is_format = bool({"c-format", "python-format"} & {*one.flags})
        for form, former in forms.items():
            source = one.msgid if not one.msgid_plural or (form == 1 < count) else one.msgid_plural
            expected = po_capitals(source, is_format) if is_anew or not former else former
            assert new_forms[form] == expected


@pytest.mark.parametrize(
    "flag",
    ["c", "objc", "python", "php", "perl", "lua", "java-printf", "gcc-internal", "awk", "tcl", "kde", "no-c"],
)
def test_a_per_cent_sign_is_doubled_where_it_begins_a_conversion(flag):
    text = f'#, {flag}-format\nmsgid "one"\nmsgstr ""\n'
    assert f'msgstr "{"50 %%" if flag not in {"kde", "no-c"} else "50 %"}"' in translate(
        text, lambda _: "50 %"
    )


@pytest.mark.parametrize(("flag", "has_numbers"), [
    ("c", True), ("objc", True), ("php", True), ("perl", True), ("java-printf", True),
    ("gcc-internal", True), ("awk", True),
    ("tcl", True), ("python", False), ("lua", False),
])  # fmt: skip
def test_conversions_in_another_order_have_numbers_where_the_format_has_them(flag, has_numbers):
    text = f'#, {flag}-format\nmsgid "a %s 5%% b %5.2lf c"\nmsgstr ""\n'
    assert 'msgstr "A %s 5%% B %5.2lf C"' in translate(text, upper)
    written = translate(text, lambda _: "<g2/> x <g1/>")
    assert ('msgstr "%2$5.2lf x %1$s"' if has_numbers else 'msgstr ""') in written
    for source in ("a %*d b %s", "a %1$s b %2$s", "a %s b"):
        other = text.replace("a %s 5%% b %5.2lf c", source)
        assert translate(other, lambda sentence: sentence.upper().replace("<G", "<g")).count("$") in {0, 4}


@pytest.mark.parametrize("conversion", ["%d", "%-5d", "%+.3f", "%#x", "%'d", "%hhd", "%hd", "%lld", "%lu",
    "%qd", "%jd", "%zu", "%td",
                                        "%Lf", "%*d", "%.*f", "%(a)s", "%3$s", "%@", "%%"])  # fmt: skip
def test_a_conversion_is_kept(conversion):
    written = translate(f'#, c-format\nmsgid "one {conversion} two"\nmsgstr ""\n', upper)
    assert f'msgstr "ONE {conversion} TWO"' in written


@pytest.mark.parametrize(("escaped", "text"), [("\\a\\b\\f\\v", "\a\b\f\v"), ("\\x1", "\x01"),
    ("\\x1F", "\x1f"), ("\\7", "\a"),
                                               ("\\033", "\x1b"), ("\\101", "A"), ("\\x41", "A"),
                                               ("\\?", "?")])  # fmt: skip
def test_escapes_are_those_of_c(escaped, text):
    entry = po.String(0, 0, escaped)
    assert entry.text == text
    assert po.String(0, 0, escape(text)).text == text
    assert all(len(octal) == 3 for octal in re.findall(r"\\([0-7]+)", escape(text + "z")))


@given(
    st.lists(
        st.sampled_from(["word", "longer", "x" * 30, "é" * 9, "日本語", "。", "\n", "e\u0301"]), max_size=30
    )
)
def test_lines_are_as_full_as_79_columns_allow(words):
    """A line has one more unit only if it has room for it. One line stands beside its key if it can."""
    text = " ".join(words)
    lines = wrap("msgstr", escape(text))
    if len(lines) == 1:
        assert sum(map(columns_of, lines[0])) <= 79
        return
    assert lines[0] == 'msgstr ""'
    rows = [line[1:-1] for line in lines[1:]]
    assert len(rows) > 1 or sum(map(columns_of, f'msgstr "{rows[0]}"')) > 79
    for row, following in itertools.pairwise(rows):
        first = re.match(r"(?:[^\\ \u1100-\uffef]|\\[^n])+|[\u1100-\uffef][。]*|\\n|.", following)[0]
        if not row.endswith("\\n"):
            space = 1 if following[len(first) :].startswith(" ") else 0
            assert sum(map(columns_of, f'"{row}{first}"')) + space > 79
        assert "\\n" not in row.removesuffix("\\n")
    assert all(sum(map(columns_of, f'"{row.rstrip()}"')) <= 79 for row in rows)


@pytest.mark.parametrize(
    "language", ["cy", "ar", "mt", "hy", "fa", "sr-Latn", "pt-PT", "vi", "zh-TW", "ii", "fil", "xx"]
)
def test_plural_forms_that_babel_has_in_another_way(language):
    """By the tables of gettext's manual and of Translate Toolkit."""

    def tens(n):
        return n % 100

    def slavic(n):
        if n % 10 == 1 and tens(n) != 11:
            return 0
        return 1 if 2 <= n % 10 <= 4 and not 10 <= tens(n) < 20 else 2

    rules = {
        "cy": lambda n: 0 if n == 1 else 1 if n == 2 else 3 if n in {8, 11} else 2,
        "ar": lambda n: n if n < 3 else 3 if 3 <= tens(n) <= 10 else 4 if tens(n) >= 11 else 5,
        "mt": lambda n: 0 if n == 1 else 1 if n == 0 or 1 < tens(n) < 11 else 2 if 10 < tens(n) < 20 else 3,
        "sr-Latn": slavic, "hy": lambda n: int(n > 1), "fa": lambda n: int(n > 1),
        "fil": lambda n: int(n > 1),
        "vi": lambda n: 0, "zh-TW": lambda n: 0, "ii": lambda n: 0,
    }  # fmt: skip
    declared = po.PLURALS.search(plural_forms(language))
    form = gettext.c2py(declared[2])
    rule = rules.get(language, lambda n: int(n != 1))
    assert [form(n) for n in range(220)] == [rule(n) for n in range(220)]
    assert int(declared[1]) == len({rule(n) for n in range(220)})


@pytest.mark.parametrize(
    ("header", "written"),
    [
        ("Language: \\n", "Language: de_AT\\n"), ("Language: fr\\n", "Language: fr\\n"),
        ("Plural-Forms: \\n", "Plural-Forms: nplurals=2; plural=(n != 1);\\n"),
        ("Plural-Forms: nplurals=1; plural=0;\\n", "Plural-Forms: nplurals=1; plural=0;\\n"),
        ("Content-Type: text/plain; charset=CHARSET\\n", "Content-Type: text/plain; charset=UTF-8\\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_plural", [True, False])
def test_only_empty_fields_of_the_header_are_filled(header, written, has_plural):
    plural = 'msgid "two"\nmsgid_plural "three"\nmsgstr[0] ""\n' * has_plural
    text = f'#, fuzzy\nmsgid ""\nmsgstr ""\n"X: \\n"\n"{header}"\n\nmsgid "one"\nmsgstr ""\n\n{plural}'
    result = translate(text, upper, Reading("a.po", "en", "de-AT")).partition("\n\n")[0]
    forms = '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"' if has_plural and "Plural" not in header else ""
    head = "#, fuzzy\n" if header == written and not forms else ""
    assert result == f'{head}msgid ""\nmsgstr ""\n"X: \\n"\n"{written}"' + f"\n{forms}" * bool(forms)
    assert "Language: \\n" in translate(
        'msgid ""\nmsgstr "Language: \\n"\n', upper, Reading("a.po", "en", "und")
    )


@pytest.mark.parametrize(
    ("name", "is_read"),
    [("UTF-8", True), ("utf8", True), ("US-ASCII", True), ("CHARSET", True), ("ISO-8859-1", False)],
)
def test_a_catalogue_in_another_encoding_is_refused(name, is_read):
    text = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={name}\\n"\n'
    if is_read:
        translate(text, upper)
    else:
        with pytest.raises(DragomanError, match="to-code=UTF-8"):
            translate(text, upper)


def test_a_mark_of_a_key_moves_before_its_word_alone():
    text = "".join(
        f'msgid "{source}"\nmsgstr ""\n\n'
        for source in ("E&xit", "Pa_ste", "Fo~o now", "&One E&xit", "aB&cd", "x&Y")
    )
    assert [entry.msgstr for entry in polib.pofile(translate(text, lambda sentence: sentence))] == [""] * 6
    written = polib.pofile(translate(text, lambda sentence: sentence + " X"))
    assert [entry.msgstr[:5] for entry in written] == ["&Exit", "_Past", "~Foo ", "&One ", "aB&cd", "x&Y X"]


@pytest.mark.parametrize(("count", "forms"), [("12", 9), ("0", 1), ("7", 7)])
def test_the_number_of_plural_forms_is_bounded(count, forms):
    header = f'msgid ""\nmsgstr "Plural-Forms: nplurals={count}; plural=n;\\n"\n\n'
    text = header + 'msgid "one"\nmsgid_plural "two"\nmsgstr[0] ""\n'
    assert translate(text, upper).count("msgstr[") == forms
    many = "".join(f'msgstr[{form}] "{form}"\n' for form in range(12))
    assert (
        translate(
            text.replace('msgstr[0] ""\n', many), upper, Reading("a", "en", "de", everything=True)
        ).count("msgstr[")
        >= 12
    )
