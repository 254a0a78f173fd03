#!/usr/bin/env python3
"""gpux pull through proxies, and from a hub with TLS and a certificate authority of its own.

usage: tls_and_proxies_test.py GPUX SOURCE_FOLDER"""

import http.server
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_server  # noqa: E402

GPUX = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
HOST = "hub.test"  # that no resolver knows: only the proxy does


def make_certificates(folder: pathlib.Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=hub", "-keyout", "hub.key", "-out", "hub.csr")
    (folder / "names").write_text(f"subjectAltName=DNS:{HOST},DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "hub.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-extfile", "names",
            "-out", "hub.pem")


class Proxy(http.server.BaseHTTPRequestHandler):
    """Forwards requests, and CONNECT, for HOST to 127.0.0.1; any other host is refused with 502."""

    protocol_version = "HTTP/1.1"
    seen: list

    def log_message(self, *arguments: object) -> None:
        pass

    def connection_to(self, authority: str) -> socket.socket | None:
        self.seen.append(f"{self.command} {authority}")
        host, _, port = authority.partition(":")
        if host in (HOST, "127.0.0.1", "localhost"):
            return socket.create_connection(("127.0.0.1", int(port)))
        self.send_error(502)
        return None

    def do_CONNECT(self) -> None:
        other = self.connection_to(self.path)
        if not other:
            return
        self.send_response(200)
        self.end_headers()
        self.copy(self.connection, other)

    def do_GET(self) -> None:
        authority, _, rest = self.path.removeprefix("http://").partition("/")
        other = self.connection_to(authority)
        if not other:
            return
        lines = [f"{self.command} /{rest} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items() if not name.lower().startswith("proxy")]
        other.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        while data := other.recv(65536):
            self.wfile.write(data)
        self.close_connection = True

    do_HEAD = do_GET

    def copy(self, client: socket.socket, server: socket.socket) -> None:
        def one_way(source: socket.socket, target: socket.socket) -> None:
            try:
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        back = threading.Thread(target=one_way, args=(server, client), daemon=True)
        back.start()
        one_way(client, server)
        back.join()
        self.close_connection = True


class TlsAndProxies(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        make_certificates(cls.root)
        shutil.copytree(SOURCE / "tests/embedding/references/bert-cls", cls.root / "hub/org/tiny")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cls.root / "hub.pem", cls.root / "hub.key")
        cls.plain = hub_server.start(cls.root / "hub").server_address[1]
        cls.secure = hub_server.start(cls.root / "hub", tls=context).server_address[1]
        cls.seen: list = []
        handler = type("TestProxy", (Proxy,), {"seen": cls.seen})
        cls.proxy_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        cls.proxy_server.daemon_threads = True
        cls.proxy_server.handle_error = lambda *arguments: None
        threading.Thread(target=cls.proxy_server.serve_forever, daemon=True).start()
        cls.proxy = f"http://127.0.0.1:{cls.proxy_server.server_address[1]}"

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def pull(self, *flags: str, code: int = 0, **variables: str) -> str:
        """The messages of a pull into an empty store."""
        self.seen.clear()
        with tempfile.TemporaryDirectory(dir=self.root) as home:
            kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
            environment = kept | {"HOME": home, "GPUX_HOME": f"{home}/gpux"} | variables
            done = subprocess.run(
                [GPUX, "pull", "org/tiny", *flags], capture_output=True, text=True, env=environment, timeout=60
            )
            self.assertEqual(done.returncode, code, f"{flags} {variables}: {done.stdout}{done.stderr}")
            return done.stderr

    def test_own_authority(self) -> None:
        hub = {"HF_ENDPOINT": f"https://127.0.0.1:{self.secure}"}
        authority, other = str(self.root / "ca.pem"), str(self.root / "other.pem")
        refused = self.pull(code=10, **hub)
        self.assertIn("certificate", refused)
        self.assertIn("--ca-file", refused)
        self.pull("--ca-file", authority, **hub)
        for variable in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            with self.subTest(variable):
                self.pull(**hub, **{variable: authority})
                self.pull(code=10, **hub, **{variable: other})
        self.pull("--ca-file", other, code=10, SSL_CERT_FILE=authority, **hub)
        missing = self.pull("--ca-file", str(self.root / "none.pem"), code=7, **hub)
        self.assertIn("none.pem", missing)

    def test_insecure_is_of_the_hosts_that_it_names(self) -> None:
        hub = {"HF_ENDPOINT": f"https://127.0.0.1:{self.secure}"}
        # The hub sends large files from another host, whose certificate is checked.
        self.assertIn("localhost", self.pull("--insecure", "127.0.0.1", code=10, **hub))
        self.pull("--insecure", "127.0.0.1", "--insecure", f"localhost:{self.secure}", **hub)
        self.pull("--insecure", "127.0.0.1:1", "--insecure", "localhost", code=10, **hub)

    def test_proxies_of_the_variables(self) -> None:
        plain = {"HF_ENDPOINT": f"http://{HOST}:{self.plain}"}
        secure = {"HF_ENDPOINT": f"https://{HOST}:{self.secure}", "SSL_CERT_FILE": str(self.root / "ca.pem")}
        self.assertIn("resolve", self.pull(code=10, **plain))
        for variable, hub, request in [
            ("http_proxy", plain, f"GET {HOST}:{self.plain}"),
            ("HTTP_PROXY", plain, f"GET {HOST}:{self.plain}"),
            ("all_proxy", plain, f"GET {HOST}:{self.plain}"),
            ("ALL_PROXY", plain, f"GET {HOST}:{self.plain}"),
            ("https_proxy", secure, f"CONNECT {HOST}:{self.secure}"),
            ("HTTPS_PROXY", secure, f"CONNECT {HOST}:{self.secure}"),
            ("ALL_PROXY", secure, f"CONNECT {HOST}:{self.secure}"),
        ]:
            with self.subTest(variable):
                self.pull(**hub, **{variable: self.proxy})
                self.assertIn(request, self.seen)
        # Each is for its scheme.
        self.pull(code=10, https_proxy=self.proxy, **plain)
        self.pull(code=10, http_proxy=self.proxy, HTTP_PROXY=self.proxy, **secure)
        # A CGI program's HTTP_PROXY is a header of its client.
        self.pull(code=10, HTTP_PROXY=self.proxy, REQUEST_METHOD="GET", **plain)
        self.pull(HTTP_PROXY="http://127.0.0.1:1", http_proxy=self.proxy, **plain)

    def test_this_machine_is_asked_without_a_proxy(self) -> None:
        secure = {"HF_ENDPOINT": f"https://127.0.0.1:{self.secure}", "SSL_CERT_FILE": str(self.root / "ca.pem")}
        plain = {"HF_ENDPOINT": f"http://localhost:{self.plain}"}
        for hub in (secure, plain):
            self.pull(https_proxy=self.proxy, http_proxy=self.proxy, HTTP_PROXY=self.proxy, all_proxy=self.proxy, **hub)
            self.assertEqual(self.seen, [])

    def test_no_proxy(self) -> None:
        secure = {"HF_ENDPOINT": f"https://{HOST}:{self.secure}", "SSL_CERT_FILE": str(self.root / "ca.pem")}
        self.pull(HTTPS_PROXY=self.proxy, **secure)
        self.assertIn(f"CONNECT {HOST}:{self.secure}", self.seen)
        # Without the proxy nobody knows the host.
        for variable, hosts in [("NO_PROXY", HOST), ("no_proxy", f"other.test,{HOST}"), ("no_proxy", "*")]:
            with self.subTest(f"{variable}={hosts}"):
                self.pull(code=10, HTTPS_PROXY=self.proxy, **secure, **{variable: hosts})
                self.assertEqual(self.seen, [])
        plain = {"HF_ENDPOINT": f"http://{HOST}:{self.plain}"}
        self.pull(code=10, HTTP_PROXY=self.proxy, NO_PROXY=".test", **plain)
        self.assertEqual(self.seen, [])

    def test_a_proxy_that_fails(self) -> None:
        plain = {"HF_ENDPOINT": f"http://{HOST}:{self.plain}"}
        secure = {"HF_ENDPOINT": f"https://{HOST}:{self.secure}", "SSL_CERT_FILE": str(self.root / "ca.pem")}
        self.assertIn("proxies are set with", self.pull(code=10, http_proxy="http://127.0.0.1:1", **plain))
        self.assertIn("502", self.pull(code=10, https_proxy=self.proxy, HF_ENDPOINT="https://elsewhere.test:1"))
        self.assertIn("proxies are set with", self.pull(code=10, https_proxy="http://127.0.0.1:1", **secure))


if __name__ == "__main__":
    unittest.main(verbosity=1)
