"""Receives the traces and metrics of a server as OpenTelemetry's collector does, and reads them with the messages that
OpenTelemetry publishes for Python.

usage: scripts/trials/clients/otlp.py PROGRAM

The parents of the spans are spans of OpenTelemetry's own SDK, in the client. Each span that arrives is printed. The metrics are
also read as OpenMetrics, by the parser of Prometheus' client: both have exemplars.
"""

import collections
import gzip
import http.server
import json
import os
import pathlib
import sys
import threading
import time
import urllib.request

from opentelemetry import propagate, trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client.openmetrics.parser import text_string_to_metric_families

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_model import served_chat_model

HEADER = ("x-receiver-key", "a key, with a comma")


class Received:
    """What came so far, and what was wrong with it."""

    def __init__(self):
        self.spans, self.metrics, self.resources, self.problems = [], {}, [], []


def unknown_fields(message):
    """The places of what the published messages do not have."""
    places = []
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in value if field.is_repeated else [value]:
            places += unknown_fields(one)
    # What is not known stays in the bytes of a message, and nowhere else.
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    if copy.ByteSize() != message.ByteSize():
        places.append(message.DESCRIPTOR.full_name)
    return places


def receiver(received):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            kind, answer = {
                "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
                "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
            }[self.path]
            if self.headers["Content-Type"] != "application/x-protobuf":
                received.problems.append(f"the type is {self.headers['Content-Type']}")
            if self.headers[HEADER[0]] != HEADER[1]:
                received.problems.append(f"the header is {self.headers[HEADER[0]]}")
            message = kind.FromString(body)
            received.problems += [f"unknown fields in {place}" for place in unknown_fields(message)]
            if kind is ExportTraceServiceRequest:
                for group in message.resource_spans:
                    received.resources.append(attributes_of(group.resource))
                    received.spans += [span for scope in group.scope_spans for span in scope.spans]
            else:
                for group in message.resource_metrics:
                    for scope in group.scope_metrics:
                        received.metrics.update({metric.name: metric for metric in scope.metrics})
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(answer().SerializeToString())

        def log_message(self, *_):
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def attributes_of(message):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in message.attributes}


def post(address, path, body):
    """Sends the body within a span of the client. The ids of its trace and of the span."""
    with trace.get_tracer("client").start_as_current_span("ask") as span:
        headers = {"Content-Type": "application/json"}
        propagate.inject(headers)
        request = urllib.request.Request(address + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            answer.read()
        context = span.get_span_context()
    return context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")


def check(is_so, problem, problems):
    if not is_so:
        problems.append(problem)


def check_request(received, ids, route, phases):
    own = [span for span in received.spans if span.trace_id == ids[0]]
    roots = [span for span in own if span.parent_span_id == ids[1]]
    check(len(roots) == 1, f"{route}: {len(roots)} spans below the client's", received.problems)
    if not roots:
        return
    root = roots[0]
    check(root.name == f"POST {route}", f"{route}: the name is {root.name}", received.problems)
    check(root.kind == 2, f"{route}: it is no server's span", received.problems)
    check(attributes_of(root).get("http.response.status_code") == 200, f"{route}: the status", received.problems)
    check("gpux.verdict" in attributes_of(root), f"{route}: no verdict", received.problems)
    below = [span for span in own if span.parent_span_id == root.span_id]
    check(len(below) == len(own) - 1, f"{route}: spans without a parent", received.problems)
    names = collections.Counter(span.name for span in below)
    for name in phases:
        check(names[name] >= 1, f"{route}: no span {name}", received.problems)
    for span in sorted(own, key=lambda one: (one is not root, one.start_time_unix_nano)):
        milliseconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
        check(
            root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano,
            f"{route}: {span.name} is not within the request",
            received.problems,
        )
        shown = {name: value for name, value in attributes_of(span).items() if name.startswith(("gen_ai.", "gpux."))}
        print(f"{'' if span is root else '  '}{span.name}  {milliseconds:.2f} ms  {shown or ''}")


def check_loads(received):
    loads = {attributes_of(span)["gpux.model"]: span for span in received.spans if span.name == "load model"}
    check(set(loads) == {"tiny", "words"}, f"spans of the loads of {set(loads)}", received.problems)
    for name, span in loads.items():
        check(not span.parent_span_id, f"the load of {name} is in a request", received.problems)
        check(attributes_of(span)["gpux.load.result"] == "succeeded", f"the load of {name} failed", received.problems)
        print(f"load model  {(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6:.2f} ms  {attributes_of(span)}")


def check_exemplars(received, page, traces):
    """Of the requests that were recorded, over OTLP and in the page that Prometheus would read."""
    durations = received.metrics["http.server.request.duration"].histogram.data_points
    sent = {exemplar.trace_id for point in durations for exemplar in point.exemplars}
    check(sent and sent <= traces, f"{len(sent - traces)} exemplars of other traces over OTLP", received.problems)
    families = {family.name: family for family in text_string_to_metric_families(page)}
    read = {
        bytes.fromhex(sample.exemplar.labels["trace_id"])
        for sample in families["gpux_http_request_duration_seconds"].samples
        if sample.exemplar
    }
    check(read and read <= traces, f"{len(read - traces)} exemplars of other traces in OpenMetrics", received.problems)
    check(families["gpux_generated_tokens"].type == "counter", "gpux_generated_tokens is no counter", received.problems)
    print(f"{len(sent)} exemplars over OTLP, {len(read)} in OpenMetrics with {len(families)} families")


def main(program):
    trace.set_tracer_provider(TracerProvider())
    received = Received()
    server = receiver(received)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ.update(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"{HEADER[0]}={HEADER[1].replace(' ', '%20').replace(',', '%2C')}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "trial",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }
    )
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 20, "ignore_eos": True}
    with served_chat_model(program) as address:
        asked = [
            (post(address, "/v1/chat/completions", chat), "/v1/chat/completions", CHAT_PHASES),
            (post(address, "/v1/chat/completions", {**chat, "stream": True}), "/v1/chat/completions", CHAT_PHASES),
            (post(address, "/v1/embeddings", {"model": "words", "input": ["a", "b"]}), "/v1/embeddings", RUN_PHASES),
        ]
        ask = urllib.request.Request(address + "/metrics", headers={"Accept": "application/openmetrics-text"})
        with urllib.request.urlopen(ask) as answer:
            page = answer.read().decode()
        time.sleep(1.5)
    check_loads(received)
    check_exemplars(received, page, {ids[0] for ids, _, _ in asked})
    for ids, route, phases in asked:
        check_request(received, ids, route, phases)
    check(
        all(one == {"service.name": "trial", "deployment.environment.name": "test"} for one in received.resources),
        f"the resource is {received.resources[:1]}",
        received.problems,
    )
    for name in ("nv_inference_request_success", "gpux_generated_tokens_total", *CONVENTIONAL_METRICS):
        check(name in received.metrics, f"no metric {name}", received.problems)
    print(f"{len(received.spans)} spans, {len(received.metrics)} metrics")
    if received.problems:
        sys.exit("\n".join(sorted(set(received.problems))))


CHAT_PHASES = ("template", "tokenize", "queue", "prefill", "decode")
RUN_PHASES = ("prepare", "queue", "batch", "run")
CONVENTIONAL_METRICS = (
    "http.server.request.duration",
    "gen_ai.server.time_to_first_token",
    "gen_ai.server.time_per_output_token",
)

if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
