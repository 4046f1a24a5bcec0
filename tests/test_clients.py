"""Unmodified clients of LibreTranslate and DeepL against the server, and requests as programs send them."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import deepl
import httpx
import libretranslate_aio
import pytest
import uvicorn
from deep_translator import DeeplTranslator, LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslate_aio.exceptions import BadRequestError, ForbiddenError
from libretranslatepy import LibreTranslateAPI

from dragoman import Translator
from dragoman.serving.app import make_app
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.server import listening
from dragoman.serving.service import Service
from dragoman.serving.settings import ServerSettings
from tests.conftest import MAX_SECONDS
from tests.servers import add_key, serving

pytestmark = [
    pytest.mark.filterwarnings("ignore::dragoman.system.errors.LongInput"),
]

CLIENTS = Path(__file__).parent / "clients"
TEXT = "amber birch cedar"
ENGLISH = "The weather was lovely, and so we went for a long walk through the woods."
GERMAN = "Das Wetter war schön, und deshalb gingen wir lange im Wald spazieren."


@pytest.fixture(scope="module")
def translator(trained):
    return Translator.load(trained / "run")


@pytest.fixture(scope="module")
def expected(translator):
    (text,) = translator.translate([TEXT])
    assert text == TEXT.upper()
    return text


def service_of(translator, *pairs, **settings):
    """A service with the translator as the model of each pair of languages."""
    models = [ServedModel("-".join(pair), *pair, translator) for pair in pairs]
    limits = {"port": 0, "deadline": MAX_SECONDS} | settings
    return Service(Models(tuple(models)), ServerSettings(**limits), Metrics())


@contextmanager
def served(service):
    """The address of a server in a thread."""
    app, options = make_app(service, None), service.settings
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with listening(options) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(MAX_SECONDS)


@pytest.fixture(scope="module")
def address(translator):
    with served(service_of(translator, ("en", "de"), ("de", "en"), ("en", "pt-BR"))) as url:
        yield url


@pytest.fixture(scope="module")
def keyed(trained, tmp_path_factory):
    """The address and a key of a real server process. Its model's languages are unknown."""
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    key = add_key(path, "client")
    with serving(trained / "run", "--api-keys", path) as server:
        yield server.address, key
        assert server.process.poll() is None, server.log


@pytest.fixture
def client(address):
    with httpx.Client(base_url=address, timeout=MAX_SECONDS) as connected:
        yield connected


# ---- curl


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_requests_of_the_page_are_answered(address):
    """Short form of tests/test_docs_run.py. tests/test_served_adapters.py has requests with an adapter,
    and tests/test_suggestions.py suggestions.
    """
    page = (CLIENTS.parents[1] / "docs" / "serving.md").read_text("utf-8")
    lines = re.findall(r"^\$ (curl .*)$", page, re.MULTILINE)
    elsewhere = ('"adapter"', "Bearer KEY", "/suggest")
    commands = [line for line in lines if not any(part in line for part in elsewhere)]
    for line in commands:
        own = line.replace("localhost:8000", address).replace("Ein Mann", TEXT.upper())  # known words
        command = shlex.split(own)
        ran = subprocess.run([*command, "--fail-with-body", "--silent"], capture_output=True, check=False)
        assert ran.returncode == 0, (line, ran.stdout)
        assert ran.stdout
    assert len(commands) > 7


# ---- clients of LibreTranslate


@pytest.mark.long
def test_libretranslatepy(address, keyed, expected):
    api = LibreTranslateAPI(address)
    assert api.translate(TEXT, "en", "de") == expected
    assert api.translate(TEXT, "auto", "pt-BR") == expected
    assert {each["code"]: each["targets"] for each in api.languages()} == {
        "en": ["de", "pt-BR"],
        "de": ["en", "pt-BR"],
        "pt-BR": [],
    }
    assert api.detect(GERMAN)[0]["language"] == "de"
    assert api.detect("123")[0] == {"language": "en", "confidence": 0.0}
    assert LibreTranslateAPI(*keyed).translate(TEXT, "en", "es") == expected
    with pytest.raises(Exception, match="403"):
        LibreTranslateAPI(keyed[0]).translate(TEXT, "en", "es")


def test_deep_translator_for_libretranslate(address, keyed, expected):
    other = LibreTranslator(source="en", target="de", api_key="any", custom_url=address + "/")
    assert other.translate(TEXT) == expected
    assert other.translate_batch([TEXT, TEXT]) == [expected] * 2
    wrong = LibreTranslator(source="en", target="it", api_key="any", custom_url=address + "/")
    with pytest.raises(ServerException):
        wrong.translate(TEXT)
    url, key = keyed
    assert LibreTranslator(api_key=key, custom_url=url + "/").translate(TEXT) == expected
    with pytest.raises(AuthorizationException):
        LibreTranslator(api_key="wrong", custom_url=url + "/").translate(TEXT)


@pytest.mark.long
def test_libretranslate_aio(address, keyed, expected):
    with libretranslate_aio.LibreTranslate(address, timeout=MAX_SECONDS) as client:
        one = client.translate(TEXT, "en", "de")
        assert (one.translated_text, one.detected_language, one.alternatives) == (expected, None, None)
        many = client.translate([ENGLISH, ENGLISH], "auto", "de", alternatives=2)
        assert [each.language for each in many.detected_language] == ["en", "en"]
        assert all(50 < each.confidence <= 100 for each in many.detected_language)
        for text, others in zip(many.translated_text, many.alternatives, strict=True):
            assert len({text, *others}) == len(others) + 1 <= 3
        markup = client.translate(f"<p>{TEXT}</p>", "en", "de", format="html")
        assert markup.translated_text == f"<p>{expected}</p>"
        assert client.detect(GERMAN)[0].language == "de"
        assert {each.code: each.targets for each in client.languages()}["de"] == ["en", "pt-BR"]
        settings = client.frontend_settings()
        assert (settings.language.source.code, settings.suggestions) == ("auto", False)
        assert client.health()
        with pytest.raises(ForbiddenError, match="Suggestions are disabled"):
            client.suggest("amber", "AMBER", "en", "de")
        with pytest.raises(BadRequestError, match="xx is not supported"):
            client.translate(TEXT, "en", "xx")

    async def translate():
        async with libretranslate_aio.AsyncLibreTranslate(keyed[0], api_key=keyed[1]) as client:
            return await client.translate(TEXT, "en", "de")

    assert asyncio.run(translate()).translated_text == expected


# ---- clients of DeepL


def test_deepl(address, expected):
    client = deepl.DeepLClient("any", server_url=address)
    one = client.translate_text(TEXT, target_lang="DE", source_lang="EN")
    assert (one.text, one.detected_source_lang, one.billed_characters) == (expected, "EN", len(TEXT))
    many = client.translate_text([TEXT, "", " "], source_lang="en", target_lang="pt-BR")
    assert [each.text for each in many] == [expected, "", " "]
    assert client.translate_text(GERMAN, target_lang="EN-US").detected_source_lang == "DE"
    assert [each.code for each in client.get_source_languages()] == ["DE", "EN"]
    targets = {each.code: each.supports_formality for each in client.get_target_languages()}
    assert targets == dict.fromkeys(("DE", "EN-GB", "EN-US", "PT-BR"), False)
    usage = client.get_usage()
    assert usage.character.count > 0
    assert not usage.any_limit_reached


def test_markup_by_deepl(address, expected):
    client = deepl.DeepLClient("any", server_url=address)
    options = {"source_lang": "EN", "target_lang": "DE"}
    found = client.translate_text(f"<p>{TEXT}</p>\n<code>heath</code>", tag_handling="html", **options)
    assert found.text == f"<p>{expected}</p>\n<code>heath</code>"
    found = client.translate_text(
        f"<a>{TEXT}</a><x>heath</x>",
        tag_handling="xml",
        ignore_tags=["x", "y"],
        splitting_tags="a",
        **options,
    )
    assert found.text == f"<a>{expected}</a><x>heath</x>"


def test_deepl_raises_for_what_this_server_has_not(address):
    client = deepl.DeepLClient("any", server_url=address)
    assert client.get_glossary_languages() == []
    assert client.list_glossaries() == []
    assert client.list_multilingual_glossaries() == []
    options = {"source_lang": "EN", "target_lang": "DE"}
    for call, message in (
        (client.get_all_style_rules, "does not support /v3/style_rules"),
        (lambda: client.rephrase_text(TEXT), "does not support /v2/write/rephrase"),
        (lambda: client.translate_text(TEXT, formality="more", **options), "'formality' is not supported"),
        (lambda: client.translate_text(TEXT, glossary="1", **options), "no glossary '1'.* without --gloss"),
        (lambda: client.translate_text(TEXT, glossary_ids=["1"], **options), "'glossary_ids' not supported"),
        (lambda: client.translate_text(TEXT, custom_instructions=["x"], **options), "custom_instructions"),
        (lambda: client.translate_text(TEXT, outline_detection=False, **options), "outline_detection"),
        (lambda: client.translate_text([TEXT] * 51, **options), "51 texts; 50 are allowed"),
        (lambda: client.translate_text([], **options), "Parameter 'text' not specified"),
        (lambda: client.translate_text(TEXT, target_lang="FR"), "Value for 'target_lang' not supported"),
        (
            lambda: client.translate_text(TEXT, source_lang="FR", target_lang="DE"),
            "Value for 'source_lang' not supported.*EN to DE",
        ),
    ):
        with pytest.raises(deepl.DeepLException, match=message) as error:
            call()
        assert error.value.http_status_code == 400
    with pytest.raises(deepl.AuthorizationException, match="started without --glossaries"):
        client.create_glossary("words", "EN", "DE", {"amber": "x"})
    with pytest.raises(deepl.GlossaryNotFoundException, match="started without --glossaries"):
        client.get_multilingual_glossary("1")


@pytest.mark.long
def test_deepl_with_keys(keyed, expected):
    url, key = keyed
    assert deepl.DeepLClient(key, server_url=url).translate_text(TEXT, target_lang="FR").text == expected
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=url).translate_text(TEXT, target_lang="FR")


@pytest.mark.long
def test_deepl_tries_again_after_429(translator):
    service = service_of(translator, ("en", "de"), requests_per_minute=60)
    with served(service) as url:
        client = deepl.DeepLClient("any", server_url=url)
        with httpx.Client(base_url=url, timeout=MAX_SECONDS) as other:
            while other.get("/v2/usage").status_code != 429:
                pass
        assert client.get_usage().character.count == 0
    assert service.metrics.refused["rate_limit"] > 1  # the other's last request, and the first of this client


def test_deep_translator_for_deepl(address, keyed, expected):
    for url, key, target in ((address, "any", "de"), (*keyed, "fr")):
        client = DeeplTranslator(source="en", target=target, api_key=key)
        client._base_url = url + "/v2/"
        assert client.translate(TEXT) == expected
    client.api_key = "wrong"
    with pytest.raises(AuthorizationException):
        client.translate(TEXT)


# ---- requests as programs send them, and what they read of the answers


def test_mastodon_with_libretranslate(client, expected):
    """app/lib/translation_service/libre_translate.rb"""
    languages = {each["code"]: each["targets"] for each in client.get("/languages").json()}
    assert languages["en"] == ["de", "pt-BR"]
    post = '<p>amber <a href="https://example.org/@heath">@heath</a> birch</p><p>amber birch cedar</p>'
    for source, detected in (("en", None), ("auto", "en")):
        request = {
            "q": [post, ENGLISH, ""],
            "source": source,
            "target": "de",
            "format": "html",
            "api_key": None,
        }
        answer = client.post(
            "/translate", content=json.dumps(request), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        data = answer.json()
        assert len(data["translatedText"]) == 3
        assert data["translatedText"][0].startswith("<p>")
        assert 'href="https://example.org/@heath"' in data["translatedText"][0]
        assert data["translatedText"][0].endswith(f"<p>{expected}</p>")
        assert data["translatedText"][2] == ""
        found = [each["language"] for each in data["detectedLanguage"]] if detected else None
        assert found == ([detected] * 3 if detected else None)
        assert ("detectedLanguage" in data) == (detected is not None)


@pytest.mark.parametrize("source", ["source_lang=EN", "source_lang"])
def test_mastodon_with_deepl(client, translator, expected, source):
    """app/lib/translation_service/deepl.rb; URI.encode_www_form writes a missing value without =."""
    key = {"Authorization": "DeepL-Auth-Key any"}
    for kind in ("source", "target"):
        languages = client.get(f"/v2/languages?type={kind}", headers=key).json()
        assert all(each["language"] for each in languages)
    answer = client.post(
        "/v2/translate",
        content=f"text=%3Cp%3Eamber+birch+cedar%3C%2Fp%3E&text=heath&{source}&target_lang=de&tag_handling=html",
        headers={**key, "Content-Type": "application/x-www-form-urlencoded"},
    )
    found = answer.json()["translations"]
    assert [each["text"] for each in found] == [f"<p>{expected}</p>", *translator.translate(["heath"])]
    assert [each["detected_source_language"].lower() for each in found] == ["en", "en"]


def test_weblate_with_libretranslate(client, keyed, expected):
    """weblate/machinery/libretranslate.py: the codes of /languages, without a key, have both languages."""
    assert {"en", "pt-BR"} <= {each["code"] for each in client.get("/languages").json()}
    request = {"api_key": "", "q": [TEXT], "source": "en", "target": "pt_BR"}
    assert client.post("/translate", json=request).json()["translatedText"] == [expected]
    url, key = keyed
    codes = {each["code"] for each in httpx.get(url + "/languages", timeout=MAX_SECONDS).json()}
    assert {"en", "fr"} <= codes
    request = {"api_key": key, "q": TEXT, "source": "en", "target": "fr"}
    answer = httpx.post(url + "/translate", json=request, timeout=MAX_SECONDS)
    assert answer.json()["translatedText"] == expected


def test_weblate_with_deepl(client, expected):
    """weblate/machinery/deepl.py: it asks for glossaries before it translates."""
    key = {"Authorization": "DeepL-Auth-Key any"}
    assert client.get("/v2/glossary-language-pairs", headers=key).json() == {"supported_languages": []}
    sources = {each["language"] for each in client.get("/v2/languages?type=source", headers=key).json()}
    targets = client.get("/v2/languages?type=target&enable_beta_languages=1", headers=key).json()
    assert "EN" in sources
    assert "PT-BR" in {each["language"] for each in targets if not each["supports_formality"]}
    request = {
        "text": ['amber <x id="6"></x> birch &lt; cedar', TEXT],
        "source_lang": "EN",
        "target_lang": "PT-BR",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "context": "A forest.",
        "model_type": "prefer_quality_optimized",
    }
    answer = client.post("/v2/translate", json=request, headers=key)
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["translations"]
    assert first["text"].count('<x id="6"></x>') == 1
    assert second["text"] == expected


# ---- parameters and errors


FORM = {"q": TEXT, "source": "en", "target": "de"}
WRONG = [
    ({}, "Invalid request: missing q parameter"),
    ({"q": "", "source": "en", "target": "de"}, "Invalid request: missing q parameter"),
    ({"q": TEXT, "target": "de"}, "Invalid request: missing source parameter"),
    ({"q": TEXT, "source": "en"}, "Invalid request: missing target parameter"),
    ({**FORM, "source": "xx"}, "xx is not supported"),
    ({**FORM, "target": "xx"}, "xx is not supported"),
    ({**FORM, "target": "auto"}, "auto is not supported"),
    (
        {**FORM, "source": "pt-BR", "target": "de"},
        "German (de) is not available as a target language from Portuguese (Brazil) (pt-BR)",
    ),
    ({**FORM, "format": "pdf"}, "pdf format is not supported"),
    ({**FORM, "alternatives": "x"}, "Invalid request: alternatives parameter is not a number"),
    ({**FORM, "alternatives": "99"}, "Invalid request: alternatives parameter must be <= 15"),
    ({**FORM, "q": [TEXT] * 200}, "Invalid request: request (200) exceeds text limit (128)"),
]


@pytest.mark.parametrize(("request_", "message"), WRONG)
def test_a_wrong_request_gets_libretranslates_words(client, request_, message):
    for form in ({"json": request_}, {"data": request_}):
        answer = client.post("/translate", **form)
        assert (answer.status_code, answer.json()) == (400, {"error": message})


@pytest.mark.parametrize(
    ("path", "status"),
    [("/suggest", 403), ("/translate_file", 400), ("/download_file/a.txt", 404), ("/detect", 400)],
)
def test_other_routes_of_libretranslate_answer_in_its_form(client, path, status):
    answer = client.get(path) if path.startswith("/download") else client.post(path, data={"source": "en"})
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)


@pytest.mark.parametrize("path", ["/v2/glossaries/1", "/v2/write/correct", "/v3/translation_memories"])
def test_other_routes_of_deepl_answer_in_its_form(client, path):
    answer = client.post(path, data={"document_key": "1"})
    assert answer.status_code == 400
    assert "does not support" in answer.json()["message"]
    assert isinstance(client.get("/v2/nothing").json()["message"], str)
    assert client.get("/v2/languages?type=x").status_code == 400


@pytest.mark.parametrize(
    ("settings", "text", "status"),
    [
        ({"deadline": 0.001}, "amber birch " * 200, 504),
        ({"max_tokens": 500}, "amber " * 900, 413),
        ({"max_body": 9_000}, "amber " * 2_000, 413),
    ],
)
def test_limits_answer_in_the_form_of_each_api(translator, settings, text, status):
    """Statuses of DeepL: https://developers.deepl.com/docs/best-practices/error-handling"""
    with served(service_of(translator, ("en", "de"), **settings)) as url:
        request = {"source": "en", "target": "de", "q": text}
        answer = httpx.post(url + "/translate", json=request, timeout=MAX_SECONDS)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        request = {"target_lang": "DE", "text": [text]}
        answer = httpx.post(url + "/v2/translate", json=request, timeout=MAX_SECONDS)
        assert (answer.status_code, list(answer.json())) == (status, ["message"])


def test_a_server_that_stops_answers_in_the_form_of_each_api(translator):
    service = service_of(translator, ("en", "de"))
    service.is_stopping = True
    with served(service) as url:
        for path, name in (("/translate", "error"), ("/v2/translate", "message")):
            answer = httpx.post(url + path, timeout=MAX_SECONDS)
            assert (answer.status_code, list(answer.json())) == (503, [name])
            assert answer.headers["retry-after"] == "1"


def test_the_closest_model_translates(translator):
    pairs = (("und", "und"), ("en", "pt"), ("en", "pt-BR"), ("en", "de"), ("en", "de-CH"), ("en", "de_AT"))
    models = service_of(translator, *pairs).models
    for source, target, name in (
        ("en", "de-at", "en-de_AT"),
        ("en", "PT_BR", "en-pt-BR"),
        ("en-GB", "pt", "en-pt"),
        ("en", "pt-PT", "en-pt"),
        ("EN", "de", "en-de"),
        ("en", "fr", "und-und"),
        ("", "", "und-und"),
    ):
        assert models.between(source, target).name == name


@pytest.mark.parametrize(
    "codes", [("en", "de"), ("EN-US", "DE"), ("en_GB", "de-AT"), ("En", "PT-br"), ("en", "pb")]
)
def test_codes_with_regions_and_in_either_case(client, codes, expected):
    source, target = codes
    request = {"q": TEXT, "source": source, "target": target}
    assert client.post("/translate", json=request).json() == {"translatedText": expected}
    if target != "pb":
        request = {"text": TEXT, "source_lang": source, "target_lang": target}
        (found,) = client.post("/v2/translate", json=request).json()["translations"]
        assert (found["text"], found["detected_source_language"]) == (expected, "EN")


@pytest.mark.parametrize("form", ["json", "data", "params", "files"])
def test_every_form_of_a_request(client, keyed, expected, form):
    request = {"q": TEXT, "source": "en", "target": "de", "format": "text", "alternatives": "1"}
    other = {"text": TEXT, "target_lang": "DE", "source_lang": "EN"}
    found = client.post("/translate", **formed(form, request)).json()
    assert found["translatedText"] == expected
    assert len(found["alternatives"]) == 1
    found = client.post("/v2/translate", **formed(form, other)).json()
    assert found["translations"][0]["text"] == expected
    url, key = keyed
    for given, status in ((key, 200), ("wrong", 403), ("", 403)):
        sent = formed(form, {**request, "api_key": given})
        answer = httpx.post(url + "/translate", timeout=MAX_SECONDS, **sent)
        assert answer.status_code == status, answer.text
        assert ("error" in answer.json()) == (status == 403)


def formed(form, request):
    """A request as JSON, as a form, in the query string or as multipart."""
    return {form: {name: (None, value) for name, value in request.items()} if form == "files" else request}


def test_the_language_of_the_text_chooses_among_models(client):
    for text, target, language in ((ENGLISH, "de", "en"), (GERMAN, "en", "de"), (ENGLISH, "pt-BR", "en")):
        answer = client.post("/translate", data={"q": text, "source": "auto", "target": target}).json()
        assert answer["detectedLanguage"]["language"] == language
    with_blanks = client.post("/translate", data={"q": " \n", "source": "auto", "target": "de"}).json()
    assert with_blanks["translatedText"] == " \n"
    assert with_blanks["detectedLanguage"]["confidence"] == 0.0


def test_models_of_unknown_languages_serve_clients_that_look_for_theirs(keyed):
    url, key = keyed
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=MAX_SECONDS
    ) as client:
        languages = {each["code"]: each["targets"] for each in client.get("/languages").json()}
        assert len(languages) > 150
        assert all(len(code) == 2 for code in languages)
        assert "de" in languages["en"]
        assert "en" not in languages["en"]
        answer = client.post("/translate", json={"q": [GERMAN, "1"], "source": "auto", "target": "en"}).json()
        first, second = answer["detectedLanguage"]
        assert first["language"] == "de"
        assert first["confidence"] > 50
        assert second == {"language": "en", "confidence": 0.0}
        assert client.post("/detect", json={"q": GERMAN}).json()[0]["language"] == "de"
        for source, detected in (("", "DE"), ("PT-BR", "PT")):
            request = {"text": GERMAN, "source_lang": source, "target_lang": "EN-US"}
            (found,) = client.post("/v2/translate", json=request).json()["translations"]
            assert found["detected_source_language"] == detected
        targets = {each["language"] for each in client.get("/v2/languages?type=target").json()}
        assert {"EN-US", "PT-BR", "DE"} <= targets
        assert not {"UND", "EN"} & targets


# ---- npm


@pytest.mark.long
def test_clients_of_npm(address, translator, expected):
    """Needs `npm ci` in tests/clients."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (CLIENTS / "node_modules").is_dir():
        pytest.skip("the clients of npm are not installed: npm ci --prefix tests/clients")
    ran = subprocess.run(
        ["node", CLIENTS / "clients.mjs", address, "any"],
        check=False,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["libretranslate"] == found["libretranslate_detected"] == expected
    assert "This language was not found" in found["libretranslate_unknown"]
    assert found["deepl"]["text"] == expected
    assert found["deepl"]["detectedSourceLang"] == "en"
    assert found["deepl"]["billedCharacters"] == len(TEXT)
    assert [each["text"] for each in found["deepl_list"]] == [expected, " ", *translator.translate(["heath"])]
    assert '<x id="1"></x>' in found["deepl_xml"]["text"]
    assert found["deepl_sources"] == ["de", "en"]
    assert found["deepl_targets"] == ["de", "en-GB", "en-US", "pt-BR"]
    assert found["deepl_limit_reached"] is False
    assert found["deepl_glossary_pairs"] == []
    assert "started without --glossaries" in found["deepl_glossary"]
    assert "'formality' is not supported" in found["deepl_formality"]
    assert "Value for 'target_lang' not supported" in found["deepl_unknown"]
    assert "does not support /v2/write/rephrase" in found["deepl_wrong_server"]
