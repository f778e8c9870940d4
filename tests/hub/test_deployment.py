"""`deploy/hub`: the manifests by Kubernetes' schemas, and the configuration of HAProxy before two real hubs."""

import http.client
import socket
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from handhold.hub.request_bodies import MAX_SPOOLED_BYTES
from tests.containers.pods import find_violations
from tests.hub.hubs import Hub
from tests.hub.servers import Server, find_program, free_port, running, wait_until

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "deploy/hub"
MANIFESTS = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("version", ["1.33", "1.37"])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["kind"])
def test_the_manifests_are_valid_by_the_schemas_of_kubernetes(manifest: dict, version: str):
    kubernetes_validate.validate(manifest, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**manifest, "specs": {}}, version, strict=True)


def test_restricted_admits_the_pod_of_a_hub():
    (deployment,) = (each for each in MANIFESTS if each["kind"] == "Deployment")
    assert set(find_violations(deployment["spec"]["template"])) == set()


def test_uploads_fit_into_the_temporary_folder():
    (deployment,) = (each for each in MANIFESTS if each["kind"] == "Deployment")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    (folder,) = yaml.safe_load((FOLDER / "compose.yaml").read_text())["x-hub"]["tmpfs"]
    assert (volume["emptyDir"]["sizeLimit"], folder) == ("1Gi", "/tmp:size=1g")
    assert MAX_SPOOLED_BYTES < 2**30


def test_images_are_built_from_what_a_wheel_needs_and_from_nothing_else():
    """The key of HAProxy is next to its configuration."""
    lines = [line for line in (PROJECT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    allowed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert lines[: 1 + len(allowed)] == ["*", *(f"!{each}" for each in allowed)]
    assert "**/*.pem" in lines  # after them, and a later line wins
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    project, hatch = settings["project"], settings["tool"]["hatch"]
    sources = {
        Path(each).parts[0] for each in (*hatch["build"]["targets"]["wheel"]["packages"], hatch["version"]["path"])
    }
    needed = {"pyproject.toml", "hatch_build.py", project["readme"], *project["license-files"], *sources}
    assert set(allowed) == {*needed, "dist/*.whl"}  # the latter for the Containerfile


@pytest.fixture
def front(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """HAProxy as deployed, apart from names and ports: the ports without and with TLS."""
    certificate = tmp_path / "hub.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout"]
    subprocess.run([*argv, certificate, "-out", tmp_path / "certificate"], check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + (tmp_path / "certificate").read_text())
    hubs = [Hub(str(tmp_path / f"hub{n}"), "", tmp_path / f"{n}.log") for n in (1, 2)]
    plain, encrypted = free_port(), free_port()
    names = {
        "bind :8790": f"bind 127.0.0.1:{plain}",
        "bind :8443": f"bind 127.0.0.1:{encrypted}",
        "/etc/haproxy/hub.pem": str(certificate),
        "timeout http-request 10s": "timeout http-request 1s",
        "sc0_conn_cur gt 4096": "sc0_conn_cur gt 20",
        **{f"hub{n}:8790": f"127.0.0.1:{hub.port}" for n, hub in enumerate(hubs, 1)},
    }
    config = (FOLDER / "haproxy.cfg").read_text()
    for old, new in names.items():
        assert config.count(old) == 1, old
        config = config.replace(old, new)
    (tmp_path / "haproxy.cfg").write_text(config)
    argv = [find_program("haproxy"), "-db", "-f", str(tmp_path / "haproxy.cfg")]
    with ExitStack() as stack:
        for server in (*hubs, Server(argv, plain, tmp_path / "haproxy.log")):
            stack.enter_context(running(server))
        yield plain, encrypted


def get_status(port: int, path: str, context: ssl.SSLContext | None = None) -> int:
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    with closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def test_haproxy_serves_the_hubs_with_and_without_tls_and_keeps_the_metrics_inside(front: tuple[int, int]):
    plain, encrypted = front
    unverified = ssl._create_unverified_context()  # the certificate was made a moment ago
    wait_until(lambda: get_status(plain, "/readyz") == 200, "a hub behind HAProxy")
    assert get_status(encrypted, "/readyz", unverified) == 200
    assert get_status(plain, "/v1/workspaces") == 401
    for path in ("/metrics", "/metrics?x=1", "/%6detrics", "/%6D%65trics", "/metrics/"):
        assert get_status(plain, path) == 403, path
        assert get_status(encrypted, path, unverified) == 403, path


def test_h5_haproxy_closes_connections_with_slow_headers_and_bounds_those_of_one_address(front: tuple[int, int]):
    plain, _ = front
    wait_until(lambda: get_status(plain, "/readyz") == 200, "a hub behind HAProxy")
    with ExitStack() as opened:
        lines: list[socket.socket] = []
        for _ in range(30):
            with suppress(ConnectionError):  # reset already
                line = opened.enter_context(socket.create_connection(("127.0.0.1", plain), timeout=30))
                lines.append(line)
                line.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-A: ")
        answers = [receive_all(line) for line in lines] + [b""] * (30 - len(lines))
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 408", b""}
    assert answers.count(b"") >= 5  # its threads do not accept in order
    wait_until(lambda: is_ready(plain), "room for a connection")


def is_ready(port: int) -> bool:
    """No while connections are refused: they are closed, or reset."""
    with suppress(ConnectionError):  # also http.client.RemoteDisconnected
        return get_status(port, "/readyz") == 200
    return False


def receive_all(line: socket.socket) -> bytes:
    """Until it is closed."""
    with suppress(ConnectionError):
        return b"".join(iter(lambda: line.recv(1000), b""))
    return b""
