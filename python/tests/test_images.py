"""Embeddings of images, against transformers' answers of tests/importer/images."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPOSITORY

import gpux
from gpux._program import program

REFERENCES = REPOSITORY / "tests/importer/images"
PICTURES = REPOSITORY / "tests/image/pictures"


def imported(name: str, folder: Path) -> Path:
    made = folder / name
    subprocess.run([program(), "import", str(REFERENCES / name), "-o", str(made), "-q"], check=True)
    return made


def answers_of(name: str) -> tuple[dict[str, Any], list[Path]]:
    answers = json.loads((REFERENCES / name / "answers.json").read_text())
    return answers, [PICTURES / picture for picture in answers["pictures"]]


def test_texts_and_images_in_one_space(tmp_path: Path) -> None:
    answers, pictures = answers_of("clip-vit-base-patch32")
    with gpux.Embedder(imported("clip-vit-base-patch32", tmp_path)) as embedder:
        vectors = embedder.encode_images([str(pictures[0]), pictures[1], pictures[2].read_bytes()])
        assert vectors.dtype == np.float32
        assert vectors.shape == (3, embedder.dimension)
        np.testing.assert_allclose(vectors, answers["images"], atol=2e-5)
        np.testing.assert_allclose(embedder.encode(answers["text"]), answers["texts"], atol=2e-5)
        cut = embedder.encode_images(pictures, dimensions=5)
        assert cut.shape == (3, 5)
        np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1, rtol=1e-5)
    with pytest.raises(gpux.Usage, match="closed"):
        embedder.encode_images(pictures)


def test_models_of_images_alone(tmp_path: Path) -> None:
    answers, pictures = answers_of("dinov2-small")
    model = imported("dinov2-small", tmp_path)
    with gpux.ImageEmbedder(model, workers=2) as embedder:
        many = embedder.encode(pictures * 50)
        np.testing.assert_allclose(many[:3], answers["images"], atol=2e-5)
        assert many[147:].tobytes() == many[:3].tobytes()
        assert embedder.encode([]).shape == (0, embedder.dimension)
        assert embedder.verdict.active == ["cpu"]
        assert len(embedder.digest) == 64
    with pytest.raises(gpux.Usage, match="not of texts"):
        gpux.Embedder(model)


def test_pixels_are_those_of_the_file(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    embedder = gpux.ImageEmbedder(imported("vit-base-patch16", tmp_path))
    file = PICTURES / "png-rgb.png"
    picture = image.open(file)
    pixels = np.asarray(picture.convert("RGB"))
    expected = embedder.encode([file])
    assert embedder.encode([picture]).tobytes() == expected.tobytes()
    assert embedder.encode([pixels]).tobytes() == expected.tobytes()
    assert embedder.encode([pixels[:, ::-1][:, ::-1]]).tobytes() == expected.tobytes()


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    embedder = gpux.ImageEmbedder(imported("vit-base-patch16", tmp_path))
    file = PICTURES / "png-rgb.png"
    pixels = np.zeros((8, 9, 3), np.uint8)
    assert embedder.encode([pixels]).shape == (1, embedder.dimension)
    for wrong, error, words in (
        (b"hello", gpux.InvalidInput, "image 1"),
        (tmp_path / "none.png", gpux.NotFound, "none.png"),
        (pixels.astype(np.float32), gpux.InvalidInput, "uint8"),
        (pixels[:, :, 0], gpux.InvalidInput, "height, width, 3"),
        (np.zeros((0, 9, 3), np.uint8), gpux.InvalidInput, "height, width, 3"),
        (np.zeros((6000, 6000, 3), np.uint8), gpux.InvalidInput, "max_pixels"),
        (3, gpux.InvalidInput, "an image is a int"),
    ):
        with pytest.raises(error, match=words):
            embedder.encode([file, wrong])
    for one in (str(file), file.read_bytes(), pixels):
        with pytest.raises(gpux.Usage, match="give a list"):
            embedder.encode(one)
    with pytest.raises(gpux.Usage, match="dimensions"):
        embedder.encode([file], dimensions=0)
    with pytest.raises(gpux.Usage, match="16"):
        embedder.encode([file], dimensions=17)


def test_labels_of_the_caller(tmp_path: Path) -> None:
    answers, images = answers_of("clip-vit-base-patch32")
    model = imported("clip-vit-base-patch32", tmp_path)
    labels = answers["labels"]
    with gpux.ZeroShotImageClassifier(model, labels, label_template=answers["template"]) as classifier:
        all_scores = classifier.classify([str(images[0]), images[1], images[2].read_bytes()])
        for scores, expected in zip(all_scores, answers["probabilities"], strict=True):
            assert [one.score for one in scores] == sorted((one.score for one in scores), reverse=True)
            for one in scores:
                assert one.score == pytest.approx(expected[labels.index(one.label)], abs=1e-3)
        assert classifier.verdict.active == ["cpu"]
        with pytest.raises(gpux.Usage, match="give a list"):
            classifier.classify(images[0])  # type: ignore[arg-type]
        with pytest.raises(gpux.InvalidInput, match="image 1"):
            classifier.classify([images[0], b"hello"])
    with pytest.raises(gpux.Usage, match="closed"):
        classifier.classify(images)
    for wrong in (["cat", "cat"], [], [""]):
        with pytest.raises(gpux.InvalidInput, match="label"):
            gpux.ZeroShotImageClassifier(model, wrong)
    with pytest.raises(gpux.InvalidInput, match="pass a list"):
        gpux.ZeroShotImageClassifier(model, "cat")
