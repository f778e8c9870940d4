"""Builds the image of `Containerfile`, from the wheel of this checkout, on a base that no registry is needed for."""

import os
from pathlib import Path

from tests.containers.engine import PROJECT, Engine, archive_of

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MIRROR_SETTINGS = ("PIP_INDEX_URL",)  # of this machine, if it has them
BUILD_SECONDS = 600
# What pip and the image's users trust: what this machine trusts.
BASE = "FROM {image}\nCOPY ca.crt /opt/ca.crt\nENV PIP_CERT=/opt/ca.crt\n"


def build_image(engine: Engine, base: str, wheel: Path) -> str:
    """The id of the image. The build uses the machine's network, for Debian's packages and PyPI."""
    trusting = archive_of({"Dockerfile": BASE.format(image=base).encode(), "ca.crt": CERTIFICATES.read_bytes()})
    base = engine.docker("build", "--quiet", "-", stdin=trusting).decode().strip()
    given = {"Containerfile": (PROJECT / "Containerfile").read_bytes(), f"dist/{wheel.name}": wheel.read_bytes()}
    options = ["--build-arg", f"BASE={base}", "--network", "host", "--file", "Containerfile"]
    for name in MIRROR_SETTINGS:
        if name in os.environ:
            options += ["--build-arg", f"{name}={os.environ[name]}"]
    built = engine.docker("build", "--quiet", *options, "-", stdin=archive_of(given), seconds=BUILD_SECONDS)
    return built.decode().strip()
