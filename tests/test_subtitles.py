"""Subtitles: SubRip, WebVTT and .ass files come back with other texts in the same cues."""

import re
from contextlib import suppress
from html import unescape
from itertools import combinations, pairwise, product

import pysubs2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.documents import ass, srt
from dragoman.documents.file import Reading
from dragoman.documents.subtitle_lines import cut, cut_where_aligned, wrap
from dragoman.documents.subtitles import NOTHING
from dragoman.system.errors import DragomanError
from dragoman.translation.tags import remove_tags, restore_tags
from tests.document_laws import takes_linear_time

READING = Reading("a.srt", "en", "de")
READERS = {"srt": srt.read_srt, "vtt": srt.read_vtt, "ass": ass.read}
FORMS = {"srt": srt.SRT, "vtt": srt.VTT, "ass": ass.ASS}
ASS_HEAD = (
    "[Script Info]\nTitle: one\n\n[V4+ Styles]\nFormat: Name, Fontname\nStyle: Default,Arial\n\n[Events]\n"
    "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)
WORDS = (
    "One",
    "two,",
    "three.",
    "Why?",
    "John",
    "[door opens]",
    "1984 of",
    "ÄÖ",
    "これは。",
    "ไทย",
    "a & b",
    "“x.”",
)


def srt_time(tenths, point=","):
    return f"{tenths // 36000:02}:{tenths // 600 % 60:02}:{tenths // 10 % 60:02}{point}{tenths % 10}00"


def write_file(form, texts, end="\n"):
    """A file of this form whose cues have these lists of lines, one second each."""
    output = {
        "srt": "",
        "vtt": "WEBVTT\nKind: captions\n\nNOTE a -- b\nText.\n\nSTYLE\nx {}\n\n",
        "ass": ASS_HEAD,
    }
    text = output[form]
    for number, lines in enumerate(texts, 1):
        first, last = number * 10, number * 10 + 9
        if form == "ass":
            begins, ends = (srt_time(tenths, ".")[1:-1] for tenths in (first, last))
            text += f"Dialogue: 0,{begins},{ends},Default,,0,0,0,," + "\\N".join(lines) + "\n"
            text += "Comment: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,A comment.\n" * (number % 2)
        else:
            point = "," if form == "srt" else "."
            settings_of_cue = " align:start" if form == "vtt" and number % 2 else ""
            times = f"{srt_time(first, point)} --> {srt_time(last, point)}{settings_of_cue}"
            text += f"{number}\n{times}\n" + "".join(f"{line}\n" for line in lines) + "\n"
    return text.replace("\n", end)


LINE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
TAGS = {"srt": ("i", "b", 'font color="#fff"'), "vtt": ("i", "c.x", "b"), "ass": ()}


@st.composite
def lines_of_cue(draw, form):
    lines = draw(st.lists(LINE, min_size=1, max_size=3))
    if draw(st.booleans()) and len(lines) > 1:
        lines = [f"- {line}" for line in lines]
    if TAGS[form] and draw(st.booleans()):
        tag = draw(st.sampled_from(TAGS[form]))
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = f"<{tag}>{lines[place]}</{tag.split('.')[0].split()[0]}>"
    elif form != "vtt" and draw(st.booleans()):
        lines[0] = "{\\an8}" + lines[0]
    return lines


@st.composite
def files(draw, form):
    cues = draw(st.lists(lines_of_cue(form), max_size=5))
    return write_file(form, cues, draw(st.sampled_from(["\n", "\r\n"])))


def times_and_texts(text, form):
    """What another program reads."""
    events = pysubs2.SSAFile.from_string(text, format_=form).events
    return [(event.start, event.end, event.is_comment) for event in events], [event.text for event in events]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("form", READERS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_same_sentences_give_the_same_file_and_others_the_same_cues(form, data):
    text = data.draw(files(form))
    document = READERS[form](text.encode(), READING)
    sentences = [segment.sentence for segment in document.segments]
    assert document.write(sentences) == text.encode()
    translations = [
        re.sub(
            r"[^\W\d]+(?![^<]*>)", data.draw(st.sampled_from(["x", "Wort", "語", "lange Wörter"])), sentence
        )
        for sentence in sentences
    ]
    written = document.write(translations).decode()
    if not text:
        return
    before, after = times_and_texts(text, form), times_and_texts(written, form)
    assert before[0] == after[0]
    for one, other in zip(before[1], after[1], strict=True):
        assert other.count("\\N") <= one.count("\\N")
    tags = re.compile(r"\{[^}]*\}|<[^>]*>")
    assert sorted(tags.findall("".join(before[1]))) == sorted(tags.findall("".join(after[1])))
    lines = re.compile(
        r"(?m)^(?:(?:\d+\r?\n)?.*-->.*|WEBVTT|NOTE.*|Text\.|Comment:.*|\[(?:Scr|V4|Ev).*|Format.*|Style.*)\r?\n"
    )
    assert lines.findall(text) == lines.findall(written)
    again = READERS[form](written.encode(), READING)
    words = " ".join(segment.sentence for segment in again.segments)
    assert re.findall(r"[^\W\d]+", re.sub("<.*?>", "", words)) == re.findall(
        r"[^\W\d]+", re.sub("<.*?>", "", " ".join(translations))
    )


@pytest.mark.parametrize("form", READERS)
@settings(max_examples=20, deadline=None)
@given(text=st.one_of(st.text(), st.text("<>&-/ai{}\\N\n\r \u2028:0123,.äש", max_size=30)))
@example(text=">>> a")
def test_any_text_can_be_written(form, text):
    source = write_file(form, [["One two three."], ["Four."]])
    document = READERS[form](source.encode(), READING)
    written = document.write([text, "Vier."]).decode("utf-8", "surrogateescape")
    assert times_and_texts(source, form)[0] == times_and_texts(written, form)[0]
    head, _, tail = source.partition("One two three.")
    assert written.startswith(head)
    assert written.endswith(tail.replace("Four.", "Vier."))
    new = written[len(head) : len(written) - len(tail)]
    assert not re.search("[\r\n]", new)
    expected = re.sub(rf"[\s{srt.CONTROL}]+", " ", text)
    if text.strip() and form == "vtt":
        expected = re.sub(r"\A(?:(?:[-‐–](?![-\d])|—(?=\s)|>>+)[ \t]*)+", "", expected.strip())
        assert unescape(new) == (expected.strip() or NOTHING)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("form", READERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damaged_files_end_in_a_sentence_or_a_document(form, data):
    content = data.draw(files(form)).encode()
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=4))
    for place in cuts:
        content = (
            content[:place]
            + data.draw(st.binary(max_size=3))
            + content[place + data.draw(st.integers(0, 9)) :]
        )
    with suppress(DragomanError):
        document = READERS[form](content, READING)
        assert document.write([segment.sentence for segment in document.segments]) == content
        document.write(["Wort"] * len(document.segments))


@pytest.mark.short_form(27)
@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize(
    "part", ["<", "<i>", "{\\b", "a", ". ", "-", " ", "\n", "\n-", "&", "a\\N", "...", "\t\\N"]
)
def test_the_time_is_linear(form, part):
    def work(length):
        text = write_file(form, [[part * (length // len(part))], ["One"]])
        document = READERS[form](text.encode(), READING)
        document.write([f"{segment.sentence} x" for segment in document.segments])

    takes_linear_time(work, 10_000)


def sentences_of(text, form="srt"):
    return [segment.sentence for segment in READERS[form](text.encode(), READING).segments]


def test_a_sentence_runs_over_cues_and_is_cut_again():
    text = write_file(
        "srt", [["<i>I told him that I", "would come,</i>"], ["<i>but he never came.", "Why?</i>"]]
    )
    document = srt.read_srt(text.encode(), READING)
    assert [s.sentence for s in document.segments] == [
        "I told him that I would come, <cue1/>but he never came.", "Why?",
    ]  # fmt: skip
    assert document.write(["Ich sagte ihm doch, dass ich komme, aber er kam nie.", "Wieso?"]).decode() == (
        text.replace("I told him that I\nwould come,", "Ich sagte ihm doch,\ndass ich komme,").replace(
            "but he never came.\nWhy?", "aber er kam\nnie. Wieso?"
        )
    )
    written = document.write(["Ja.", "Wieso?"]).decode()
    assert "<i>Ja.</i>" in written
    assert "<i>Wieso?</i>" in written
    text = write_file("srt", [["I know that"], ["he is ill."]])
    assert f"00,000\n{NOTHING}\n" in srt.read_srt(text.encode(), READING).write(["Ja."]).decode().replace(
        ",900", "00,000"
    )


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("He said that", "it is late.", 1),
        ("He said that.", "It is late.", 2),
        ("He said that", "- It is late.", 2),
        ("He said that", "[door] It is late.", 3),
        ("I met Dr.", "Smith there.", 1),
        ("I live in No.", "5 there.", 1),
        ("I met him.", "Smith was there.", 2),
        ("I met Dr.", "smith there.", 2),
        ("He said that...", "it is late.", 2),
        ("<i>He said that</i>", "it is late.", 2),
        ("He said {{that", "it}} is late.", 2),
    ],
)
def test_a_sentence_runs_on_where_nothing_says_that_it_ends(first, second, count):
    assert len(sentences_of(write_file("srt", [[first], [second]]))) == count


def test_a_sentence_ends_where_a_pause_or_another_voice_is():
    late = "1\n00:00:01,000 --> 00:00:02,000\nHe said that\n\n2\n00:00:{},000 --> 00:00:09,000\nit is late.\n"
    assert len(sentences_of(late.format("03"))) == 1
    assert len(sentences_of(late.format("05"))) == 2
    assert len(sentences_of(late.format("01"))) == 2
    voices = write_file("vtt", [["<v Ann>He said that"], ["<v {}>it is late."], ["<v Bob>No.\n<v Ann>Yes."]])
    assert len(sentences_of(voices.replace("{}", "Ann"), "vtt")) == 3
    assert len(sentences_of(voices.replace("{}", "Bob"), "vtt")) == 4
    lines = write_file("ass", [["He said that"], ["it is late."]])
    assert len(sentences_of(lines, "ass")) == 1
    assert len(sentences_of(lines.replace("Default,,0,0,0,,it", "Default,Ann,0,0,0,,it"), "ass")) == 2


@pytest.mark.parametrize("form", READERS)
@given(st.integers(0, 60_000), st.integers(-50, 400).filter(lambda pause: pause not in {-10, 200}))
def test_a_sentence_runs_on_over_a_pause_of_two_seconds_at_most(form, end, pause):
    """Times are in hundredths of a second; a cue may begin a tenth before the other ends."""

    def time(hundredths):
        minutes, rest = divmod(max(0, hundredths), 6000)
        point, digits = {"srt": (",", "0"), "vtt": (".", "0"), "ass": (".", "")}[form]
        return f"{minutes // 60}:{minutes % 60:02}:{rest // 100:02}{point}{rest % 100:02}{digits}"

    end += 100
    text = {"srt": "", "vtt": "WEBVTT\n\n", "ass": ASS_HEAD}[form]
    for first, last, words in ((0, end, "He said that"), (end + pause, end + 999, "it is late.")):
        if form == "ass":
            text += f"Dialogue: 0,{time(first)},{time(last)},Default,,0,0,0,,{words}\n"
        else:
            text += f"{time(first)} --> {time(last)}\n{words}\n\n"
    assert len(sentences_of(text, form)) == (1 if -10 < pause < 200 else 2)


@pytest.mark.parametrize("changed", [0, *range(3, 9)])
@pytest.mark.parametrize("is_last", [False, True])
def test_without_a_format_line_or_with_a_damaged_one_the_fields_are_the_usual_ones(changed, is_last):
    """And the section of events may be anywhere."""
    fields = [["0", f"0:00:0{number}.00", f"0:00:0{number + 1}.00", *"000000"] for number in range(2)]
    fields[1][changed] = "1"
    texts = "He said that", "it is, I hope, late."
    lines = "".join(f"Dialogue: {','.join([*row, text])}\n" for row, text in zip(fields, texts, strict=True))
    more, format_line = "[Fonts]\nfontname: a.ttf\n", "Format" + ASS_HEAD.rpartition("Format")[2]
    damaged = "Format: Layer, Start, Text\n", "Format: End, Text\n", "Format: Start, End, Text, Style\n"
    files = [f"[Events]\n{head}{lines}" for head in ("", format_line, *damaged)]
    files = [more + file if is_last else file + more for file in files]
    sentences = [sentences_of(file, "ass") for file in files]
    assert all(each == sentences[0] for each in sentences)
    assert len(sentences[0]) == (1 if changed in {5, 6, 7} else 2)


SPEAKING = {"Layer", "Style", "Name", "Actor", "Effect"}


@given(
    st.permutations(["Start", "End", "MarginL", "MarginR", "MarginV", "Effect"]),
    st.permutations([("Layer", "Marked"), ("Name", "Actor"), ("Style",)]).flatmap(
        lambda pairs: st.tuples(*map(st.sampled_from, pairs))
    ),
    st.data(),
)
def test_a_sentence_runs_on_until_a_field_says_that_another_one_speaks(others, fields, data):
    names = data.draw(st.permutations([*others, *fields]))
    changed = data.draw(st.sampled_from(sorted({*names} - {"Start", "End"})))
    case = data.draw(st.sampled_from([str, str.lower, str.upper]))
    text = f"[Events]\nFormat: {', '.join(map(case, [*names, 'Text']))}\n"
    for number, words in enumerate(["He said that", "it is late."]):
        times = {"Start": f"0:00:0{number}.00", "End": f"0:00:0{number + 1}.00", changed: str(number)}
        text += f"Dialogue: {','.join([times.get(name, '0') for name in names])},{words}\n"
    assert len(sentences_of(text, "ass")) == 1 + (changed in SPEAKING)


def test_captions_without_punctuation_are_cut_after_a_few_cues():
    assert len(sentences_of(write_file("srt", [["one two three four"]] * 60))) == 10


def test_what_is_no_text_is_kept():
    text = (
        "\ufeffWEBVTT - One\nKind: captions\nLanguage: en-GB\n\nNOTE Two\n\n"
        "REGION\nid:three\n\nfour\n00:01.000 --> 00:02.000\nSix"
    )
    document = srt.read_vtt(text.encode(), READING)
    assert [segment.sentence for segment in document.segments] == ["Six"]
    assert document.language == "en-GB"
    assert document.write(["x"]).decode() == text.replace("Six", "x")
    drawing = write_file("ass", [["{\\p1}m 0 0 l 10 10"], ["{\\k20}Six{\\k30} se\\hven"]])
    assert sentences_of(drawing, "ass") == ["Six<g1/> se\xa0ven"]


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("One dog", "two dogs", 1),
        ("[One dog]", "two dogs", 2),
        ("one dog", "<i>(two dogs)</i>", 2),
        ("ONE: One dog", "TWO: two dogs", 2),
        ("♪ One dog", "two dogs ♪", 1),
        ("♪ One dog ♪", "♪ two dogs ♪", 2),
        ("(one) dog", "two dogs", 1),
    ],
)
def test_a_sound_and_a_named_speaker_have_lines_of_their_own(first, second, count):
    text = write_file("srt", [[first, second]])
    assert len(sentences_of(text)) == count
    written = srt.read_srt(text.encode(), READING).write(["x"] * count).decode()
    assert written.count("\n") == text.count("\n") - (count == 1)


@pytest.mark.parametrize("form", READERS)
def test_a_file_without_subtitles_is_refused(form):
    with pytest.raises(DragomanError, match="has no"):
        READERS[form](b"amber birch\n", READING)


@given(
    st.lists(st.sampled_from(["a", "bbb", "cc,", "日本", "<i>x", "y</i>"]), min_size=1, max_size=12).map(
        " ".join
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 20),
)
def test_parts_and_lines_are_the_words_in_order(text, weights, count, limit):
    words = srt.Subtitles(None, (), srt.SRT).words(text)
    parts = cut(words, weights)
    lines = wrap(words, count, limit)
    assert "".join(parts).replace(" ", "") == "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert (len(parts), len(lines) <= count) == (len(weights), True)
    assert len(words) < len(weights) or all(parts)
    widths = [len(re.sub("<.*?>", "", line)) for line in lines]
    assert max(widths) <= limit or len(lines) > 1 or min(count, len(words)) == 1


TARGETS = st.lists(st.sampled_from(["x", "Wort,", "Wörter", "lang" * 4, "y."]), min_size=1, max_size=12)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from(["one", "two,", "<i>three</i>", "sixteen"]), min_size=1, max_size=5),
             min_size=2, max_size=4),
    TARGETS,
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 11)), max_size=15),
)  # fmt: skip
def test_an_aligned_translation_is_cut_into_its_words_in_order(cues, target, links):
    text = write_file("srt", [[" ".join(cue)] for cue in cues])
    document = srt.read_srt(text.encode(), READING)
    sentences = [remove_tags(segment.sentence) for segment in document.segments]
    cue_ends = sum(tag.is_cue for _, tags in sentences for tag in tags)
    assert cue_ends == len(cues) - len(sentences)
    translations = []
    for plain, tags in sentences:
        size = len(plain.split())
        alignment = [(source, place) for source, place in links if source < size and place < len(target)]
        translations.append(restore_tags(tags, " ".join(target), alignment))
    expected_times, _ = times_and_texts(text, "srt")
    for written in (translations, [" ".join(target)] * len(sentences)):  # with marks, and without
        times, texts = times_and_texts(document.write(written).decode(), "srt")
        assert times == expected_times
        words = [re.sub(r"\{.*?\}|<.*?>", "", text.replace("\\N", " ")).split() for text in texts]
        assert [word for cue in words for word in cue if word != NOTHING] == target * len(sentences)
        assert len(target) < len(cues) or not {(), (NOTHING,)} & set(map(tuple, words))


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(["ab,", "cd"]), min_size=1, max_size=4), min_size=2, max_size=6))
def test_a_translation_word_by_word_is_cut_where_its_source_is(cues):
    text = write_file("srt", [[" ".join(cue)] for cue in cues])
    document = srt.read_srt(text.encode(), READING)
    (segment,) = document.segments
    plain, tags = remove_tags(segment.sentence)
    alignment = [(place, place) for place in range(len(plain.split()))]
    written = document.write([restore_tags(tags, plain.upper(), alignment)])
    assert written.decode() == write_file("srt", [[" ".join(cue).upper()] for cue in cues])


@given(TARGETS, st.integers(0, 12), st.integers(1, 40), st.integers(1, 40))
def test_a_cut_moves_only_as_far_as_a_part_is_too_wide(target, place, first, second):
    words = plain_words(target)
    place = min(place, len(words))

    def cost(edge):
        widths = (len(" ".join(part)) for part in (target[:edge], target[edge:]))
        too_wide = sum(max(0, width - limit) for width, limit in zip(widths, (first, second), strict=True))
        return too_wide, abs(edge - place)

    parts = cut_where_aligned(words, [place], [first, second])
    nearest = max(1, min(place, len(words) - 1))
    edges = [edge for edge in range(1, len(words)) if abs(edge - nearest) <= 3] or [1]
    assert cost(len(parts[0].split())) == min(map(cost, edges))
    assert " ".join(filter(None, parts)) == " ".join(target)


# ---- words in cues and lines


def plain_words(texts):
    return srt.Subtitles(None, (), srt.SRT).words(" ".join(texts))


@given(st.lists(st.sampled_from(["a", "bb", "cccc", "d" * 7, "日", "<i>x", "y</i>"]), min_size=1, max_size=7),
       st.integers(1, 4), st.integers(1, 20))  # fmt: skip
def test_lines_are_as_few_as_fit_and_the_longest_is_as_short_as_it_can_be(texts, count, limit):
    words = plain_words(texts)
    lines = wrap(words, count, limit)
    width = lambda line: len(re.sub("<[^>]*>", "", line))  # noqa: E731

    def best(number):
        """The shortest longest line of all ways to make as many lines at most."""
        edges = (sorted(cuts) for size in range(number) for cuts in combinations(range(1, len(words)), size))
        return min(
            max(
                sum(w.width + len(w.space) * (place > 0) for place, w in enumerate(words[start:end]))
                for start, end in pairwise([0, *cuts, len(words)])
            )
            for cuts in edges
        )

    fewest = next((number for number in range(1, len(words) + 1) if best(number) <= limit), len(words))
    expected = min(count, fewest)
    assert len(lines) <= expected
    assert max(map(width, lines)) == best(expected)


@given(st.lists(st.sampled_from(["a", "b,", "c.", "d;", "e:", "f!", "g?", "h…", "i—", "日、", "k,”", "<i>l",
    "m</i>", "n"]), min_size=2, max_size=14),
       st.integers(1, 9), st.integers(1, 9))  # fmt: skip
def test_a_text_is_cut_in_proportion_near_a_mark_and_outside_of_tags(texts, first, second):
    """A cut is three words at most from its place; a mark counts as 1.5 words, a pair of tags as six."""
    words = plain_words(texts)
    if len(words) < 2:
        return
    ideal = len(words) * first / (first + second)

    def cost(place):
        text = re.sub("</?i>", "", words[place - 1].text)
        is_mark = re.search(r"[,;:.!?…—、][”]*$", text) is not None and not words[place - 1].text.endswith(
            ">"
        )
        return abs(place - ideal) + 6 * (words[place].depth > 0) - 1.5 * is_mark

    places = [place for place in range(1, len(words)) if abs(place - round(ideal)) <= 3]
    place = min(places, key=cost)
    text = " ".join(texts)
    parts = cut(words, [first, second])
    assert cost(len(plain_words([parts[0]]))) == cost(place), (text, parts)


@pytest.mark.parametrize("count", range(1, 6))
def test_each_part_has_a_word_as_long_as_there_are_words(count):
    for number in range(1, 8):
        parts = cut(plain_words(["a"] * number), [1, 9, 1, 1, 1][:count])
        assert [bool(part) for part in parts] == [place < number for place in range(count)]


# ---- what stands in a cue


def cue_texts(text, form="srt"):
    return sentences_of(write_file(form, [[text]] if isinstance(text, str) else text), form)


@pytest.mark.parametrize(
    "end",
    ["It is.", "It is!", "It is?", "It is…", "それ。", "それ！", "それ？", "هل؟", "यह।", "It is ♪", "It is ♫",
        "It (is)", "It [is]", "It is--",
            "It is—", "It is.”"]
)  # fmt: skip
def test_a_mark_that_ends_a_text_ends_a_sentence(end):
    assert len(cue_texts([[end], ["and more"]])) == 2
    assert len(cue_texts([[end.rstrip(".!?…。！？؟।♪♫)]-—”")], ["and more"]])) == 1


@pytest.mark.parametrize("start", ["(he) it", "♪ it", "♫ it", "# it", "… it", ".. it", "...it"])
def test_a_mark_that_begins_a_text_begins_a_sentence(start):
    assert len(cue_texts([["He said that"], [start]])) == 2


@pytest.mark.parametrize("name", ["<a", "b>", "{c", "d}"])
@pytest.mark.parametrize("place", [0, 1])
def test_no_sentence_runs_over_brackets(name, place):
    texts = ["He said that", "it is late"]
    texts[place] += f" {name}"
    assert len(cue_texts([[text] for text in texts])) == 2


@pytest.mark.parametrize("dash", ["-", "- ", "‐ ", "– ", "— ", ">> ", ">>> "])
def test_a_dash_begins_the_line_of_another_speaker(dash):
    lines = [f"{dash}One dog", f"{dash}two dogs"]
    text = write_file("srt", [lines])
    assert sentences_of(text) == ["One dog", "two dogs"]
    assert srt.read_srt(text.encode(), READING).write(["x y", f"{dash}z"]).decode() == text.replace(
        "One dog", "x y"
    ).replace("two dogs", "z")
    assert cue_texts([["One dog", f"two{dash}dogs"]]) == [f"One dog two{dash}dogs".strip()]
    assert sentences_of(write_file("vtt", [["&gt;&gt; One dog", "&gt;&gt;&gt; two dogs"]]), "vtt") == [
        "One dog",
        "two dogs",
    ]


@pytest.mark.parametrize("start", ["-1 degree", "--and so", "—and so", "> and so"])
def test_what_is_no_dash_of_a_speaker_goes_on(start):
    assert len(cue_texts([["One dog", start]])) == 1


@pytest.mark.parametrize(("line", "is_apart"), [("[a b]", True), ("(a b)", True), ("♪", True),
    ("# la la #", True), ("♫ la ♫", True), ("JOHN: a b", True),
                                                ("ÄÖ 2-A: a b", True), ("MR. O'NEIL: a b", True),
                                                ("John: a b", False),
                                                ("A:b", False)])  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_a_line_apart_is_a_text_of_its_own(line, is_apart, is_first):
    has_letters = any(map(str.isalpha, line))
    lines = [line, "two dogs"] if is_first else ["two dogs", line]
    if ":" in line and is_first:
        is_apart = False  # only a name in the second line begins another text
    assert len(cue_texts([lines])) == (1 + has_letters if is_apart else 1)


SOUND = st.sampled_from(["[DOG BARKS]", "(SIGHS)", "[door\nopens]", "[]"])


@st.composite
def lines_with_sounds(draw, form):
    """Lines of a cue in which the brackets of sounds stand around all, or at the start or end of a line."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        sound, rest = draw(SOUND), draw(st.sampled_from(["", "", " Come (to) here.", " no"]))
        before = draw(st.sampled_from(["", "", "I (do) know. ", "No! "])) * ("\n" not in sound)
        line = before + sound + rest * (not before)
        dash, tag = draw(st.sampled_from(["", "- "])), draw(st.sampled_from(TAGS[form] or ("",)))
        is_tagged = tag and draw(st.booleans())
        line = f"<{tag}>{line}</{tag.split('.')[0].split()[0]}>" if is_tagged else line
        lines += (dash + line).split("\n")
    return lines


@pytest.mark.parametrize("form", READERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_brackets_of_a_sound_stay_around_it_and_are_not_translated(form, data):
    text = write_file(form, [data.draw(lines_with_sounds(form))])
    document = READERS[form](text.encode(), READING)
    sentences = [segment.sentence for segment in document.segments]
    assert document.write(sentences) == text.encode()
    assert not re.search(r"[\[\]]|^\(|\)$", " ".join(sentences))
    words = re.compile(r"[^\W\d]+(?![^<]*>)")
    written = document.write([words.sub(lambda word: word[0].upper(), one) for one in sentences]).decode()
    before, after = (times_and_texts(one, form)[1][0].replace("\\N", " ") for one in (text, written))
    brackets = re.compile(r"[\[\]()]|[^\W\d_]+(?![^<]*>)")
    assert [one.upper() for one in brackets.findall(before)] == [
        one.upper() for one in brackets.findall(after)
    ]


def test_a_text_ends_after_six_cues_in_which_no_sentence_ends():
    words = ["one two"] * 20
    assert len(cue_texts([[text] for text in words])) == 4
    words[3] = "One. Two"  # counts anew
    assert [len(sentence.split()) for sentence in cue_texts([[text] for text in words])][:3] == [7, 11, 12]
    words[3] = "日。two"
    assert len(cue_texts([[text] for text in words])[0].split()) == 17


TOKENS = {
    "srt": ["<b>", "<i >", "</u>", '<font color="#fff">', "{\\an8}", "{\\i1}", "< 1", "{a}", "&amp;"],
    "vtt": ["<b>", "<c.x y>", "</v>", "<00:01.000>", "</>", "<lang en>", "&amp;", "&lt;", "&gt;", "&nbsp;",
        "&lrm;", "&rlm;", "&#65;", "&#x4f;", "&#X4F;", "{a}"],
    "ass": ["{\\b1}", "{a}", "\\h", "<b>", "&amp;", "\\n", "\\N"],
}  # fmt: skip
AS_READ = {
    "&amp;": "&",
    "&lt;": "<",
    "&gt;": ">",
    "&nbsp;": "\xa0",
    "&lrm;": "\u200e",
    "&rlm;": "\u200f",
    "&#65;": "A",
    "&#x4f;": "O",
    "&#X4F;": "O",
}


@pytest.mark.parametrize(
    ("form", "token"), [(form, token) for form, tokens in TOKENS.items() for token in tokens]
)
def test_what_is_written_in_a_text_is_a_mark_or_a_character(form, token):
    is_mark = {
        "srt": (token[0] == "<" and token[1] != " ") or token[:2] == "{\\" or token == "{a}",
        "vtt": token[0] == "<" or token == "{a}",
        "ass": token[0] == "{",
    }[form]
    text = write_file(form, [[f"One {token} two"]])
    (sentence,) = sentences_of(text, form)
    shown = (
        AS_READ.get(token, token)
        if form == "vtt"
        else {"\\h": "\xa0", "\\n": " ", "\\N": " "}.get(token, token)
    )
    if is_mark:
        assert re.fullmatch(r"One </?g1/?> two", sentence)
    else:
        assert re.sub(" +", " ", sentence) == re.sub(" +", " ", f"One {shown} two")
    written = READERS[form](text.encode(), READING).write([sentence.replace("One", "x")]).decode()
    assert not is_mark or f"x {token} two" in written


@pytest.mark.parametrize(("form", "new", "written"), [
    ("srt", "a --> b <c </d < e {\\f {g}", "a → b ‹c ‹/d < e (\\f {g}"),
    ("vtt", "a --> b <c> & d", "a --&gt; b &lt;c&gt; &amp; d"),
    ("ass", "a {b} \\N \\h \\n c\\\\ \\x", "a (b) \\\u2060N \\\u2060h \\\u2060n c\\\u2060\\ \\x"),
])  # fmt: skip
def test_a_translation_begins_no_tag(form, new, written):
    text = write_file(form, [["One two three four five six seven eight nine"]])
    assert f"{written}\n" in READERS[form](text.encode(), READING).write([new]).decode()


TIMES = [
    "00:00:01{}000 --> 00:00:02{}000",
    "0:00:01{}0 --> 0:00:02{}5",
    "00:01{}000 --> 00:02{}000 align:start",
    "  0100:00:01{}000-->0100:00:02{}000",
    "00:00:01{}000\t-->  00:00:02{}000 X1:1",
]


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_times_and_numbers_are_no_text(form):
    for time, point, number in product(TIMES, ",.", ["1", "1234", " 12 ", "id x", ""]):
        cue = (number + "\n" if number and not (form == "srt" and number == "id x") else "") + time.replace(
            "{}", point
        )
        head = "WEBVTT\n\n" if form == "vtt" else ""
        text = f"{head}{cue}\nOne dog.\n\n{cue}\nTwo dogs.\n\n"
        assert sentences_of(text, form) == ["One dog.", "Two dogs."]
        assert (
            sentences_of(text.replace("\n", "\r\n"), form)
            == sentences_of(text.replace("\n", "\r"), form)
            == ["One dog.", "Two dogs."]
        )


def test_only_the_lines_before_a_blank_one_are_a_cue_of_webvtt():
    text = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\nTwo.\n"
    assert sentences_of(text) == ["One.", "Two."]
    assert sentences_of("WEBVTT\n\n" + text, "vtt") == ["One."]


@pytest.mark.parametrize(
    "header",
    [
        "WEBVTT\nLanguage: de\n\n",
        "WEBVTT - x\nKind: a\nLanguage:pt-BR\n\n",
        "\ufeffWEBVTT\r\nLanguage:\tfr\r\n\r\n",
    ],
)
def test_a_header_names_the_language(header):
    document = srt.read_vtt((header + "00:01.000 --> 00:02.000\nOne\n").encode(), READING)
    assert document.language == re.search(r"Language:\s*([\w-]+)", header)[1]


def test_the_lines_of_a_translation_have_the_longest_of_the_cue_as_their_limit_and_its_breaks():
    text = write_file("ass", [["One\\Ntwo three four\\nfive"]])
    written = ass.read(text.encode(), READING).write(["aaa bbbbb cccc ddddd"]).decode()
    assert ",,aaa bbbbb\\Ncccc ddddd\n" in written
    text = write_file("srt", [["One two three", "four"]])
    for new, lines in (("a b c d e f g", 1), ("a b c d e f g hhh", 2)):
        assert (
            srt.read_srt(text.encode(), READING).write([new]).decode().count("\n")
            == text.count("\n") - 2 + lines
        )


@pytest.mark.parametrize("line", ["Dialogue: 0,0:00:01.00,0:00:02.00,Default",
    "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\p1}m 0 0",
     "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\an5\\p4}m 0 0",
     "Comment: 0,0:00:01.00,0:00:02.00,,,0,0,0,,no",
     "[Fonts]\nDialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,no",
                                  "; Dialogue: x"])  # fmt: skip
def test_other_lines_of_events_are_no_text(line):
    assert sentences_of(ASS_HEAD + line, "ass") == []


@pytest.mark.parametrize("line", ["DIALOGUE: 0,0:00:01,0:00:02.5,Default,,0,0,0,,One, two",
    " \tDialogue : 0, 0:00:01.000 ,0:00:02.00,,,0,0,0,,One, two",
     "Dialogue: 0,x,y,,,0,0,0,,One, two",
     "Dialogue: 0,0:00:01.00,0:00:02.00,,,0,0,0,,{\\pos(1,2)}One, two"])  # fmt: skip
def test_a_line_of_dialogue_has_its_text_last(line):
    assert sentences_of("\ufeff" + ASS_HEAD.replace("[Events]", "[EVENTS] ") + line, "ass") == ["One, two"]
    assert (
        sentences_of(f"\ufeff[Events]\n{line}", "ass")
        == sentences_of(f" [Events]\n{line}", "ass")
        == ["One, two"]
    )
    damaged = ASS_HEAD.replace("Effect, Text", "Text, Effect")
    assert sentences_of(damaged + line, "ass") == ["One, two"]
    assert len(sentences_of(ASS_HEAD + (line + "\n") * 2, "ass")) == 2
