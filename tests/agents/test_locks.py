"""The packages of the agents are pinned by hash, and their lock names no registry."""

import json
from pathlib import Path

LOCK = Path(__file__).with_name("package-lock.json")


def test_the_lock_names_no_host():
    assert "://" not in LOCK.read_text(encoding="utf-8")


def test_every_package_of_the_lock_has_its_hash():
    _, *packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"].values()
    assert len(packages) > 10
    assert all(package["integrity"].startswith("sha512-") for package in packages)
