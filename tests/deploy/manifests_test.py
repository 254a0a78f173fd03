"""The manifests of deploy/kserve and those that deploy/helm/gpux makes: fields and types are those of Kubernetes, KServe, KEDA
and the Prometheus operator (fields.json), and what they say of gpux is true of it.

usage: manifests_test.py                   rendered/ has what helm made of each file of values in helm/
       GPUX_HELM=helm manifests_test.py    also compares rendered/ with what helm makes, and what it refuses
       GPUX_HELM=helm GPUX_WRITE_PAGES=1 manifests_test.py    writes rendered/
"""

import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: there is no module yaml (Debian: python3-yaml)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHART = ROOT / "deploy/helm/gpux"
KSERVE = ROOT / "deploy/kserve"
FIELDS = json.loads((HERE / "fields.json").read_text())
HELM = os.environ.get("GPUX_HELM")
SCALARS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "quantity": (str, int, float)}
CLOSING_SECONDS = 10  # that closing the models may take after a drain


def problems(value, kind, place=""):
    """What of a value is not as its type has it."""
    if kind == "any":
        return []
    if kind in SCALARS:
        is_right = isinstance(value, SCALARS[kind]) and (kind == "boolean" or not isinstance(value, bool))
        return [] if is_right else [f"{place}: {value!r} is no {kind}"]
    if inner := re.fullmatch(r"list\[(.*)\]", kind):
        if not isinstance(value, list):
            return [f"{place}: {value!r} is no list"]
        return [one for i, item in enumerate(value) for one in problems(item, inner[1], f"{place}[{i}]")]
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is no map"]
    if inner := re.fullmatch(r"map\[(.*)\]", kind):
        return [one for key, item in value.items() for one in problems(item, inner[1], f"{place}.{key}")]
    fields = {name.rstrip("!"): (type_name, name.endswith("!")) for name, type_name in FIELDS["types"][kind].items()}
    found = [f"{place}.{name} is missing" for name, (_, is_required) in fields.items() if is_required and name not in value]
    for name, item in value.items():
        if name in fields:
            found += problems(item, fields[name][0], f"{place}.{name}")
        else:
            found.append(f"{place}.{name} is unknown")
    return found


def problems_of(document):
    kind = f"{document.get('apiVersion')} {document.get('kind')}"
    if kind not in FIELDS["kinds"]:
        return [f"{kind} is unknown"]
    found = problems(document, FIELDS["kinds"][kind], document["kind"])
    name = document.get("metadata", {}).get("name", "")
    return found if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) else [*found, f"the name {name!r}"]


def read(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def flag(arguments, name):
    return arguments[arguments.index(name) + 1]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


@functools.cache
def metrics():
    """The names of the metrics that gpux emits."""
    return set(re.findall(r'"((?:gpux|nv)_\w+)"', "".join(file.read_text() for file in (ROOT / "src/server").rglob("*.cpp"))))


def documented_flags():
    return set(re.findall(r"--[a-z][\w-]+", (ROOT / "docs/serving.md").read_text() + (ROOT / "docs/pull.md").read_text()
                          + (ROOT / "docs/registries.md").read_text()))  # fmt: skip


class Checks(unittest.TestCase):
    def pod(self, spec, grace):
        """What holds for every pod with gpux. `grace`: its seconds from SIGTERM to SIGKILL."""
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            security = container["securityContext"]
            self.assertTrue(security["readOnlyRootFilesystem"])
            self.assertFalse(security["allowPrivilegeEscalation"])
            self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
            # The user of the image, by the container or by the pod.
            merged = {**spec.get("securityContext", {}), **security}
            self.assertTrue(merged["runAsNonRoot"])
            self.assertEqual(merged["runAsUser"], 10001)
            self.assertEqual(merged["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertIn("memory", container["resources"]["limits"])
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            for mount in container.get("volumeMounts", []):
                self.assertIn(mount["name"], volumes)
            for argument in container.get("args", []):
                if argument.startswith("--"):
                    self.assertIn(argument, documented_flags())
        server = next(one for one in spec["containers"] if one["args"][0] == "serve")
        arguments = server["args"]
        self.assertGreaterEqual(grace, seconds(flag(arguments, "--drain-delay")) + seconds(flag(arguments, "--drain-timeout")) + CLOSING_SECONDS)
        self.assertEqual(server["readinessProbe"]["httpGet"]["path"], "/health/ready")
        self.assertEqual(server["livenessProbe"]["httpGet"]["path"], "/health/live")
        # A pod that is not ready is out of service before its drain begins.
        probe = server["readinessProbe"]
        self.assertLess(probe["periodSeconds"] * probe["failureThreshold"], seconds(flag(arguments, "--drain-delay")))
        return server

    def query(self, text):
        names = re.findall(r"\b(?:gpux|nv)_\w+", text)
        self.assertTrue(names, text)
        self.assertLessEqual(set(names), metrics())


class Fields(unittest.TestCase):
    def test_that_are_wrong_are_found(self):
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
        self.assertEqual(problems_of(service), [])
        for change, expected in {
            '{"sepc": {}}': ["Service.sepc is unknown"],
            '{"spec": {"ports": [{"name": "http"}]}}': ["Service.spec.ports[0].port is missing"],
            '{"spec": {"ports": [{"port": "80"}]}}': ["Service.spec.ports[0].port: '80' is no integer"],
            '{"spec": {"ports": {}}}': ["Service.spec.ports: {} is no list"],
            '{"spec": {"publishNotReadyAddresses": "no"}}': ["Service.spec.publishNotReadyAddresses: 'no' is no boolean"],
            '{"metadata": {"name": "a", "labels": {"b": 1}}}': ["Service.metadata.labels.b: 1 is no string"],
            '{"metadata": {"name": "a_b"}}': ["the name 'a_b'"],
            '{"kind": "Sevrice"}': ["v1 Sevrice is unknown"],
        }.items():
            with self.subTest(change=change):
                self.assertEqual(problems_of({**service, **json.loads(change)}), expected)


class KServe(Checks):
    def setUp(self):
        names = ("storage-container.yaml", "serving-runtime.yaml", "serving-runtime-onnx.yaml", "inference-service.yaml")
        (self.storage,), (self.runtime,), (self.onnx,), (self.model,) = (read(KSERVE / name) for name in names)

    def test_objects_have_the_fields_of_kserve(self):
        for document in (self.storage, self.runtime, self.onnx, self.model):
            self.assertEqual(problems_of(document), [])
        for name in read(KSERVE / "kustomization.yaml")[0]["resources"]:
            self.assertTrue((KSERVE / name).is_file(), name)

    def test_pods_run_as_gpux_does(self):
        # As KServe makes the pod: the runtime's, with the initializer in front.
        spec = {**self.runtime["spec"], "initContainers": [self.storage["spec"]["container"]]}
        predictor = self.model["spec"]["predictor"]
        server = self.pod(spec, predictor["terminationGracePeriodSeconds"])
        self.assertEqual(server["name"], "kserve-container")  # the container that KServe looks for
        self.assertEqual(self.storage["spec"]["container"]["name"], "storage-initializer")
        self.assertIn("{{.Name}}=model", server["args"])
        self.assertEqual(flag(self.storage["spec"]["container"]["args"], "--tag"), "model")
        self.assertEqual(self.pod(self.onnx["spec"], predictor["terminationGracePeriodSeconds"])["name"], "kserve-container")
        stores = [{one["name"]: one.get("value") for one in container["env"]}["GPUX_HOME"] for container in (server, spec["initContainers"][0])]
        self.assertEqual(stores, ["/mnt/models"] * 2)

    def test_the_model_is_unloaded_with_a_key_alone(self):
        for runtime in (self.runtime, self.onnx):
            (server,), volumes = runtime["spec"]["containers"], runtime["spec"]["volumes"]
            file = pathlib.PurePath(flag(server["args"], "--admin-key-file"))
            (mount,) = [one for one in server["volumeMounts"] if one["mountPath"] == str(file.parent)]
            (secret,) = [one["secret"] for one in volumes if one["name"] == mount["name"]]
            self.assertEqual(secret, {"secretName": "gpux-admin-keys"})  # not optional

    def test_the_model_is_one_that_the_runtime_takes(self):
        model = self.model["spec"]["predictor"]["model"]
        spec = self.runtime["spec"]
        self.assertIn(model["modelFormat"]["name"], [one["name"] for one in spec["supportedModelFormats"]])
        self.assertIn(model["protocolVersion"], spec["protocolVersions"])
        self.assertEqual(model["runtime"], self.runtime["metadata"]["name"])
        for metric in self.model["spec"]["predictor"]["autoScaling"]["metrics"]:
            self.query(metric["external"]["metric"]["query"])

    def test_addresses_are_references_with_a_digest(self):
        (accepted,) = self.storage["spec"]["supportedUriFormats"]
        digest = "@sha256:" + 64 * "0"
        for address, is_ours in {
            self.model["spec"]["predictor"]["model"]["storageUri"]: True,
            "registry.example:5000/a/b:1.0.0" + digest: True,
            "localhost:5000/digits" + digest: True,
            "registry.example/team/minilm:latest": False,
            "registry.example/team/minilm@sha256:0000": False,
            "https://registry.example/team/minilm" + digest: False,
            "s3://bucket/model" + digest: False,
            "oci://registry.example/team/minilm" + digest: False,
            "pvc://claim/model": False,
            "/mnt/models": False,
        }.items():
            with self.subTest(address=address):
                self.assertEqual(re.search(accepted["regex"], address) is not None, is_ours)


def digest_of_chart():
    """Of what helm reads, so that rendered/ cannot be of another chart."""
    found = hashlib.sha256()
    for file in sorted([*CHART.rglob("*"), *(HERE / "helm").glob("*.yaml")]):
        if file.is_file():
            found.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()


def helm(*arguments):
    command = [HELM, *map(str, arguments), "--kube-version", "1.33.0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(values):
    done = helm("template", "models", CHART, "--namespace", "serving", "--values", values)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return f"# helm template models deploy/helm/gpux --namespace serving --values tests/deploy/helm/{values.name}; chart {digest_of_chart()}\n{done.stdout}"


class Chart(Checks):
    @classmethod
    def setUpClass(cls):
        cls.values = sorted((HERE / "helm").glob("*.yaml"))
        if HELM and os.environ.get("GPUX_WRITE_PAGES") == "1":
            for values in cls.values:
                (HERE / "rendered" / values.name).write_text(rendered(values))
        cls.documents = {values.stem: read(HERE / "rendered" / values.name) for values in cls.values}

    def test_was_rendered_as_it_is(self):
        for values in self.values:
            with self.subTest(values=values.name):
                text = (HERE / "rendered" / values.name).read_text()
                self.assertIn(digest_of_chart(), text.splitlines()[0], "the chart has changed: the first lines of this test say how to write rendered/")
                if HELM:
                    self.assertEqual(text, rendered(values))

    def test_objects_have_the_fields_of_kubernetes(self):
        kinds = set()
        for name, documents in self.documents.items():
            for document in documents:
                kinds.add(document["kind"])
                with self.subTest(values=name, kind=document["kind"]):
                    self.assertEqual(problems_of(document), [])
                    self.assertEqual(document["metadata"]["labels"]["app.kubernetes.io/name"], "gpux")
        self.assertEqual(kinds, {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
                                 "ScaledObject", "Service", "ServiceAccount", "ServiceMonitor"})  # fmt: skip

    def test_pods_run_as_gpux_does(self):
        for name, documents in self.documents.items():
            with self.subTest(values=name):
                (deployment,) = of_kind(documents, "Deployment")
                spec = deployment["spec"]["template"]["spec"]
                server = self.pod(spec, spec["terminationGracePeriodSeconds"])
                # Each model is pulled by its digest, with the login, before the server opens it without.
                pulled = [one["args"][1] for one in spec["initContainers"]]
                served = [one.split("=", 1)[1] for one in server["args"] if "@sha256:" in one]
                self.assertEqual(pulled, served)
                self.assertEqual(flag(server["args"], "--pull"), "never")
                self.assertNotIn("registry", [mount["name"] for mount in server["volumeMounts"]])
                selector = deployment["spec"]["selector"]["matchLabels"]
                self.assertLessEqual(selector.items(), deployment["spec"]["template"]["metadata"]["labels"].items())
                (service,) = of_kind(documents, "Service")
                self.assertEqual(service["spec"]["selector"], selector)
                self.assertEqual({port["targetPort"] for port in service["spec"]["ports"]}, {port["name"] for port in server["ports"]})
                self.assertEqual("replicas" in deployment["spec"], name == "plain")

    def test_policies_name_keys_that_are_there(self):
        for name, documents in self.documents.items():
            # Without a policy, too: where a volume is mounted on a file, the file stays in it.
            self.assertEqual(len(of_kind(documents, "ConfigMap")), 1, name)
            for config in of_kind(documents, "ConfigMap"):
                with self.subTest(values=name):
                    policy = yaml.safe_load(config["data"]["trust.yml"])
                    for key in policy["registries"].values():
                        self.assertIn(pathlib.PurePath(key).name, config["data"])

    def test_changes_of_models_need_a_key_of_their_own(self):
        for name, expected in (("full", ["--api-key-file", "--admin-key-file"]), ("processor", ["--admin-key-file"]), ("plain", [])):
            (deployment,) = of_kind(self.documents[name], "Deployment")
            spec = deployment["spec"]["template"]["spec"]
            (server,) = spec["containers"]
            self.assertEqual([one for one in server["args"] if one.endswith("-key-file")], expected, name)
            mounts = {one["mountPath"]: one["name"] for one in server["volumeMounts"]}
            secrets = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
            for one in expected:
                file = pathlib.PurePath(flag(server["args"], one))
                secret = secrets[mounts[str(file.parent)]]
                self.assertEqual((secret, file.name), ("gpux-admin-keys" if "admin" in one else "gpux-keys", "keys"))

    def test_a_folder_of_the_node_must_be_there(self):
        # One that the kubelet makes is root's, and the user of the image may not write it.
        (deployment,) = of_kind(self.documents["processor"], "Deployment")
        (store,) = [one for one in deployment["spec"]["template"]["spec"]["volumes"] if one["name"] == "store"]
        self.assertEqual(store["hostPath"], {"path": "/var/lib/gpux", "type": "Directory"})

    def test_signals_are_metrics_of_gpux(self):
        (scaled,) = of_kind(self.documents["full"], "ScaledObject")
        for trigger in scaled["spec"]["triggers"]:
            if trigger["type"] == "prometheus":
                query = trigger["metadata"]["query"]
                self.query(query)
                # Of this release's pods, and not of another whose name begins alike.
                (pods,) = set(re.findall(r'pod=~"(.*?)"', query))
                self.assertTrue(re.fullmatch(pods, "models-gpux-6f7c9d5b88-x2x4q"))
                self.assertFalse(re.fullmatch(pods, "models-gpux-large-6f7c9d5b88-x2x4q"))
        (scaler,) = of_kind(self.documents["processor"], "HorizontalPodAutoscaler")
        for metric in scaler["spec"]["metrics"]:
            if metric["type"] == "Pods":
                self.query(metric["pods"]["metric"]["name"])

    def test_values_are_those_of_the_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text())

        def compare(values, properties, place):
            self.assertEqual(set(values) - set(properties), set(), place)
            self.assertEqual(set(properties) - set(values) - {"global"}, set(), place)
            for name, value in values.items():
                if isinstance(value, dict) and "properties" in properties[name]:
                    compare(value, properties[name]["properties"], f"{place}.{name}")

        compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema["properties"], "")

    @unittest.skipUnless(HELM, "GPUX_HELM names no helm")
    def test_helm_refuses_what_would_not_work(self):
        plain = ("template", "models", CHART, "--values", HERE / "helm/plain.yaml")
        self.assertIn("0 chart(s) failed", helm("lint", "--strict", CHART, "--values", HERE / "helm/plain.yaml").stdout)
        for arguments, reason in (
            (("template", "models", CHART), "models"),
            ((*plain, "--set", "models[0].reference=registry.example/team/minilm:latest"), "reference"),
            ((*plain, "--set", "trust.policy=null"), "trust.policy has no key for registry.example/team/minilm"),
            ((*plain, "--set", "models[0].reference=other.example/x@sha256:" + 64 * "0"), "trust.policy has no key for other.example/x"),
            ((*plain, "--set", "trust.policy.other=none.pub"), "names the key none.pub"),
            ((*plain, "--set", "replica=3"), "replica"),
            ((*plain, "--set", "apiKeys.allowWithoutKeys=false"), "apiKeys.secret is not set"),
            ((*plain, "--set", "apiKeys.admin=keys"), "apiKeys names a Secret"),
            ((*plain, "--set", "autoscaling.kind=knative"), "kind"),
            ((*plain, "--set", "autoscaling.kind=keda,autoscaling.minReplicas=0"), "pods that are not there report no requests"),
            ((*plain, "--set", "autoscaling.kind=hpa,autoscaling.minReplicas=0"), "autoscaling.minReplicas is 0"),
            ((*plain, "--set", "rollout.maxSurge=0"), "no pod could be replaced"),
            ((*plain, "--set", "rollout.maxSurge=0%,rollout.maxUnavailable=0%"), "no pod could be replaced"),
            ((*plain, "--set", "serve.grpc.port=8080"), "cannot listen on one port"),
        ):
            with self.subTest(arguments=arguments[5:]):
                done = helm(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
