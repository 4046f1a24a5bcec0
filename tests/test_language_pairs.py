"""One model of several pairs of languages: the symbol of the target language, shares, scores, searches."""

import json
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.cli.train import corpus_of
from dragoman.inspection.inspect import inspect
from dragoman.model.symbols import END
from dragoman.native.settings import EngineSettings
from dragoman.pipeline.conversion import prepare_converted
from dragoman.pipeline.distil import Distillation, student_recipe, write_distilled
from dragoman.pipeline.language_pairs import pairs_of_model
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe, check_recipe, read_recipe
from dragoman.pipeline.run import run
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.serving.app import make_app
from dragoman.serving.loading import load_models
from dragoman.serving.metrics import Metrics
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.text.mixture import MAX_TEMPERATURE, WeightedCorpus, choose_temperature, temperature_weights
from dragoman.text.settings import (
    BatchSettings,
    DataSettings,
    LanguagePair,
    Languages,
    TokenizerSettings,
    with_symbols,
)
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.checkpoint import checkpoints
from dragoman.training.world import World
from dragoman.translation.alignment import word_alignment
from dragoman.translation.glossary import Glossary, Term
from dragoman.translation.translator import Translator
from tests.conftest import small_recipe
from tests.test_served_adapters import answers

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
SPELLING = {"de": str.upper, "fr": str.title}  # what stands for these languages


def write_pair(folder: Path, name: str, language: str, count: int, seed: int) -> tuple[Path, Path]:
    """Random sentences, and their translations by `SPELLING`."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) for _ in range(count)]
    paths = folder / f"{name}.en", folder / f"{name}.{language}"
    for path, texts in zip(paths, (lines, map(SPELLING[language], lines)), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts))
    return paths


def corpus(
    folder: Path, name: str, language: str, count: int, seed: int = 0, **more: object
) -> WeightedCorpus:
    """A corpus from en."""
    paths = write_pair(folder, name, language, count, seed)
    return WeightedCorpus(*paths, source_language="en", target_language=language, **more)


def recipe_of(folder: Path, *corpora: WeightedCorpus, **training: object) -> Recipe:
    """A small recipe of the corpora."""
    return replace(small_recipe(folder, folder / "run", **training), data=DataSettings(corpus=corpora))


@pytest.fixture(scope="module")
def trained_pairs(tmp_path_factory) -> Path:
    """A run that has learnt to write words in capitals for `de`, and with one capital each for `fr`."""
    folder = tmp_path_factory.mktemp("pairs")
    test = write_pair(folder, "test", "fr", 12, 9)
    corpora = (
        corpus(folder, "a", "de", 400, 1),
        corpus(folder, "b", "fr", 300, 2, test_source=test[0], test_target=test[1]),
    )
    recipe = recipe_of(
        folder, *corpora, updates=480, warmup_steps=60, learning_rate_scale=0.5, validate_every=240,
        checkpoint_every=240, average=1,
    )  # fmt: skip
    recipe = replace(
        recipe,
        model=replace(recipe.model, d_model=32, d_ff=64, dropout=0.0),
        batches=BatchSettings(source_tokens_per_batch=400, target_tokens_per_batch=400),
    )
    run(recipe)
    return folder


@pytest.fixture(scope="module")
def several(trained_pairs) -> Translator:
    return Translator.load(trained_pairs / "run")


# ---- the symbol


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char", "byte"])
@given(texts=st.lists(st.text(st.sampled_from("ab <2de>frx"), max_size=30), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_no_text_gives_the_symbol_and_no_translation_shows_it(kind, texts):
    symbols = [pair.symbol for pair in with_symbols([Languages("en", "de"), Languages("en", "fr")])]
    lines = ["amber birch <2de>", "delta ember fjord"] * 50
    made = Tokenizer.train(
        lines, kind, TokenizerSettings(), 300 if kind in ("bpe", "unigram") else 60, symbols
    )
    ids = set(made.ids(symbols))
    for text in (*texts, "<2de>", "a<2fr>b <2de>"):
        (encoded,) = made.encode([text])
        assert not ids.intersection(encoded)
        assert made.decode([made.ids(symbols)[0], *encoded]).strip() == made.decode(encoded).strip()


@given(pairs=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=6))
def test_pairs_have_symbols_exactly_if_their_targets_differ(pairs):
    languages = [Languages(2 * source, 2 * target) for source, target in pairs]
    made = with_symbols(languages)
    distinct = dict.fromkeys(languages)
    assert [Languages(pair.source, pair.target) for pair in made] == (
        list(distinct) if len(distinct) > 1 else []
    )
    symbols = {pair.target: pair.symbol for pair in made}
    assert all(symbols[pair.target] == pair.symbol for pair in made)
    if len(symbols) > 1:
        assert len(set(symbols.values())) == len(symbols)
    else:
        assert set(symbols.values()) <= {""}


# ---- preparation


@pytest.mark.short_form(1)
@pytest.mark.parametrize("sampled", [False, True])
def test_every_source_begins_with_the_symbol_of_its_pair(tmp_path, sampled):
    corpora = (
        corpus(tmp_path, "a", "de", 120, 1),
        corpus(tmp_path, "b", "fr", 80, 2),
        corpus(tmp_path, "c", "de", 60, 3),
    )
    recipe = recipe_of(tmp_path, *corpora)
    if sampled:
        recipe = replace(
            recipe, tokenizer=TokenizerSettings(vocabulary=320, bpe_dropout=0.2, sampled_copies=3)
        )
    prepare_converted(tmp_path / "run", recipe, recipe.data)
    data = PreparedData.load(tmp_path / "run" / "data")
    tokenizer = data.tokenizers.source
    texts = [line for one in corpora for line in one.source.read_text().splitlines()]
    languages = [one.target_language for one in corpora for _ in one.source.read_text().splitlines()]
    for pair in range(len(data.train)):
        (first, *rest), target = data.train[pair]
        line = data.train.line_number(pair) - 1
        assert tokenizer.pieces([int(first)]) == [f"<2{languages[line]}>"]
        assert tokenizer.decode([int(token) for token in rest]) == texts[line]
        assert data.tokenizers.target.decode(target.tolist()) == SPELLING[languages[line]](texts[line])
    by_pair = data.by_pair()
    assert list(by_pair) == ["en-de", "en-fr"]
    assert sum(len(each.valid) for each in by_pair.values()) == len(data.valid)
    trained_lines = {texts[data.train.line_number(pair) - 1] for pair in range(len(data.train))}
    for name, each in by_pair.items():
        language = name.removeprefix("en-")
        assert each.valid_target == [SPELLING[language](line) for line in each.valid_source]
        assert not trained_lines.intersection(each.valid_source)
        for pair in range(len(each.valid)):
            assert tokenizer.pieces(each.valid[pair][0][:1].tolist()) == [each.symbol] == [f"<2{language}>"]


def test_one_named_pair_is_prepared_as_the_two_files_alone(tmp_path):
    """The same bytes of all files: tokenizers, ids, validation text."""
    one = corpus(tmp_path, "a", "de", 150, 1)
    recipe = recipe_of(tmp_path, one)
    for name, data in (("pair", recipe.data), ("files", DataSettings(one.source, one.target))):
        prepare_converted(tmp_path / name, recipe, data)
    manifests = [(tmp_path / name / "data" / "manifest.json").read_text() for name in ("pair", "files")]
    assert manifests[0] == manifests[1]
    assert pairs_of_model(recipe) == ()


def test_given_validation_text_is_that_of_its_pair(tmp_path):
    valid = {code: write_pair(tmp_path, f"valid-{code}", code, 9, 5) for code in SPELLING}
    corpora = [
        corpus(
            tmp_path, f"c{number}", code, 60, number, valid_source=valid[code][0], valid_target=valid[code][1]
        )
        for number, code in enumerate(("de", "fr", "de"))
    ]
    corpora[2] = replace(corpora[2], valid_source=None, valid_target=None)
    recipe = recipe_of(tmp_path, *corpora)
    prepare_converted(tmp_path / "run", recipe, recipe.data)
    for name, data in PreparedData.load(tmp_path / "run" / "data").by_pair().items():
        source, target = valid[name.removeprefix("en-")]
        assert (data.valid_source, data.valid_target) == (
            source.read_text().splitlines(),
            target.read_text().splitlines(),
        )


# ---- shares


@given(
    corpora=st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from("abc")), min_size=1, max_size=6),
    temperature=st.floats(1, 100),
)
def test_shares_follow_the_temperature(corpora, temperature):
    sizes, pairs = [size for size, _ in corpora], [pair for _, pair in corpora]
    totals = Counter()
    for size, pair in corpora:
        totals[pair] += size
    weights = np.array(temperature_weights(sizes, pairs, temperature))
    expected = {pair: total ** (1 / temperature) for pair, total in totals.items()}
    for pair, share in expected.items():
        of_pair = np.array([other == pair for other in pairs])
        assert weights[of_pair].sum() / weights.sum() == pytest.approx(share / sum(expected.values()))
        assert weights[of_pair] * totals[pair] == pytest.approx(
            weights[of_pair].sum() * np.array(sizes)[of_pair]
        )
    chosen = choose_temperature(list(totals.values()))
    ratio = max(totals.values()) / min(totals.values())
    assert 1 <= chosen <= MAX_TEMPERATURE
    assert ratio ** (1 / chosen) <= 10 * 1.03 or chosen == MAX_TEMPERATURE  # two decimals
    assert chosen == 1 or ratio > 10


def test_an_epoch_has_the_shares_of_the_pairs_and_the_recipe_the_temperature(tmp_path):
    corpora = corpus(tmp_path, "a", "de", 400, 1), corpus(tmp_path, "b", "fr", 20, 2)
    recipe = recipe_of(tmp_path, *corpora)
    complete = prepare_converted(tmp_path / "run", recipe, recipe.data)
    assert complete.data.pair_temperature == choose_temperature([400, 20]) > 1
    data = PreparedData.load(tmp_path / "run" / "data")
    lines = np.array([data.train.line_number(pair) for pair in range(len(data.train))])
    batches = make_batches(recipe, data, World())
    shares = np.array([400.0, 20.0]) ** (1 / complete.data.pair_temperature)
    for epoch in range(3):
        pairs = np.concatenate(batches.plan(epoch))
        assert (lines[pairs] > 400).mean() == pytest.approx(shares[1] / shares.sum(), abs=0.01)


# ---- a run


def test_a_run_scores_each_pair_and_their_mean(trained_pairs):
    result = json.loads((trained_pairs / "run" / "result.json").read_text())
    for scores in (result["validation"], *result["candidates"].values()):
        for name in ("loss", "nll", "bleu"):
            assert scores[name] == pytest.approx((scores[f"en-de_{name}"] + scores[f"en-fr_{name}"]) / 2)
    assert result["validation"]["bleu"] > 80
    assert [score["name"] for score in result["test"]] == ["en-fr BLEU", "en-fr chrF2"]
    assert result["test"][0]["value"] > 80
    validations = [
        json.loads(line)
        for line in (trained_pairs / "run" / "log.jsonl").read_text().splitlines()
        if '"event": "validation"' in line
    ]
    assert all(line["en-fr_bleu"] <= 100 for line in validations)
    assert read_recipe(trained_pairs / "run").data.pairs == [Languages("en", "de"), Languages("en", "fr")]


@pytest.mark.long
def test_a_resumed_run_of_several_pairs_equals_an_uninterrupted_one(tmp_path):
    corpora = corpus(tmp_path, "a", "de", 120, 1), corpus(tmp_path, "b", "fr", 8, 2)
    recipe = recipe_of(tmp_path, *corpora, updates=16, warmup_steps=4)
    recipe = replace(recipe, data=replace(recipe.data, pair_temperature=3.0))
    whole, stopped = (replace(recipe, out=tmp_path / name) for name in ("whole", "stopped"))
    run(whole)

    def interrupt(words):
        if words.startswith("Validation at update 8, mean"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), messages_to(interrupt):
        run(stopped)
    run(stopped)
    weights = [checkpoints(each.out)[-1] / "model.safetensors" for each in (whole, stopped)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


# ---- translation


@given(lines=st.lists(st.lists(st.sampled_from([*WORDS, "<2de>", "<2fr>"]), max_size=5), max_size=6))
@settings(max_examples=20, deadline=None)
def test_each_line_has_one_translation_in_each_language(several, lines):
    texts = [" ".join(words) for words in lines]
    for language in SPELLING:
        translations = several.translate(texts, target_language=language)
        assert translations == several.into(language).translate(texts)
        assert len(translations) == len(texts)
        assert all("<2" not in one for one in translations)


@pytest.mark.parametrize("native", [True, False])
def test_the_symbol_decides_the_language(several, trained_pairs, native):
    translator = several if native else Translator.load(trained_pairs / "run", native=False)
    lines = (trained_pairs / "test.en").read_text().splitlines()
    for language, spell in SPELLING.items():
        translations = translator.translate(lines, target_language=language)
        assert translations == [spell(one) for one in translations]
        right = sum(one == spell(line) for one, line in zip(translations, lines, strict=True))
        assert right >= 0.8 * len(lines)


def test_every_part_of_a_long_text_has_the_symbol(several):
    text = " ".join(WORDS * 3)
    for language, spell in SPELLING.items():
        translator = several.into(language)
        (parts,) = translator.prepare([text], split=5).parts
        sources = translator.prepare([text], split=5).sources
        assert len(parts) > 3
        assert [source[1:] for source in sources] == parts
        assert all(tuple(source[:1]) == translator.source_prefix for source in sources)
        assert translator.translate(text, split=5) == spell(text)
        assert translator.prepare(["", "  "]).sources == [[END], [END]]


@pytest.mark.long
def test_tags_terms_streams_and_other_languages_keep_the_symbol(several):
    text = "amber birch cedar delta"
    for language, spell in SPELLING.items():
        translator = several.into(language)
        tagged = translator.translate("amber <b>birch</b> cedar delta", keep_tags=True)
        assert tagged == spell("amber <b>birch</b> cedar delta").replace("<B>", "<b>").replace("</B>", "</b>")
        assert "".join(translator.stream(text)) == spell(text)
        assert translator.into("de").translate(text) == SPELLING["de"](text)
        glossary = Glossary([Term("birch", spell("cedar"))], translator.languages)
        assert spell("cedar") in translator.translate("amber birch", glossary=glossary)
        assert pickle.loads(pickle.dumps(translator)).translate(text) == spell(text)


SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


@given(source=SENTENCES, target=SENTENCES, language=st.sampled_from(sorted(SPELLING)))
@settings(max_examples=20, deadline=None)
def test_alignments_are_read_from_the_attention_to_the_users_words(several, source, target, language):
    translator, target = several.into(language), SPELLING[language](target)
    attention = translator.attention(source, target)
    assert attention.source[0] == f"<2{language}>"
    weights = attention.cross[-1].mean(0)[:, 1:]
    words = [range(len(text.split())) for text in (source, target)]
    assert translator.align([(source, target)]) == [word_alignment(weights, *words)]


def test_alignments_are_of_the_users_words(several):
    text = "amber birch cedar delta"
    for language, spell in SPELLING.items():
        translator = several.into(language)
        (links,) = translator.align([(text, spell(text))])
        assert {target for _, target in links} == set(range(4))
        assert all(0 <= source < 4 for source, _ in links)
        (likelihood,) = translator.score([(text, spell(text))])
        (other,) = translator.score([(text, SPELLING["fr" if language == "de" else "de"](text))])
        assert likelihood.log_probability > other.log_probability + 5
        (best,) = translator.n_best([text], beam_size=1, n_best=1)[0]
        assert not any(token.startswith("<2") for token in best.tokens)


def test_a_language_has_to_be_chosen_and_known(several, trained):
    with pytest.raises(
        DragomanError, match="translates into de and fr, and none of these languages is chosen"
    ):
        several.translate(["amber"])
    for code in ("it", "d", "en"):
        with pytest.raises(DragomanError, match=f"translates into de and fr, and not into {code}"):
            several.translate(["amber"], target_language=code)
    with pytest.raises(DragomanError, match="translates from en, and not from it"):
        several.into("de", "it")
    one = Translator.load(trained / "run")
    assert one.into("") is one


def test_the_command_line_chooses_the_language(command_line, trained_pairs):
    run_folder = str(trained_pairs / "run")
    for language, spell in SPELLING.items():
        status, out, _ = command_line("translate", run_folder, "--to", language, stdin=b"amber birch\n")
        assert (status, out) == (0, spell("amber birch") + "\n")
    status, _, error = command_line("translate", run_folder, stdin=b"amber\n")
    assert status == 2
    assert "give --to de" in error
    status, _, error = command_line("translate", run_folder, "--to", "it", stdin=b"amber\n")
    assert status == 2
    assert "not into it" in error


# ---- what is refused


def test_pairs_of_the_command_line():
    files = ["a.en", "a.de"]
    made = {"source_language": "en", "target_language": "de", "source": "a.en", "target": "a.de"}
    assert corpus_of(["en-de", *files]) == made
    assert corpus_of(["en-de", *files, "v.tsv"]) == made | {"valid_source": "v.tsv"}
    for name, source, target in (("pt-BR-en", "pt-BR", "en"), ("en-zh-Hans", "en", "zh-Hans")):
        assert corpus_of([name, "a.tmx"]) == {
            "source_language": source,
            "target_language": target,
            "source": "a.tmx",
        }
    for values in (
        ["en-de"],
        ["ende", *files],
        ["en-de", "a.en"],
        ["en-de", *files, "v.en"],
        ["en-de", *files * 4],
    ):
        with pytest.raises(DragomanError, match="--pair is .*; it takes two languages and their text"):
            corpus_of(values)


def test_settings_that_are_not_for_several_pairs_are_refused(tmp_path):
    pair = WeightedCorpus(tmp_path / "a.en", tmp_path / "a.de", source_language="en", target_language="de")
    other = replace(pair, target_language="fr")
    recipe = recipe_of(tmp_path, pair, other)
    tokens = replace(recipe.tokenizer, symbols=("<2de>",))
    cases = [
        (replace(recipe, data=replace(recipe.data, terms=True)), "terms is for one pair"),
        (replace(recipe, tokenizer=tokens), "<2de> stands for a target language"),
        (recipe_of(tmp_path, replace(pair, tag="<2fr>"), other), "<2fr> stands for a target language"),
        (replace(recipe, adaptation=AdaptationSettings(replay=("a", "b"))), "replay is for one pair"),
    ]
    for wrong, message in cases:
        with pytest.raises(DragomanError, match=message):
            check_recipe(wrong)
    corpora = [
        (
            (pair, replace(other, source_language=None, target_language=None)),
            "give languages to every corpus",
        ),
        ((pair, replace(other, target_language=None)), "names one language"),
        ((pair, replace(other, valid_source=pair.source)), "give valid_source and valid_target"),
        ((replace(pair, valid_source=pair.source, valid_target=pair.target), other), "none from en to fr"),
    ]
    write_pair(tmp_path, "a", "de", 9, 1)
    for wrong, message in corpora:
        recipe = recipe_of(tmp_path, *wrong)
        with pytest.raises(DragomanError, match=message):
            prepare_converted(tmp_path / "run", recipe, recipe.data)
    weighted = recipe_of(tmp_path, replace(pair, weight=1.0), replace(other, target=pair.target, weight=2.0))
    for recipe in (weighted, recipe_of(tmp_path, pair)):
        wrong = replace(recipe, data=replace(recipe.data, pair_temperature=2.0))
        with pytest.raises(DragomanError, match="pair_temperature is 2, and the corpora have"):
            prepare_converted(tmp_path / "run", wrong, wrong.data)


def test_an_adaptation_keeps_the_pairs_of_its_initial_model(trained_pairs, trained, tmp_path):
    one = corpus(tmp_path, "a", "fr", 30)
    adaptation = AdaptationSettings(initial_model=trained_pairs / "run")
    recipe = replace(recipe_of(tmp_path, one), adaptation=adaptation)
    assert pairs_of_model(recipe) == (LanguagePair("en", "de", "<2de>"), LanguagePair("en", "fr", "<2fr>"))
    related = replace(recipe, data=DataSettings(corpus=(replace(one, source_language="es"),)))
    assert pairs_of_model(related)[2:] == (LanguagePair("es", "fr", "<2fr>"),)
    cases = [
        (
            DataSettings(corpus=(replace(one, target_language="it"),)),
            adaptation,
            "translates into de, fr only",
        ),
        (DataSettings(one.source, one.target), adaptation, "the languages of the text are not given"),
        (
            DataSettings(corpus=(one, replace(one, target_language="de"))),
            AdaptationSettings(initial_model=trained / "run"),
            "the initial model in .* has one",
        ),
    ]
    for data, adapted, message in cases:
        with pytest.raises(DragomanError, match=message):
            pairs_of_model(replace(recipe, data=data, adaptation=adapted))


def test_an_adapted_model_translates_into_all_languages(command_line, trained_pairs, tmp_path):
    paths = map(str, write_pair(tmp_path, "new", "fr", 60, 7))
    status, _, error = command_line(
        "train", "--pair", "es-fr", *paths, "--initial-model", str(trained_pairs / "run"), "--updates", "2",
        "--out", str(tmp_path / "adapted"), "--peak-rate", "1e-6",
    )  # fmt: skip
    assert status == 0, error
    adapted = Translator.load(tmp_path / "adapted")
    assert [pair.name for pair in adapted.pairs] == ["en-de", "en-fr", "es-fr"]
    for language, spell in SPELLING.items():
        assert adapted.translate("amber birch", target_language=language) == spell("amber birch")
    result = json.loads((tmp_path / "adapted" / "result.json").read_text())
    assert result["validation"]["bleu"] == result["validation"]["es-fr_bleu"] > 50


# ---- the server


@pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput")
@pytest.mark.parametrize("on_demand", [False, True])
def test_a_server_lists_and_translates_each_pair(trained_pairs, on_demand):
    loaded = load_models([trained_pairs / "run"], EngineSettings(), on_demand=on_demand)
    service = Service(loaded, ServerSettings(max_memory=loaded.models[0].size, cache_bytes=10**6), Metrics())
    app, text = make_app(service, None), "amber birch cedar"
    requests = []
    for code in SPELLING:
        requests += [
            ("/v1/translate", {"text": text, "source": "en", "target": code}),
            ("/v1/translate", {"text": text, "model": "run", "target": code}),
            ("/v1/translate", {"text": text, "model": f"run:en-{code}"}),
            ("/translate", {"q": text, "source": "en", "target": code}),
            ("/v2/translate", {"text": [text], "target_lang": code.upper()}),
        ]
    for (_, body), found in zip(requests, answers(app, *requests, *requests), strict=False):
        assert found.status_code == 200, found.text
        code = (body.get("target") or body.get("target_lang") or body["model"][-2:]).lower()
        assert SPELLING[code](text) in found.text
    listed, models = answers(app, ("/languages", None), ("/v1/models", None))
    assert sorted(next(one for one in listed.json() if one["code"] == "en")["targets"]) == ["de", "fr"]
    pairs = [(model["name"], model["source"], model["target"]) for model in models.json()["models"]]
    assert pairs == [("run:en-de", "en", "de"), ("run:en-fr", "en", "fr")]
    (wrong,) = answers(app, ("/v1/translate", {"text": text, "model": "run", "target": "it"}))
    assert wrong.status_code == 400


def test_reloading_keeps_the_model_and_its_memory(trained_pairs):
    former = load_models([trained_pairs / "run"], EngineSettings())
    new = load_models([trained_pairs / "run"], EngineSettings(), former)
    backends = {model.translator.native_backend or model.translator.torch_backend for model in new.models}
    assert len(backends) == 1
    assert backends == {
        former.models[0].translator.native_backend or former.models[0].translator.torch_backend
    }
    assert replace(new, models=new.models[1:]).permitted(("run",), ()).models == new.models[1:]


# ---- other verbs


def test_a_student_learns_one_pair_of_its_teacher(trained_pairs, tmp_path):
    text = tmp_path / "text.en"
    text.write_text("amber birch\ncedar delta\n")
    student = student_recipe(trained_pairs / "run", text, tmp_path / "out", "tiny", "fr")
    assert student.data.languages == Languages("en", "fr")
    assert student.data.valid_source == trained_pairs / "run" / "data" / "en-fr" / "valid.source.txt"
    write_distilled(Distillation((trained_pairs / "run",), text, target_language="fr"), tmp_path)
    assert (tmp_path / "distilled.txt").read_text() == "Amber Birch\nCedar Delta\n"
    with pytest.raises(DragomanError, match="none of these languages is chosen"):
        student_recipe(trained_pairs / "run", text, tmp_path / "out", "tiny")
    with pytest.raises(DragomanError, match="choose preset student"):
        student_recipe(trained_pairs / "run", text, tmp_path / "out", "shallow", "de")


def test_an_inspection_shows_the_symbol_and_aligns_the_words(several):
    translator = several.into("fr")
    inspection = inspect(translator, "amber birch cedar", SearchSettings())
    assert inspection.source[:2] == ("<2fr>", "▁amber")
    assert inspection.source_words[:4] == (0, 1, 2, 3)
    assert {source for source, _ in inspection.alignment} <= {1, 2, 3}
    assert inspection.translation == "Amber Birch Cedar"


def test_verbs_know_the_pair(command_line, trained_pairs, tmp_path):
    folder, run_folder = trained_pairs, str(trained_pairs / "run")
    files = ["-s", str(folder / "test.en"), "-t", str(folder / "test.fr")]
    status, out, error = command_line("evaluate", run_folder, "--to", "fr", *files)
    assert (status, out.startswith("BLEU = ")) == (0, True), error
    for verb in ("score", "align"):
        status, out, error = command_line(verb, run_folder, "--to", "fr", *files)
        assert (status, out.count("\n")) == (0, 12), error
        status, _, error = command_line(verb, run_folder, *files)
        assert (status, "give --to de" in error) == (2, True)
    text, out_folder = tmp_path / "mono.en", str(tmp_path / "bt")
    text.write_text("amber birch\n")
    status, _, error = command_line("backtranslate", run_folder, str(text), "--to", "fr", "--out", out_folder)
    assert (status, (tmp_path / "bt" / "mono.fr").read_text()) == (0, "Amber Birch\n"), error
    status, out, _ = command_line("runs", str(folder))
    assert "en → de" in out
    assert "fr" in out
    status, _, error = command_line("export", run_folder, "--to", "onnx", "--out", str(tmp_path / "onnx"))
    assert (status, "by symbols before its sources" in error) == (2, True)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "".join(
            f'[[data.corpus]]\nsource = "{folder}/{name}.en"\ntarget = "{folder}/{name}.{code}"\n'
            f'source_language = "en"\ntarget_language = "{code}"\n'
            for name, code in (("a", "de"), ("b", "fr"))
        )
    )
    _, out, _ = command_line("doctor", str(recipe))
    assert "Corpus 2" in out
