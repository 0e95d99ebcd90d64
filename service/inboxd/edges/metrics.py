"""Metrics: what observe.py counted, as Prometheus reads it. Loaded with the first scrape: most brokers are never asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from inboxd import __version__
from inboxd.edges.observe import BUCKETS_S, Requests, collector_pauses_s


class _Families(Collector):
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def collect(self) -> Iterable[Metric]:
        requests = self._requests
        counts = CounterMetricFamily("inboxd_requests", "Requests answered", labels=["route", "method", "status"])
        for (route, method, status), count in requests.counts.items():
            counts.add_metric([route, method, str(status)], count)
        yield counts
        durations = HistogramMetricFamily(
            "inboxd_request_seconds", "Time from a request to the end of its answer", labels=["route"]
        )
        for route, buckets in requests.buckets.items():
            running = list(itertools.accumulate(buckets))
            named = [*(str(limit) for limit in BUCKETS_S), "+Inf"]
            durations.add_metric([route], list(zip(named, running, strict=True)), requests.seconds[route])
        yield durations
        yield GaugeMetricFamily("inboxd_requests_running", "Requests being answered now", value=requests.running)
        yield GaugeMetricFamily("inboxd_waiters", "Callers blocked until mail comes", value=requests.waiters())
        streams, cut_off = requests.streams()
        yield GaugeMetricFamily("inboxd_streams", "Streams of events open now", value=streams)
        yield CounterMetricFamily(
            "inboxd_streams_cut_off", "Streams ended because their reader took nothing", value=cut_off
        )
        pauses = sorted(collector_pauses_s) or [0.0]
        collector = GaugeMetricFamily(
            "inboxd_collector_pause_seconds",
            "Pauses of Python's garbage collector, lately",
            labels=["quantile"],
        )
        for quantile in (0.5, 0.99, 1.0):
            collector.add_metric([str(quantile)], pauses[min(len(pauses) - 1, int(quantile * len(pauses)))])
        yield collector
        build = GaugeMetricFamily("inboxd_build_info", "The version that runs", labels=["version"])
        build.add_metric([__version__], 1)
        yield build


def metrics_text(requests: Requests) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(requests))
    return generate_latest(registry)
