"""Translation through a third language: what two models give one after the other."""

import asyncio
import json
from dataclasses import asdict, replace
from itertools import permutations
from unittest import mock

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.documents import markup
from dragoman.serving.app import make_app
from dragoman.serving.errors import ApiError
from dragoman.serving.languages import listed_pairs
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel, matches
from dragoman.serving.pivot import compose_alignments
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from tests.test_reload import TEXTS, versions  # noqa: F401  a fixture
from tests.test_served_adapters import answers
from tests.test_serving import read_events

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")

V1 = "/v1/translate"
FR_DE = {"source": "fr", "target": "de"}
WORDS = st.sampled_from(["amber", "birch", "cedar", "delta", "ember", "fjord", "AMBER", "BIRCH"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def first(versions):  # noqa: F811
    return Translator.load(versions / "one")


@pytest.fixture(scope="module")
def second(versions):  # noqa: F811
    return Translator.load(versions / "two")


@pytest.fixture(scope="module")
def models(first, second):
    """A model from French to English, and one from English to German."""
    return Models((ServedModel("fren", "fr", "en", first), ServedModel("ende", "en", "de", second)))


@pytest.fixture(scope="module")
def app(models):
    return make_app(Service(models, ServerSettings(), Metrics()), None)


# ---- texts


@pytest.mark.long
@settings(max_examples=25)
@given(
    st.lists(SENTENCES, min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([{}, {"prefix": "AMBER"}, {"ban_words": ["AMBER", "birch"]}, {"min_length": 7}]),
)
def test_a_pivot_gives_what_the_models_give_one_after_the_other(
    app, first, second, texts, n_best, is_stream, of
):
    options = {"beam_size": 4, "n_best": n_best, **of}
    between = first.translate(texts, beam_size=4)
    expected = second.n_best(between, **options)
    body = {"text": texts, **FR_DE, "split_sentences": False, "alignment": True, **options}
    if is_stream:
        body["text"], between, expected = texts[0], between[:1], expected[:1]
        (found,) = answers(app, (f"{V1}/stream", body))
        *pieces, (_, answer) = read_events(found.text)
        text = "".join(piece["text"] for _, piece in pieces)
        assert text == answer["translations"][0]["text"]
    else:
        (found,) = answers(app, (V1, body))
        answer = found.json()
    assert found.status_code == 200, found.text
    assert (answer["source"], answer["target"], answer["pivot"]) == ("fr", "de", "en")
    assert answer["model"] == "fren+ende"
    for translation, sentence, best in zip(answer["translations"], between, expected, strict=True):
        (found_sentence,) = translation["sentences"]
        assert found_sentence["pivot_text"] == sentence
        assert found_sentence["n_best"] == json.loads(json.dumps([asdict(one) for one in best]))
        source = found_sentence["source"]
        alignments = first.align([(source, sentence)]), second.align([(sentence, found_sentence["text"])])
        composed = compose_alignments(*(each[0] for each in alignments))
        assert [tuple(pair) for pair in found_sentence["alignment"]] == composed


TAGGED = st.recursive(
    SENTENCES,
    lambda inner: st.builds(
        lambda before, tag, inside, after: f"{before} <{tag}>{inside}</{tag}> {after}",
        SENTENCES,
        st.sampled_from(["b", "i", "a"]),
        inner,
        SENTENCES,
    ),
    max_leaves=3,
)


@pytest.mark.long
@settings(max_examples=25)
@given(st.lists(TAGGED | SENTENCES.map(lambda text: f"{text} https://example.org/a"), min_size=1, max_size=3))
def test_tags_and_addresses_come_through_both_steps(app, first, second, paragraphs):
    text = "".join(f"<p>{paragraph}</p>\n" for paragraph in paragraphs)
    document = markup.html(text, "fr")

    def translated(translator, sentences):
        tags = {True: {"keep_tags": True}, False: {}}
        return [
            translator.translate(sentence, **tags[bool(segment.marks)])
            for sentence, segment in zip(sentences, document.segments, strict=True)
        ]

    expected = document.join(translated(second, translated(first, document.sentences)))
    found, streamed, libretranslate, deepl = answers(
        app,
        (V1, {"text": text, "format": "html", **FR_DE}),
        (f"{V1}/stream", {"text": text, "format": "html", **FR_DE}),
        ("/translate", {"q": text, "format": "html", **FR_DE}),
        ("/v2/translate", {"text": [text], "tag_handling": "html", "source_lang": "FR", "target_lang": "DE"}),
    )
    assert found.json()["translations"][0]["text"] == expected
    assert read_events(streamed.text)[-1][1] == found.json()
    assert libretranslate.json() == {"translatedText": expected}
    assert deepl.json()["translations"][0]["text"] == expected
    for tag in ("<b>", "</b>", "<i>", "</i>", "<a>", "</a>", "https://example.org/a", "<p>", "</p>"):
        assert expected.count(tag) == text.count(tag)


def test_a_document_comes_through_both_steps(app, first, second):
    async def translate():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            sent = await client.post(
                "/v1/documents",
                params={"name": "a.txt", **FR_DE},
                content="\n\n".join(TEXTS * 60).encode(),  # several parts
                headers={"Content-Type": "application/octet-stream"},
            )
            path = f"/v1/documents/{sent.json()['id']}"
            while (status := (await client.get(path)).json())["status"] == "translating":
                await asyncio.sleep(0.01)
            return status, (await client.get(f"{path}/result")).text

    status, text = asyncio.run(translate())
    assert (status["status"], status["pivot"], status["sentences_done"]) == ("done", "en", len(TEXTS) * 60)
    translations = zip(TEXTS, second.translate(first.translate(TEXTS)), strict=True)
    assert text == "\n\n".join([translation or source for source, translation in translations] * 60)
    app.service.documents.close()


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        ("/v1/alternatives", {"text": "amber"}, "alternatives"),
        ("/v1/inspect", {"text": "amber"}, "inspection"),
        ("/v1/score", {"pairs": [["amber", "AMBER"]]}, "scores"),
        (V1, {"text": "amber", "attention": True}, "attention"),
        (f"{V1}/stream", {"text": "amber", "attention": True}, "attention"),
        (V1, {"text": "amber", "terms": [["amber", "BIRCH"]]}, "terms"),
    ],
)
def test_what_a_pivot_does_not_have_is_refused(app, path, body, what):
    (found,) = answers(app, (path, {**body, **FR_DE}))
    assert (found.status_code, found.json()["error"]["code"]) == (400, "pivot")
    sentence = f"No model translates fr to de, and a translation by way of en has no {what}."
    assert found.json()["error"]["message"].startswith(sentence)


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_queue_counts_the_tokens_of_both_steps(models, is_stream):
    service = Service(models, ServerSettings(), Metrics())
    tokens, search = [], service.search

    async def noted(*arguments):
        tokens.append(service.admission.tokens)
        return await search(*arguments)

    service.search = noted
    (found,) = answers(make_app(service, None), (V1 + "/stream" * is_stream, {"text": TEXTS[0], **FR_DE}))
    assert found.status_code == 200
    source = sum(map(len, models.models[0].translator.prepare(TEXTS[:1]).sources))
    assert tokens == [2 * source, source][: 1 if is_stream else 2]
    assert service.admission.tokens == 0
    counts = service.metrics.translated
    assert {name: count.sentences for (name, _), count in counts.items()} == {
        step.name: 1 for step in models.pivots[0].steps
    }


def test_a_request_that_is_too_long_is_refused_before_the_first_step(models):
    service = Service(models, ServerSettings(max_tokens=3), Metrics())
    (found,) = answers(make_app(service, None), (V1, {"text": TEXTS[0], **FR_DE}))
    assert found.status_code == 413
    assert not service.metrics.translated


# ---- which pairs


CODES = ["en", "fr", "de", "it", "und"]
PAIRS = st.lists(st.tuples(*[st.sampled_from(CODES)] * 2), min_size=1, max_size=6, unique=True)


@example([("fr", "en"), ("de", "fr"), ("de", "und")], "de", "en", True)
@given(PAIRS, st.sampled_from(CODES[:-1]), st.sampled_from(CODES[:-1]), st.booleans())
def test_a_pair_is_translated_directly_else_by_two_models_else_by_one_of_an_unknown_language(
    pairs, source, target, is_allowed
):
    models = Models(tuple(ServedModel("-".join(pair), *pair, None) for pair in pairs), is_allowed)
    direct = [pair for pair in pairs if matches(source, pair[0]) and matches(target, pair[1])]
    known = [pair for pair in pairs if "und" not in pair]
    by_way = [
        (first, second)
        for first in known
        for second in known
        if (first[0], first[1], second[1]) == (source, second[0], target) and source != target
    ]
    if not direct and not (by_way and is_allowed):
        with pytest.raises(ApiError, match="No model translates"):
            models.between(source, target)
        assert target not in listed_pairs(models.pairs).get(source, [])
        return
    found = models.between(source, target)
    into_known = [pair for pair in direct if pair[1] != "und"]
    if into_known or not (by_way and is_allowed):
        assert not found.steps
        assert (found.source, found.target) in (into_known or direct)
    else:
        assert is_allowed
        assert tuple((step.source, step.target) for step in found.steps) in by_way
        assert (found.source, found.target) == (source, target)
    assert target in listed_pairs(models.pairs)[source] or source == target


VARIETIES = st.sampled_from(["en", "en-GB", "EN_us", "fr", "de", "de-AT", "und"])


@given(st.lists(st.tuples(VARIETIES, VARIETIES), max_size=8))
def test_the_pivots_are_the_pairs_of_models_that_meet_where_no_model_has_both_languages(pairs):
    models = Models(tuple(ServedModel(str(number), *pair, None) for number, pair in enumerate(pairs)))
    expected = {}
    for first, second in permutations(models.models, 2):
        ends = first.source, second.target
        if (
            "und" not in (*ends, first.target, second.source)
            and matches(first.target, second.source)
            and not matches(*ends)
            and not any(
                matches(ends[0], one.source) and matches(ends[1], one.target) and one.target != "und"
                for one in models.models
            )
        ):
            expected.setdefault(ends, (first, second))
    assert [pivot.steps for pivot in models.pivots] == [*expected.values()]


def test_the_pivots_of_many_models_are_found_with_few_comparisons_and_once_for_a_key(monkeypatch):
    codes = [f"{first}{second}" for first in "abcd" for second in "vwxyz"]
    pairs = [pair for code in codes for pair in ((code, "en"), ("en", code))]
    models = Models(tuple(ServedModel("-".join(pair), *pair, None) for pair in pairs))
    compared = mock.Mock(wraps=matches)
    monkeypatch.setattr("dragoman.serving.models.matches", compared)
    assert len(models.pivots) == len(codes) * (len(codes) - 1)
    assert compared.call_count < 6 * len(models.pivots)
    assert models.permitted((), ("en", *codes)) is models.permitted((), ("en", *codes))


def test_the_pairs_of_pivots_are_listed(app, models, first):
    languages, listed, deepl = answers(
        app, ("/languages", None), ("/v1/models", None), ("/v2/languages", None)
    )
    targets = {language["code"]: language["targets"] for language in languages.json()}
    assert targets == {"fr": ["en", "de"], "en": ["de"], "de": []}
    (pivot,) = listed.json()["pivots"]
    assert pivot == {
        "source": "fr",
        "target": "de",
        "pivot": "en",
        "source_name": "French",
        "target_name": "German",
    }
    assert [model["name"] for model in listed.json()["models"]] == ["fren", "ende"]
    assert {language["language"] for language in deepl.json()} == {"EN", "FR"}
    forbidden = make_app(Service(replace(models, allows_pivots=False), ServerSettings(), Metrics()), None)
    refused, listed, direct = answers(
        forbidden,
        (V1, {"text": "amber", **FR_DE}),
        ("/v1/models", None),
        (V1, {"text": TEXTS, "source": "fr"}),
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "no_such_pair")
    assert listed.json()["pivots"] == []
    assert [each["text"] for each in direct.json()["translations"]] == first.translate(TEXTS)
    assert "pivot" not in direct.json()


def test_the_source_of_a_pivot_is_detected(app):
    (found,) = answers(
        app, (V1, {"text": "Je ne comprends pas cette phrase.", "source": "auto", "target": "de"})
    )
    assert (found.json()["source"], found.json()["pivot"]) == ("fr", "en")


ALIGNMENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@given(ALIGNMENTS, ALIGNMENTS)
def test_words_are_aligned_by_way_of_a_word_between(first, second):
    expected = {(source, target) for source, one in first for other, target in second if one == other}
    assert compose_alignments(first, second) == sorted(expected)
