"""The client packages are pinned by hash, and the locks name no index."""

import json

from tests.clients.party import HERE


def test_the_locks_name_no_host():
    for name in ("package-lock.json", "requirements.lock"):
        assert "://" not in (HERE / name).read_text(encoding="utf-8")


def test_every_package_of_the_lock_has_its_hash():
    _, *packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"].values()
    assert len(packages) > 100
    assert all(package["integrity"].startswith("sha512-") for package in packages)
