"""What a hub process counts. No label names a tenant or a workspace: the metrics tell nothing of them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


class HubMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("handhold_hub_requests", "Requests", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "handhold_hub_request_seconds", "Time to answer", ["route"], registry=self.registry, buckets=SECONDS_BUCKETS
        )
        self.records = Counter("handhold_hub_records", "Records acknowledged", registry=self.registry)
        self.record_bytes = Counter("handhold_hub_record_bytes", "Bytes of these records", registry=self.registry)
        self.contents = Counter("handhold_hub_contents", "Contents stored", registry=self.registry)
        self.content_bytes = Counter("handhold_hub_content_bytes", "Bytes of these contents", registry=self.registry)
        self.refused = Counter("handhold_hub_refused_batches", "Batches refused", ["reason"], registry=self.registry)
        self.lag = Histogram(
            "handhold_hub_lag_records",
            "Records that a sandbox had not sent yet, at each batch",
            registry=self.registry,
            buckets=LAG_BUCKETS,
        )
        self.bodies = Gauge("handhold_hub_body_bytes", "Bytes of requests in memory", registry=self.registry)
        for reason in ("gap", "diverged", "quota", "invalid"):  # so that a rate of zero is one
            self.refused.labels(reason)
