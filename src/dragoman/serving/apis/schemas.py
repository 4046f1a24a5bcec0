"""The types of the requests and responses of /v1."""

import dataclasses
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from dragoman.documents.terms import MAX_TERM
from dragoman.inspection.analyse.changes import GRAMMAR
from dragoman.search.settings import SearchSettings
from dragoman.serving.glossaries import MAX_GLOSSARIES, MAX_NAME
from dragoman.serving.service import MAX_TERMS
from dragoman.system.docs import field_docs
from dragoman.text.settings import UNKNOWN_LANGUAGE

GLOSSARY = (
    "The id or the name of a glossary of /v1/glossaries, whose terms the translation uses; or up to "
    f"{MAX_GLOSSARIES}, of which the first that has a term counts."
)
MAX_LISTED = 500  # terms of a glossary in one answer
SERVER_DECIDES = ("batch_tokens",)  # settings of a search that requests do not have
Text = Annotated[str, Field(max_length=1_000_000)]
Texts = Annotated[list[Text], Field(fail_fast=True)]
"""It is refused at its first wrong item: the errors of a long list would take seconds."""


Pair = Annotated[list[Annotated[str, Field(max_length=MAX_TERM)]], Field(min_length=2, max_length=2)]
Pairs = Annotated[list[Pair], Field(fail_fast=True)]
Name = Annotated[str, Field(max_length=MAX_NAME)]
Glossaries = Name | Annotated[list[Name], Field(max_length=MAX_GLOSSARIES)]


class Strict(BaseModel):
    """A body without unknown fields and without conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def search_fields() -> dict[str, Any]:
    """The settings of a search as fields of a request: same names, types, defaults and descriptions."""
    hints, docs = get_type_hints(SearchSettings), field_docs(SearchSettings)
    return {
        field.name: (
            {tuple[str, ...]: Texts, str: Text}.get(hints[field.name], hints[field.name]),
            Field(default_factory=list, description=docs[field.name])
            if field.default == ()
            else Field(field.default, description=docs[field.name]),
        )
        for field in dataclasses.fields(SearchSettings)
        if field.name not in SERVER_DECIDES
    }


class Choice(Strict):
    """Which model translates."""

    source: str = Field("", max_length=35, description="Language code of the text; `auto` identifies it.")
    target: str = Field("", max_length=35, description="Language code of the translation.")
    model: str = Field(
        "",
        max_length=200,
        description="The name of a model. Languages that are given too must be its own. Without a model and "
        "without languages, the first model of the server translates.",
    )
    adapter: str = Field("", max_length=200, description="The name of one of the model's adapters.")


Search: type[Choice] = create_model("Search", __base__=Choice, **search_fields())


class TermsRequest(Search):  # type: ignore[valid-type, misc]
    """How to translate, and with which terms."""

    glossary: Glossaries = Field("", description=GLOSSARY)
    terms: Pairs = Field(
        [],
        max_length=MAX_TERMS,
        description="Terms, each with its translation. They come before those of a glossary.",
    )


class TranslateRequest(TermsRequest):
    """A text or several, and how to translate them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "A man rides a bike."},
                {"text": "A man rides a bike.", "terms": [["bike", "Fahrrad"]]},
                {"text": ["One.", "Two."], "source": "en", "target": "de", "beam_size": 1, "alignment": True},
            ]
        }
    )

    text: Text | Texts = Field(description="A text of any number of paragraphs, or a list of texts.")
    format: Literal["text", "html"] = "text"
    split_sentences: bool = Field(True, description="Cut paragraphs into sentences.")
    alignment: bool = Field(False, description="Add the word alignment of each sentence.")
    attention: bool = Field(False, description="Add the attention weights of each sentence.")


class Candidate(BaseModel):
    """One translation of a sentence."""

    text: str
    log_probability: float = Field(description="In nats.")
    score: float = Field(description="What the search ranks by: log-probability over length penalty.")
    tokens: list[str]


class Sentence(Candidate):
    """A sentence with its best translation, and the n best."""

    source: str
    n_best: list[Candidate]
    source_start: int | None = Field(None, description="Where it begins in the source, in characters.")
    source_end: int | None = None
    start: int | None = Field(None, description="Where its translation begins in the whole one.")
    end: int | None = None
    alignment: list[tuple[int, int]] | None = Field(
        None, description="Pairs of word numbers (source, target), counted from 0."
    )
    attention: dict[str, Any] | None = Field(
        None, description="Tokens of both sides, and weights as [layer][head][query][key]."
    )
    pivot_text: str | None = Field(
        None, description="If the answer has a `pivot`: the sentence in that language, as it was translated."
    )


class TranslatedText(BaseModel):
    """The translation of one text."""

    text: str
    sentences: list[Sentence]
    unused_terms: list[tuple[str, str]] = Field(
        default=[],
        description="With a glossary or terms: those of the text that its translation does not use.",
    )


class TranslateResponse(BaseModel):
    """The translations, in the order of the texts."""

    model: str
    source: str
    target: str
    adapter: str = Field("", description="The adapter that the request asked for.")
    pivot: str = Field(
        default="",
        description="The language through which the text was translated: no model has both languages.",
    )
    translations: list[TranslatedText]


class DictionaryDescription(BaseModel):
    """The terms of a glossary from a language into another."""

    source: str
    target: str
    terms: int = Field(description="Their number.")


class GlossaryDescription(BaseModel):
    """A glossary that a request can name."""

    id: str
    name: str
    read_only: bool = Field(description="Whether it is the server's own.")
    dictionaries: list[DictionaryDescription]


class GlossariesResponse(BaseModel):
    """The server's glossaries, and those made with the key of the request."""

    glossaries: list[GlossaryDescription]


class GlossaryTermsRequest(Strict):
    """Which terms of a glossary, in the query string."""

    model_config = ConfigDict(strict=False)

    source: str = Field(
        UNKNOWN_LANGUAGE, max_length=35, description="Language code of the terms; `und` is any language."
    )
    target: str = Field(
        UNKNOWN_LANGUAGE, max_length=35, description="Language code of their translations; `und` is any."
    )
    start: int = Field(0, ge=0, description="The number of the first one, counted from 0.")
    count: int = Field(100, ge=1, le=MAX_LISTED)


class GlossaryTermsResponse(BaseModel):
    """Terms of a glossary, in order."""

    terms_total: int
    terms: list[Pair] = Field(description="Each with its translation.")


class AlternativesRequest(TermsRequest):
    """A sentence, and the beginning of its translation (`prefix`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "A man rides a bike.", "prefix": "Ein Mann", "count": 5}]}
    )
    text: Text
    count: int = Field(8, ge=1, le=100)


class InspectRequest(Search):  # type: ignore[valid-type, misc]
    """A sentence, and how to translate it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "A man rides a bike."},
                {"text": "A man rides a bike.", "changes": ["cross.1.2=off", "beam_size=1"]},
                {"text": "A man rides a bike.", "attribution": True, "contrast": True},
            ]
        }
    )
    text: Text
    changes: Annotated[list[Annotated[str, Field(max_length=500)]], Field(fail_fast=True)] = Field(
        [], max_length=1_000, description=f"Changes to the model, its input or the search. {GRAMMAR}"
    )
    heads: bool = Field(
        False, description="Whether to add the effect of each head on the translation's log-probability."
    )
    attribution: bool = Field(
        False, description="Whether to add what each source token contributes to each target token."
    )
    contrast: bool = Field(
        False,
        description="With `attribution`: why this token and not another. The log-probability of each target "
        "token minus that of the likeliest other token after the same tokens is attributed.",
    )
    target_tokens: bool = Field(
        False, description="With `attribution`: also attribute to the target tokens before each one."
    )
    value_zeroing: bool = Field(
        False, description="Whether to add how much each attention mixes each token into the others."
    )


class ScoreRequest(Choice):
    """Pairs of a text and a translation."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"pairs": [["A man rides a bike.", "Ein Mann fährt Rad."]]}]}
    )
    pairs: Annotated[list[Annotated[Texts, Field(min_length=2, max_length=2)]], Field(fail_fast=True)]


class ModelDescription(BaseModel):
    """A model that is served."""

    name: str
    source: str = Field(description="Language code of the texts; `und` if it is unknown.")
    target: str = Field(description="Language code of the translations.")
    source_name: str = Field(
        description="Its English name; of an unknown one the ending of the training file, as `Spelling`."
    )
    target_name: str
    architecture: str
    parameters: int = Field(description="Number of parameters; tied weights count once.")
    precision: str = Field(description="Of the weights that translate.")
    adapters: list[str] = Field(description="Names that a request can give as `adapter`.")
    example: str = Field(
        description="A sentence of the run's validation text; empty if the server does not show any."
    )
    scripts: list[str] = Field(
        description="ISO 15924 codes of the scripts that it has learnt to read; none if that is unknown."
    )
    reads_capitals: bool = Field(description="Whether it has learnt to read texts in capitals.")


class PivotDescription(BaseModel):
    """Two languages, and the third one through which texts are translated between them."""

    source: str
    target: str
    pivot: str
    source_name: str
    target_name: str


class ModelsResponse(BaseModel):
    """All models."""

    models: list[ModelDescription]
    pivots: list[PivotDescription] = Field(description="The pairs of languages that no model has.")
    max_n_best: int = Field(description="The largest `n_best`, with a `beam_size` of as many.")
    has_docs: bool = Field(description="Whether /docs describes the APIs.")


class Alternative(BaseModel):
    """A token that can come after the prefix, and the best translation that begins with both."""

    token: str
    text: str
    log_probability: float | None = Field(description="Of the token, in nats; null for probability 0.")
    score: float = Field(description="Of the translation: log-probability over length penalty.")


class AlternativesResponse(BaseModel):
    """The likeliest tokens, the likeliest first."""

    alternatives: list[Alternative]


class TokenScore(BaseModel):
    """A token of a given translation."""

    token: str
    log_probability: float = Field(description="In nats, after the tokens before it.")


class Score(BaseModel):
    """The score of a given translation."""

    log_probability: float = Field(description="In nats: the sum over its tokens.")
    tokens: list[TokenScore]


class ScoreResponse(BaseModel):
    """The scores, in the order of the pairs."""

    scores: list[Score]
