"""Models by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpux


def test_a_model_is_stored_found_tagged_and_removed(digits: Path, tmp_path: Path) -> None:
    store = gpux.Store(tmp_path)
    assert store.list() == []
    built = store.build(digits, "numbers:1.0")
    assert built.id.startswith("sha256:")
    assert built.size_bytes > 0
    assert store.verify("numbers:1.0") == []
    tagged = store.tag("numbers:1.0", "numbers:best")
    assert tagged.id == built.id
    assert sorted(f"{one.name}:{one.tag}" for one in store.list()) == ["numbers:1.0", "numbers:best"]
    found = store.find("numbers:best")
    assert found is not None
    assert found.id == built.id
    assert store.find("nobody") is None
    store.remove("numbers:1.0")
    store.remove("numbers:best")
    assert store.list() == []
    assert store.prune() >= 0
    with pytest.raises(gpux.NotFound):
        store.remove("numbers:best")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(gpux.Error) as raised:
        gpux.Store().import_folder(tmp_path, "nothing")
    assert raised.value.code in ("not_found", "invalid_model")
