"""A server that speaks as much of Qdrant's REST interface as gpux uses, as its published OpenAPI document has it.

Bodies that the document does not allow are answered with 400. `LocalPoints` compares every vector by itself; `ClientPoints` is
the local mode of Qdrant's own client for Python, whose classes, generated from the document, check the bodies as well.
Standard library only, but for `ClientPoints`.
"""

from __future__ import annotations

import http.server
import json
import math
import re
import threading
import urllib.parse
import uuid
from typing import Any

Body = dict[str, Any]
KEY = "k3y-0f-tests"
DISTANCES = {"Cosine", "Dot", "Euclid", "Manhattan"}


class Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check(condition: bool, reason: str) -> None:
    if not condition:
        raise Refused(400, f"Format error in JSON body: {reason}")


def members(body: Any, required: set[str], optional: set[str] = frozenset()) -> Body:  # type: ignore[assignment]
    check(isinstance(body, dict), "no object")
    check(required <= set(body) <= required | optional, f"members {sorted(body)}")
    return body


def numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, (int, float)) and math.isfinite(one) for one in value)


def sparse(value: Any) -> Body:
    members(value, {"indices", "values"})
    check(numbers(value["values"]) and len(value["indices"]) == len(value["values"]), "a sparse vector")
    check(all(isinstance(one, int) and 0 <= one < 2**32 for one in value["indices"]), "indices")
    check(len(set(value["indices"])) == len(value["indices"]), "must be unique")
    return value


def identifier(value: Any) -> str:
    check(isinstance(value, str), "an id")
    return str(uuid.UUID(value))


class LocalPoints:
    """Collections in memory."""

    def __init__(self) -> None:
        self.collections: dict[str, Body] = {}
        self.points: dict[str, dict[str, Body]] = {}

    def names(self) -> set[str]:
        return set(self.collections)

    def create(self, name: str, body: Body) -> None:
        members(body, {"vectors"}, {"sparse_vectors"})
        vectors = {"": body["vectors"]} if "size" in body["vectors"] else body["vectors"]
        for one in vectors.values():
            members(one, {"size", "distance"})
            check(isinstance(one["size"], int) and one["size"] > 0 and one["distance"] in DISTANCES, "vectors")
        for one in members(body.get("sparse_vectors", {}), set(), set(body.get("sparse_vectors", {}))).values():
            members(one, set(), {"index", "modifier"})
        self.collections[name] = {"vectors": vectors, "sparse": set(body.get("sparse_vectors", {}))}
        self.points[name] = {}

    def upsert(self, name: str, body: Body) -> None:
        made = self.collections[name]
        points = {}
        for point in members(body, {"points"})["points"]:
            members(point, {"id", "vector"}, {"payload"})
            vectors = {"": point["vector"]} if isinstance(point["vector"], list) else point["vector"]
            for key, vector in vectors.items():
                if key in made["sparse"]:
                    sparse(vector)
                    continue
                check(key in made["vectors"], f"Not existing vector name error: {key}")
                size = made["vectors"][key]["size"]
                check(numbers(vector) and len(vector) == size, f"Vector dimension error: expected dim: {size}")
            points[identifier(point["id"])] = {"vector": vectors, "payload": point.get("payload", {})}
        self.points[name].update(points)

    def retrieve(self, name: str, body: Body) -> list[Body]:
        members(body, {"ids"}, {"with_payload", "with_vector"})
        known = self.points[name]
        return [
            {"id": one, "payload": known[one]["payload"] if body.get("with_payload", True) else None}
            for one in map(identifier, body["ids"])
            if one in known
        ]

    def count(self, name: str, body: Body) -> int:
        members(body, set(), {"filter", "exact"})
        return len(self.points[name])

    def query(self, name: str, body: Body) -> list[Body]:
        members(body, {"query", "using", "limit"}, {"filter", "params", "with_payload"})
        members(body.get("params", {}), set(), {"exact", "hnsw_ef"})
        check(isinstance(body["limit"], int) and body["limit"] > 0, "limit")
        made, using = self.collections[name], body["using"]
        distance = "Dot" if using in made["sparse"] else made["vectors"][using]["distance"]
        query = sparse(body["query"]) if using in made["sparse"] else body["query"]
        found = [
            {"id": key, "version": 0, "score": score_of(distance, query, point["vector"][using]), "payload": point["payload"]}
            for key, point in self.points[name].items()
            if passes(point["payload"], body.get("filter"))
        ]
        is_distance = distance in {"Euclid", "Manhattan"}
        found.sort(key=lambda one: one["score"] if is_distance else -one["score"])
        return found[: body["limit"]]


def score_of(distance: str, query: Any, vector: Any) -> float:
    if isinstance(query, dict):
        weights = dict(zip(query["indices"], query["values"], strict=True))
        return sum(weights.get(at, 0) * value for at, value in zip(vector["indices"], vector["values"], strict=True))
    pairs = list(zip(query, vector, strict=True))
    if distance == "Euclid":
        return math.dist(query, vector)
    if distance == "Manhattan":
        return sum(abs(x - y) for x, y in pairs)
    product = sum(x * y for x, y in pairs)
    return product / (math.hypot(*query) * math.hypot(*vector)) if distance == "Cosine" else product


def value_at(payload: Any, key: str) -> Any:
    for quoted, plain in re.findall(r'"([^"]*)"|([A-Za-z0-9_]+)', key):
        if not isinstance(payload, dict) or (quoted or plain) not in payload:
            return Refused
        payload = payload[quoted or plain]
    return payload


def passes(payload: Body, conditions: Body | None) -> bool:
    if conditions is None:
        return True
    for condition in members(conditions, {"must"})["must"]:
        if "is_null" in condition:
            members(members(condition, {"is_null"})["is_null"], {"key"})
            if value_at(payload, condition["is_null"]["key"]) is not None:
                return False
            continue
        found = value_at(payload, condition["key"])
        if "range" in condition:
            members(condition, {"key", "range"})
            bounds = members(condition["range"], {"gte", "lte"})
            each = [one for one in (found if isinstance(found, list) else [found]) if type(one) in (int, float)]
            if not any(bounds["gte"] <= float(one) <= bounds["lte"] for one in each):
                return False
            continue
        wanted = members(members(condition, {"key", "match"})["match"], {"value"})["value"]
        check(isinstance(wanted, (str, int, bool)) and not isinstance(wanted, float), "match.value")
        if not any(type(one) is type(wanted) and one == wanted for one in (found if isinstance(found, list) else [found])):
            return False
    return True


class ClientPoints:
    """The client's local mode, asked by the classes of its own document."""

    def __init__(self) -> None:
        import qdrant_client
        from qdrant_client.http import models

        self.client, self.models = qdrant_client.QdrantClient(":memory:"), models

    def names(self) -> set[str]:
        return {one.name for one in self.client.get_collections().collections}

    def create(self, name: str, body: Body) -> None:
        made = self.models.CreateCollection.model_validate(body)
        self.client.create_collection(name, vectors_config=made.vectors, sparse_vectors_config=made.sparse_vectors)

    def upsert(self, name: str, body: Body) -> None:
        self.client.upsert(name, self.models.PointsList.model_validate(body).points)

    def retrieve(self, name: str, body: Body) -> list[Body]:
        asked = self.models.PointRequest.model_validate(body)
        found = self.client.retrieve(name, asked.ids, with_payload=asked.with_payload or False)
        return [one.model_dump() for one in found]

    def count(self, name: str, body: Body) -> int:
        return int(self.client.count(name, exact=self.models.CountRequest.model_validate(body).exact or False).count)

    def query(self, name: str, body: Body) -> list[Body]:
        asked = self.models.QueryRequest.model_validate(body)
        query = self.models.SparseVector(**body["query"]) if isinstance(body["query"], dict) else body["query"]
        found = self.client.query_points(name, query=query, using=asked.using, query_filter=asked.filter,
                                         limit=asked.limit or 10, search_params=asked.params,
                                         with_payload=True)  # fmt: skip
        return [one.model_dump() for one in found.points]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    points: LocalPoints | ClientPoints
    requests: list[tuple[str, str]]
    lock = threading.Lock()

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, status: int, body: Body) -> None:
        content = json.dumps({**body, "time": 0.001}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def handle_request(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        content = self.rfile.read(length)
        self.requests.append((self.command, self.path))
        if self.headers.get("api-key") != KEY:
            self.send_response(401)
            self.send_header("Content-Length", "41")
            self.end_headers()
            self.wfile.write(b"Must provide an API key or an Authorizat.")
            return
        try:
            with self.lock:
                result = self.route(json.loads(content) if content else {})
        except Refused as refused:
            self.answer(refused.status, {"status": {"error": str(refused)}})
        except Exception as error:  # noqa: BLE001: whatever a library says of the body
            self.answer(400, {"status": {"error": f"Format error in JSON body: {error}"}})
        else:
            self.answer(200, {"result": result, "status": "ok"})

    def route(self, body: Body) -> Any:
        path, _, query = self.path.partition("?")
        parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
        if len(parts) < 2 or parts[0] != "collections":
            raise Refused(404, "Not found")
        name, rest = parts[1], (self.command, *parts[2:])
        if rest == ("PUT",):
            if name in self.points.names():
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            self.points.create(name, body)
            return True
        if name not in self.points.names():
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        if rest == ("PUT", "points"):
            check(query == "wait=true", "is not waited for")
            self.points.upsert(name, body)
            return {"operation_id": 0, "status": "completed"}
        if rest == ("GET",):
            return {"status": "green"}
        if rest == ("POST", "points"):
            return self.points.retrieve(name, body)
        if rest == ("POST", "points", "count"):
            return {"count": self.points.count(name, body)}
        if rest == ("POST", "points", "query"):
            return {"points": self.points.query(name, body)}
        raise Refused(404, "Not found")

    do_GET = do_PUT = do_POST = handle_request


def start(points: LocalPoints | ClientPoints) -> http.server.ThreadingHTTPServer:
    """A server on a free port of this machine, with its own thread."""
    own = type("Own", (Handler,), {"points": points, "requests": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
