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
        self.tokens = Counter(
            "dragoman_tokens", "Tokens of translated sentences.", ["side"], registry=self.registry
        )
        self.queue = Gauge(
            "dragoman_queue_tokens", "Source tokens that are being translated.", registry=self.registry
        )
        self.running = Gauge(
            "dragoman_running_requests", "Requests that are being translated.", registry=self.registry
        )
        self.refused = Counter(
            "dragoman_refused", "Requests without a translation, by code.", ["code"], registry=self.registry
        )

    def text(self) -> bytes:
        """All metrics in the format of Prometheus."""
        return generate_latest(self.registry)
