"""Metrics for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0)


class Metrics:
    """What a server process counts. Each process has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dragoman_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "dragoman_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.sentences = Counter("dragoman_sentences", "Sentences translated.", registry=self.registry)
        tokens = Counter(
            "dragoman_tokens", "Tokens of translated sentences.", ["side"], registry=self.registry
        )
        self.source_tokens, self.target_tokens = tokens.labels("source"), tokens.labels("target")
        self.queue = Gauge(
            "dragoman_queue_tokens", "Source tokens that are being translated.", registry=self.registry
        )
        self.running = Gauge(
            "dragoman_running_requests", "Requests that are being translated.", registry=self.registry
        )
        self.refused = Counter(
            "dragoman_refused", "Requests without a translation, by code.", ["code"], registry=self.registry
        )

        self._finished: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def finished(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has been answered."""
        key = route, status
        if key not in self._finished:
            self._finished[key] = self.requests.labels(route, str(status)), self.seconds.labels(route)
        requests, histogram = self._finished[key]
        requests.inc()
        histogram.observe(seconds)

    def translated(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """Count sentences that have been translated, and the tokens of both sides."""
        self.sentences.inc(sentences)
        self.source_tokens.inc(source_tokens)
        self.target_tokens.inc(target_tokens)

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)
