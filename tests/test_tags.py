"""Tags are removed from a sentence and restored beside the words that they belong to."""

import re
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.translation.tags import CUE, TAG, remove_tags, restore_tags

TEXT = st.lists(
    st.sampled_from(
        ["<b>", "</b>", "<i>", "</i>", "{name}", "<br/>", "amber", "birch.", "cedar...", " ", "  "]
    ),
    max_size=12,
).map("".join)


def without(tags, written, sign=""):
    """A translation without the texts of its tags, or with a sign in their place."""
    for tag in sorted(tags, key=lambda tag: -len(tag.text)):
        assert tag.text in written
        written = written.replace(tag.text, sign, 1)
    return written


def straight(text):
    """The alignment of every word with itself."""
    return [(number, number) for number in range(len(text.split()))]


@pytest.mark.parametrize(
    ("sentence", "plain"),
    [
        ("click <b>here</b> now", "click here now"),
        ("click <b>here</b>.", "click here."),
        ("<p>all of it</p>", "all of it"),
        ("dear {name}, hello", "dear hello"),
        ("Hello, {name}!", "Hello, !"),
        ("{name}, hello", "hello"),
        ("I am {first} {last}...", "I am..."),
        ('he said "I am {first}{last}."', 'he said "I am."'),
        ("see part{number}: all", "see part all"),
        ("{count}% of {all} it", "of it"),
        ("%(user)s's file (%d lines)", "file lines)"),
        ("[X1X]: “{{ name }}”, is (“{n}”)?", "is?"),
        ("amber (see {n}) and birch,{n}", "amber (see) and birch"),
        ("<i>{a}, {b}</i>: amber", ": amber"),
        ("no tags: 3 < 4 > 2", "no tags: 3 < 4 > 2"),
        ("one<br/>two", "one two"),
        ("<a href='x y'>a</a> <i>b</i>", "a b"),
        ("<a href=\"x>y\">a</a> <i title='>'>b</i>", "a b"),
        ("<i title=don't>a</i> it's <b>b</b>", "a it's b"),
        ('A man (<a href="x">on a bike</a>) sits.', "A man (on a bike) sits."),
        ("“<em>Hello</em>”, «<b>you <i>too</i></b>»", "“Hello”, «you too»"),
        ("H<sub>2</sub>SO<sub>4</sub>, (10<sup>th</sup>)", "H2SO4, (10th)"),
        ("<b>T</b>he <p>H<b>2<i>O</i></b></p>", "The H2O"),
        ("<b>a</b>b<i>c</i>d<u>e</u>", "abcde"),
    ],
)
def test_a_sentence_that_is_its_own_translation_keeps_its_tags(sentence, plain):
    text, tags = remove_tags(sentence)
    assert text == plain
    assert restore_tags(tags, text, straight(text)).replace(" ", "") == sentence.replace(" ", "")
    if "<br/>" not in sentence:
        assert restore_tags(tags, text, straight(text)) == sentence


def test_a_pair_encloses_the_words_aligned_with_its_own():
    _, tags = remove_tags("the <b>red</b> house")
    assert restore_tags(tags, "la maison rouge", [(0, 0), (1, 2), (2, 1)]) == "la maison <b>rouge</b>"
    assert (
        restore_tags(tags, "la maison toute rouge.", [(0, 0), (1, 2), (1, 3), (2, 1)])
        == "la maison <b>toute rouge.</b>"
    )
    assert restore_tags(tags, "", []) == "<b></b>"
    assert restore_tags(tags, "rouge", [(0, 0), (1, 7)]) == "<b>rouge</b>"  # the alignment counts otherwise


def test_a_pair_around_a_part_of_a_word_encloses_the_word_if_its_translation_is_another():
    for sentence, translation, expected in (
        ("(H<sub>2</sub>O) is", "[H2O]! ist", "[H<sub>2</sub>O]! ist"),
        ("(H<sub>2</sub>O) is", "(Wasser) ist", "<sub>(Wasser)</sub> ist"),
        ("the 10<sup>th</sup>.", "am 10.", "am <sup>10</sup>."),
        ("($<b>5</b>) now", "5 $ jetzt", "<b>5</b> $ jetzt"),
        ("(<b>one</b>) now", "„((ein)) jetzt", "„<b>((ein)</b>) jetzt"),
    ):
        _, tags = remove_tags(sentence)
        assert restore_tags(tags, translation, [(0, 0), (1, 1)]) == expected


@pytest.mark.parametrize(
    "text", ["<b>§</b>5<sup>a</sup> BGB", "<b>(</b>x<sup>2</sup>)", "*<b></b>H<sub>2</sub>O"]
)
def test_a_pair_around_a_mark_and_a_pair_in_its_word_stay_nested(text):
    plain, tags = remove_tags(text)
    for alignment in (straight(plain), [(0, 1), (1, 0)], []):
        assert_nested(restore_tags(tags, plain, alignment))


def test_a_long_word_with_many_tags_takes_little_time():
    """Time that grows with the product of marks, letters and tags would be minutes."""
    plain, tags = remove_tags("a" + "-" * 3_000 + "b<i>c</i>d" * 250)
    assert len(tags) == 500
    assert TAG.sub("", restore_tags(tags, plain, straight(plain))) == plain


def test_a_tag_between_letters_separates_words_of_scripts_without_spaces():
    assert remove_tags("one<br/></b>two")[0] == "one two"  # as a placeholder does in all scripts
    text, tags = remove_tags("漢字<b>太字</b>です")
    assert text == "漢字 太字 です"
    assert restore_tags(tags, "is bold", [(1, 1), (2, 0)]) == "is <b>bold</b>"


def test_a_no_break_space_is_inside_a_word():
    _, tags = remove_tags("Hello! My <b>friend</b>")
    assert restore_tags(tags, "Bonjour\u00a0! Mon ami", [(0, 0), (1, 1), (2, 2)]) == (
        "Bonjour\u00a0! Mon <b>ami</b>"
    )


def test_a_placeholder_before_punctuation_stays_before_it():
    for sentence, translation, alignment, expected in (
        (
            "My name is {name}.",
            "Mein Name ist gut.",
            [(0, 0), (1, 1), (2, 2), (2, 3)],
            "Mein Name ist gut {name}.",
        ),
        ("My name is {name}.", "Mein Name ist.", [(0, 0), (1, 1), (2, 2)], "Mein Name ist {name}."),
        ("Hello, {name}!", "Hallo!", [(0, 0), (1, 0)], "Hallo {name}!"),
        ("Hello, {name}!", "Hallo, !", [(0, 0), (1, 1)], "Hallo, {name}!"),
        (
            "I live in {city}, near you.",
            "Ich wohne in deiner Nähe.",
            [(0, 0), (1, 1), (2, 2), (3, 4), (4, 3)],
            "Ich wohne in {city}, deiner Nähe.",
        ),
        ("{name}, come", "Komm", [(0, 0)], "{name}, Komm"),
        ("Just {count}. Or {max}...", "Nur...", [(0, 0), (1, 0)], "Nur.. {count} {max}."),
        ("Hi <b>{name}.</b> Go", "Hi . Go", [(0, 0), (1, 1), (2, 2)], "Hi <b>{name}.</b> Go"),
        ("{name} is here", "Hier ist", [(0, 1), (1, 0)], "Hier {name} ist"),
    ):
        _, tags = remove_tags(sentence)
        assert restore_tags(tags, translation, alignment) == expected


@settings(max_examples=80)
@example("<i>amber <b>birch.</i> cedar...</b>", ["rot"], [])  # tags that cross
@given(
    TEXT,
    st.lists(st.sampled_from(["rot", "Haus.", "ein..."]), max_size=5),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4))),
)
def test_every_tag_is_restored_once_and_every_word_is_kept(sentence, translation, pairs):
    text, tags = remove_tags(sentence)
    assert not TAG.search(text)
    written = restore_tags(
        tags,
        " ".join(translation),
        [(source, target) for source, target in pairs if target < len(translation)],
    )
    assert sorted(TAG.findall(written)) == sorted(TAG.findall(sentence))
    assert without(tags, written).replace(" ", "") == "".join(translation)


def test_a_closing_tag_stays_before_the_full_stop():
    plain, tags = remove_tags("man <b>dog</b> .")
    assert plain == "man dog ."
    links = [(0, 0), (1, 1), (1, 2)]  # the full stop is aligned with the wrong word
    assert restore_tags(tags, "mann hund .", links) == "mann <b>hund</b> ."
    assert restore_tags(tags, "mann .", [(0, 0), (1, 1)]) == "<b>mann</b> ."
    _, tags = remove_tags("man <b>dog .</b>")
    assert restore_tags(tags, "mann hund .", straight("mann hund .")) == "mann <b>hund .</b>"


@pytest.mark.parametrize(
    "sentence",
    [
        "A <b>man {name}</b> rides a bike .",
        "A <a>man at <x/></a> rides",
        "<b>naïve <br/></b>",
        "<b>{name}</b> A",
        "go <i>{a} {b}</i> end",
        "<b></b> {x} end",
        "a {x}<b>{y} b</b>",
        "a <b>b <i>{x}</i></b> c",
        "The <b>man</b>,\u00a0a child",
        "<b>10%</b>\u00a0{n}",
        "it costs ${price} now",
        "<x a='>'/> foo <x>bar</x>",
        "version v{version} released",
        "the price is €{price} now",
        "see <code/>/<code/> files",
        "--input=<file> and (<code>--inspect</code> flag)",
        "{day}.{month}.{year} is",
        "on {d}.{m}.{y} at {h}:{mi} ok",
        "See <i>part {n}</i>.",
        "Hello <b>dear {name}</b>, welcome",
    ],
)
def test_a_translation_with_the_same_words_has_the_tags_and_spaces_of_the_source(sentence):
    plain, tags = remove_tags(sentence)
    restored = restore_tags(tags, plain, straight(plain))
    assert restored.split() == sentence.split()


def test_a_placeholder_before_a_tag_without_a_partner_keeps_its_spaces():
    _, tags = remove_tags("Your name is {name}</b>")
    assert restore_tags(tags, "name ist dein", [(0, 2), (1, 0), (2, 1)]).endswith("{name}</b>")


@pytest.mark.parametrize(
    ("sentence", "translation", "links", "wanted"),
    [
        (
            "Hello <b>{name}</b>, welcome",
            "Hallo willkommen",
            [(0, 0), (2, 1)],
            "Hallo <b>{name}</b>, willkommen",
        ),
        ("{count}-day trip", "Ausflug", [(1, 0)], "{count}- Ausflug"),
    ],
)
def test_a_tag_does_not_touch_a_word_that_is_not_its_own(sentence, translation, links, wanted):
    _, tags = remove_tags(sentence)
    assert restore_tags(tags, translation, links) == wanted


def test_a_placeholder_before_punctuation_stays_inside_its_pair():
    plain, tags = remove_tags("The <b>cat {x}, dog</b> runs")
    links = [link for link in straight(plain) if link[0] != 1]
    assert restore_tags(tags, plain, links) == "The cat <b>{x}, dog</b> runs"


@settings(max_examples=80)
@example(["<b>amber</b>"] * 2, ["rot"] * 8, [(0, 0), (0, 7)])  # the first pair takes all words
@given(
    st.lists(st.sampled_from(["<b>amber</b>", "<i>birch <b>cedar</b></i>", "elm"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["rot", "haus"]), min_size=8, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4),
)
def test_a_pair_with_words_is_empty_only_if_other_pairs_have_all_words(parts, translation, links):
    _, tags = remove_tags(" ".join(parts))
    written = restore_tags(tags, " ".join(translation), links)
    depth, outside = 0, ""
    for part in re.split(r"(</?[bi]>)", written):
        depth += {"</": -1, "<b": 1, "<i": 1}.get(part[:2], 0)
        outside += part if not depth and part[:1] != "<" else ""
    assert not re.search(r"<(\w)>\s*</\1>", written) or not outside.strip()


KEPT = (
    st.tuples(
        st.sampled_from(["", "(", "[", "„", '"', "-", "#", "¿"]),
        st.sampled_from(["{name}", "%s", "<x/>", "<b>{name}</b>", "%1$s", "[X6X]", "%name%", "%A_B%"]),
        st.sampled_from(["", ")", "]", "“", '"', ":", ",", ";", "%", "),"]),
    )
    .map("".join)
    .filter(lambda kept: "%%" not in kept)
)
KEPT_PARTS = st.lists(st.one_of(KEPT, st.sampled_from(["amber", "birch"])), min_size=1, max_size=5)


@settings(max_examples=100)
@given(KEPT_PARTS, st.lists(st.sampled_from(["rot", "haus"]), max_size=5), st.data())
def test_what_is_kept_touches_no_word_and_keeps_the_marks_beside_it(parts, translation, data):
    """Brackets and quotation marks that have no partner on the other side are the words' affair."""
    text, tags = remove_tags(" ".join(parts))
    pairs = st.tuples(st.integers(0, len(text.split())), st.integers(0, len(translation)))
    written = restore_tags(tags, " ".join(translation), data.draw(st.lists(pairs)))
    assert not re.search(r"\w\0|\0\w", without(tags, written, "\0"))
    lone = re.compile(
        r"[)\]“\"].*"
    )  # a closing bracket without a partner is the words' affair, and what follows
    marks = re.compile(r"[:,;%#¿-]")
    sides = " ".join(part for part in parts if part not in ("amber", "birch"))
    if not lone.search(sides):
        assert sorted(marks.findall(written)) == sorted(marks.findall(sides))


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{1,8}", fullmatch=True), st.sampled_from(["", "%", "!", " %"]))
def test_a_name_between_per_cent_signs_is_kept_as_a_whole(name, behind):
    """Conversions of printf stay what they are: %d%% is one, before a per cent sign."""
    for text in (f"is %{name}%", f"is %d%{behind}", f"is %ld%%{behind}", f"%s-%s {behind}"):
        is_name = text.endswith(f"{name}%")
        expected = [f"%{name}%"] if is_name else re.findall("%l?[ds]", text)
        assert [match[0] for match in TAG.finditer(text)][: len(expected)] == expected


def test_a_placeholder_stays_inside_its_pair():
    _, tags = remove_tags("A <b>man {name}</b> rides")
    assert restore_tags(tags, "fährt ein mann", [(0, 1), (1, 2), (2, 0)]) == "fährt ein <b>mann {name}</b>"
    _, tags = remove_tags("A <b>{name} man</b> rides")
    assert restore_tags(tags, "ein mann fährt", [(0, 0), (1, 1), (2, 2)]) == "ein <b>{name} mann</b> fährt"


def test_punctuation_at_the_edge_of_a_pair_does_not_extend_it_at_the_other_edge():
    _, tags = remove_tags("<b>. dog</b> .")
    assert restore_tags(tags, ". hund .", straight(". hund .")) == "<b>. hund</b> ."
    assert restore_tags(tags, "hund .", [(0, 1), (1, 0)]) == "<b>hund</b> ."
    _, tags = remove_tags(". <b>dog .</b>")
    assert restore_tags(tags, ". hund", [(1, 1), (2, 0)]) == ". <b>hund</b>"
    _, tags = remove_tags("dog <b>.</b>")
    assert restore_tags(tags, "hund .", straight("hund .")) == "hund <b>.</b>"


def tagged(children):
    names = st.sampled_from("bi")
    return st.tuples(names, st.lists(children, max_size=3), SEPARATOR).map(
        lambda x: f"<{x[0]}>{x[2].join(x[1])}</{x[0]}>"
    )


SEPARATOR = st.sampled_from([" ", "", "("])
WELL_FORMED = st.tuples(
    st.lists(
        st.recursive(
            st.sampled_from(["amber", "birch.", "(x", "5", "a", "§", ".", "{name}"]), tagged, max_leaves=8
        ),
        max_size=5,
    ),
    SEPARATOR,
).map(lambda drawn: drawn[1].join(drawn[0]))


@settings(max_examples=100)
@given(
    WELL_FORMED,
    st.lists(st.sampled_from(["rot", "Haus.", "(„x", ".", "..."]), max_size=6),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7))),
    st.booleans(),
)
def test_well_formed_tags_stay_well_formed(sentence, translation, alignment, unchanged):
    text, tags = remove_tags(sentence)
    if unchanged:
        translation = text.split()
    written = restore_tags(tags, " ".join(translation), alignment)
    assert sorted(TAG.findall(written)) == sorted(TAG.findall(sentence))
    assert without(tags, written).replace(" ", "") == "".join(translation)
    assert_nested(written)


def assert_nested(written):
    opened = []
    for tag in TAG.findall(written):
        if tag.startswith("</"):
            assert opened.pop() == tag.replace("/", "")
        elif tag.startswith("<"):
            opened.append(tag)
    assert not opened


TREE = st.recursive(
    st.sampled_from(["amber", "birch.", "(x", "5", "§", ".", "{name}", "<br/>"]),
    lambda parts: st.tuples(st.lists(parts, max_size=3), SEPARATOR),
    max_leaves=8,
)
TREES = st.tuples(st.lists(TREE, max_size=5), SEPARATOR)
LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)))
CAPITALS = st.lists(st.sampled_from(["ROT", "HAUS.", "(„X", "„§", ".", "..."]), max_size=6)
"""Words of a translation; no letter is one of the source."""


def with_numbers(drawn):
    """The sentence of a tree. Each pair and each placeholder has a name of its own."""
    numbers = iter(range(100))

    def text(tree):
        if isinstance(tree, tuple):
            pair = f"p{next(numbers)}"
            return f"<{pair}>{tree[1].join(map(text, tree[0]))}</{pair}>"
        names = {"{name}": f"{{v{next(numbers)}}}", "<br/>": f"<v{next(numbers)}/>"}
        return names.get(tree, tree)

    return drawn[1].join(map(text, drawn[0]))


def pairs_around(written):
    """The pairs around each tag but the closing ones, and the text that each pair encloses."""
    around, enclosed = {}, {}
    opened = []
    for part in re.split(f"({TAG.pattern})", written):
        if part.startswith("</"):
            assert opened.pop() == part.replace("/", "")
        elif TAG.fullmatch(part):
            around[part] = set(opened)
            if part.startswith("<") and not part.endswith("/>"):
                opened.append(part)
        for pair in opened:
            enclosed[pair] = enclosed.get(pair, "") + TAG.sub("", part)
    assert not opened
    return around, enclosed


@settings(max_examples=100)
@given(TREES.map(with_numbers), CAPITALS, LINKS)
@example("<p0>{v0}.</p0><p1></p1>§", ["."], [(0, 0), (0, 1)])  # a link to a word that is not there
@example("<p0>a <p1>{v0}</p1> b</p0>", [".", "ROT"], [(0, 1), (1, 0)])  # marks are often aligned wrongly
@example("<p0>a <v1/> b</p0>", [".", "ROT"], [(0, 1), (1, 0)])
@example("§<p0>a <p1></p1> b</p0>", ["„ROT"], [(0, 0), (1, 0)])
@example("(<p0>a</p0>", ["ROT"], [(0, 0)])
@example("<p0>a</p0> <p1>b</p1>", ["ROT", "ROT", "ROT"], [(0, 1), (1, 0), (1, 2)])
def test_a_tag_stays_inside_the_pairs_around_it_and_cuts_no_other_word(sentence, translation, links):
    """Wherever the words of the pairs go."""
    _, tags = remove_tags(sentence)
    written = restore_tags(tags, " ".join(translation), links)
    before, _ = pairs_around(sentence)
    after, enclosed = pairs_around(written)
    assert all(before[tag] <= after[tag] for tag in before)
    assert not re.search(f"[A-Z](?:{TAG.pattern})+[A-Z]", written)
    pairs = [pair for pair, text in enclosed.items() if re.search("[A-Z]", text)]
    for one, other in combinations(pairs, 2):  # of pairs with words none encloses another that it did not
        assert (one in after[other]) == (one in before[other])
        assert (other in after[one]) == (other in before[one])


ALONE = st.lists(st.sampled_from(["<a>", "</b>", "<br/>", "amber", "birch.", " ", " "]), max_size=10)


@settings(max_examples=80)
@given(ALONE, CAPITALS, LINKS)
@example(["<a>", "amber", "<br/>", "amber", "<a>"], ["ROT", "ROT"], [(0, 1), (1, 0)])
def test_a_tag_that_follows_its_word_stays_after_those_that_precede_theirs(parts, translation, links):
    """Where tags have no partners."""
    numbers = iter(range(100))
    sentence = "".join(re.sub(r"(?<=<)/?\w+", lambda tag: f"{tag[0]}{next(numbers)}", part) for part in parts)
    _, tags = remove_tags(sentence)
    written = restore_tags(tags, " ".join(translation), links)
    for one, other in combinations(tags, 2):
        if not one.follows_word and other.follows_word:
            assert written.index(one.text) < written.index(other.text)


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["<b>", "</b>", "{x}", "amber", "birch,", "cedar."]), min_size=3, max_size=10),
    st.lists(st.integers(0, 10), min_size=1, max_size=3),
    st.lists(st.sampled_from(["rot", "Haus,", "blau."]), min_size=3, max_size=8),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12),
)
def test_a_cue_ends_where_the_fewest_words_are_on_the_wrong_side(parts, places, target, links):
    places = sorted(min(place, len(parts)) for place in places)
    sentence = " ".join(
        "".join(f"<cue{number}/>" for number, at in enumerate(places) if at == place) + part
        for place, part in enumerate([*parts, ""])
    )
    plain, tags = remove_tags(sentence)
    without_cues = remove_tags(" ".join([*parts, ""]))
    assert (plain, [tag for tag in tags if not tag.is_cue]) == without_cues
    assert [tag.text for tag in tags if tag.is_cue] == CUE.findall(sentence)
    alignment = [link for link in links if link[0] < len(plain.split()) and link[1] < len(target)]
    restored = restore_tags(tags, " ".join(target), alignment)
    expected = restore_tags(without_cues[1], " ".join(target), alignment)
    assert CUE.sub("", restored).split() == expected.split()
    assert CUE.findall(restored) == CUE.findall(sentence)

    def wrong(word, place):
        return sum((source >= word) != (target >= place) for source, target in alignment)

    for tag, cue in zip((tag for tag in tags if tag.is_cue), CUE.finditer(restored), strict=True):
        place = len(remove_tags(restored[: cue.start()])[0].split())
        assert wrong(tag.word, place) == min(wrong(tag.word, other) for other in range(len(target) + 1))


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        ("x y das z", "x y <cue1/>das z"),
        ("x y, das z", "x y, <cue1/>das z"),
        ("x y das, z", "x y das, <cue1/>z"),
    ],
)
def test_a_word_without_a_link_is_in_the_cue_of_the_next_word_unless_a_mark_ends_it(translation, restored):
    _, tags = remove_tags("a b <cue1/>c")
    assert restore_tags(tags, translation, [(0, 0), (1, 1), (2, 3)]) == restored
