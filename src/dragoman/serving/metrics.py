"""Metrics for Prometheus."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

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


class Metrics(Collector):
    """What a server process counts. The event loop alone counts, so numbers need no locks."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """Requests that have been answered, by route and status."""
        self.seconds: defaultdict[str, Seconds] = defaultdict(Seconds)
        """From a request's head to the end of its answer, by route."""
        self.sentences = self.source_tokens = self.target_tokens = 0
        """What has been translated."""
        self.deepl_characters = 0
        """Of the sources that DeepL's API has translated."""
        self.refused: Counter[str] = Counter()
        """Requests without a translation, by code."""
        self.gauges: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Source tokens that are being translated, and requests."""

    def finished(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has been answered."""
        self.requests[route, status] += 1
        self.seconds[route].add(seconds)

    def translated(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """Count sentences that have been translated, and the tokens of both sides."""
        self.sentences += sentences
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for: all metrics."""
        requests = CounterMetricFamily(
            "dragoman_requests", "Requests by route and status.", labels=["route", "status"]
        )
        for (route, status), count in self.requests.items():
            requests.add_metric([route, str(status)], count)
        yield requests
        seconds = HistogramMetricFamily(
            "dragoman_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            labels=["route"],
        )
        for route, histogram in self.seconds.items():
            seconds.add_metric(
                [route],
                list(zip(LABELS, map(float, accumulate(histogram.counts)), strict=True)),
                histogram.total,
            )
        yield seconds
        yield CounterMetricFamily("dragoman_sentences", "Sentences translated.", self.sentences)
        tokens = CounterMetricFamily("dragoman_tokens", "Tokens of translated sentences.", labels=["side"])
        tokens.add_metric(["source"], self.source_tokens)
        tokens.add_metric(["target"], self.target_tokens)
        yield tokens
        queue, running = self.gauges()
        yield GaugeMetricFamily("dragoman_queue_tokens", "Source tokens that are being translated.", queue)
        yield GaugeMetricFamily("dragoman_running_requests", "Requests that are being translated.", running)
        refused = CounterMetricFamily(
            "dragoman_refused", "Requests without a translation, by code.", labels=["code"]
        )
        for code, count in self.refused.items():
            refused.add_metric([code], count)
        yield refused

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)
