"""Metrics for Prometheus.

Each process of a server counts for itself, without locks or files. One that is asked for the metrics asks the
others, and `merged` joins what they say.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from dragoman import __version__
from dragoman.serving.errors import CODES

BOUNDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Of the histogram's buckets, in seconds."""
LABELS = (*map(str, BOUNDS), "+Inf")


@dataclass
class Seconds:
    """A histogram of seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    """By bucket."""
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a request that took `seconds`."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass
class Translated:
    """What a model has translated."""

    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0


class Metrics(Collector):
    """What a server process counts. The event loop alone counts, so numbers need no locks."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int, str]] = Counter()
        """Requests that have been answered, by route, status and model; "" if none was chosen."""
        self.seconds: defaultdict[tuple[str, str], Seconds] = defaultdict(Seconds)
        """From a request's head to the end of its answer, by route and model."""
        self.translated: defaultdict[tuple[str, str], Translated] = defaultdict(Translated)
        """By model and adapter; "" if it has none."""
        self.deepl_characters = 0
        """Of the sources that DeepL's API has translated."""
        self.refused: Counter[str] = Counter()
        """Requests without a translation, by code."""
        self.refused_connections: Counter[str] = Counter()
        """Connections that were answered without reading a request, by status."""
        self.cached: Counter[str] = Counter()
        """Requests for a translation by what the cache had for them: "hit" or "miss"."""
        self.gauges: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Source tokens that are being translated, and requests."""
        self.connections: Callable[[], int] = lambda: 0
        """Open connections."""
        self.cache_bytes: Callable[[], int] = lambda: 0
        """Memory of the answers that are kept."""

    def finished(self, route: str, status: int, seconds: float, model: str = "") -> None:
        """Count a request that has been answered."""
        self.requests[route, status, model] += 1
        self.seconds[route, model].add(seconds)

    def count_translated(
        self, model: str, adapter: str, sentences: int, source_tokens: int, target_tokens: int
    ) -> None:
        """Count sentences that a model has translated, and the tokens of both sides."""
        counts = self.translated[model, adapter]
        counts.sentences += sentences
        counts.source_tokens += source_tokens
        counts.target_tokens += target_tokens

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for: all metrics."""
        yield InfoMetricFamily("dragoman_build", "The version of Dragoman.", {"version": __version__})
        yield from self._requests()
        yield from self._translations()
        queue, running = self.gauges()
        yield GaugeMetricFamily("dragoman_queue_tokens", "Source tokens that are being translated.", queue)
        yield GaugeMetricFamily("dragoman_running_requests", "Requests that are being translated.", running)
        yield GaugeMetricFamily("dragoman_connections", "Open connections.", self.connections())
        # Those that can come begin at 0: Prometheus does not see the first step of a series otherwise.
        refused = dict.fromkeys(CODES.values(), 0) | self.refused
        yield counter("dragoman_refused", "Requests without a translation, by code.", "code", refused)
        yield counter(
            "dragoman_refused_connections",
            "Connections that were answered without reading a request, by status.",
            "status",
            dict.fromkeys(("400", "408", "431", "503"), 0) | self.refused_connections,
        )
        yield counter(
            "dragoman_cache",
            "Translations that the cache had (hit) or had not (miss).",
            "result",
            {"hit": 0, "miss": 0} | self.cached,
        )
        yield GaugeMetricFamily("dragoman_cache_bytes", "Memory of the cached answers.", self.cache_bytes())

    def _requests(self) -> Iterator[Metric]:
        """The requests and their times."""
        requests = CounterMetricFamily(
            "dragoman_requests", "Requests by route, status and model.", labels=["route", "status", "model"]
        )
        for (route, status, model), count in self.requests.items():
            requests.add_metric([route, str(status), model], count)
        yield requests
        seconds = HistogramMetricFamily(
            "dragoman_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            labels=["route", "model"],
        )
        for (route, model), histogram in self.seconds.items():
            seconds.add_metric(
                [route, model],
                list(zip(LABELS, map(float, accumulate(histogram.counts)), strict=True)),
                histogram.total,
            )
        yield seconds

    def _translations(self) -> Iterator[Metric]:
        """What the models have translated."""
        sentences = CounterMetricFamily(
            "dragoman_sentences", "Sentences translated.", labels=["model", "adapter"]
        )
        tokens = CounterMetricFamily(
            "dragoman_tokens", "Tokens of translated sentences.", labels=["model", "adapter", "side"]
        )
        for (model, adapter), counts in self.translated.items():
            sentences.add_metric([model, adapter], counts.sentences)
            tokens.add_metric([model, adapter, "source"], counts.source_tokens)
            tokens.add_metric([model, adapter, "target"], counts.target_tokens)
        yield from (sentences, tokens)

    def text(self) -> bytes:
        """All metrics of this process in the format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)  # memory, processor time, open files
        return generate_latest(registry)


def counter(name: str, documentation: str, label: str, counts: Mapping[str, int]) -> Metric:
    """A counter with a label."""
    family = CounterMetricFamily(name, documentation, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


@dataclass(frozen=True)
class Families(Collector):
    """Metrics that have been collected."""

    families: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        """These metrics."""
        return self.families


def merged(texts: Mapping[int, str]) -> bytes:
    """The metrics of several processes as one text; the label `process` has the number of each."""
    families: dict[str, Metric] = {}
    for process, text in sorted(texts.items()):
        for family in text_string_to_metric_families(text):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            known.samples += [
                sample._replace(labels={**sample.labels, "process": str(process)})
                for sample in family.samples
            ]
    return generate_latest(Families(families.values()))
