"""Models that judge texts, against the answers of Hugging Face's pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, task_folder

import gpux


def answers(name: str) -> Any:
    return json.loads((REPOSITORY / "tests" / "pipeline" / "data" / name / "answers.json").read_text())


@pytest.fixture(scope="module")
def pipelines(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, gpux.Pipeline]:
    parent = tmp_path_factory.mktemp("tasks")
    loaded: dict[str, gpux.Pipeline] = {}
    for name in ("classify-bert", "rank-mpnet", "entities-bert", "answers-distilbert"):
        gpux.Store().import_folder(task_folder(name, parent), name)
        loaded[name] = gpux.Pipeline(name)
    return loaded


def test_tasks(pipelines: dict[str, gpux.Pipeline]) -> None:
    assert {name: one.task for name, one in pipelines.items()} == {
        "classify-bert": "text-classification",
        "rank-mpnet": "text-ranking",
        "entities-bert": "token-classification",
        "answers-distilbert": "question-answering",
    }


def test_classification(pipelines: dict[str, gpux.Pipeline]) -> None:
    pipeline = pipelines["classify-bert"]
    scores = pipeline.classify("the quick brown fox")
    assert abs(sum(one.score for one in scores) - 1) < 1e-6
    assert scores == sorted(scores, key=lambda one: -one.score)
    several = pipeline.classify(["the quick brown fox", "a dog"])
    assert [(one.label, one.score) for one in several[0]] == [(one.label, one.score) for one in scores]


def test_labels_of_the_caller(home: Path, tmp_path: Path, pipelines: dict[str, gpux.Pipeline]) -> None:
    folder = task_folder("classify-bert", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "entailment", "1": "neutral", "2": "contradiction"}
    (folder / "config.json").write_text(json.dumps(config))
    gpux.Store().import_folder(folder, "inference")
    with gpux.Pipeline("inference") as pipeline:
        scores = pipeline.zero_shot("a fox", ["animal", "city"], hypothesis_template="It is {}.")
        assert {one.label for one in scores} == {"animal", "city"}
        assert abs(sum(one.score for one in scores) - 1) < 1e-6
        each = pipeline.zero_shot(["a dog", "a fox"], ["animal", "city"], multi_label=True)
        assert len(each) == 2
        assert abs(sum(one.score for one in each[1]) - 1) > 1e-6
        with pytest.raises(gpux.InvalidInput, match="one str"):
            pipeline.zero_shot("a fox", "animal")
        with pytest.raises(gpux.InvalidInput, match="twice"):
            pipeline.zero_shot("a fox", ["animal", "animal"])
    with pytest.raises(gpux.Usage, match="entailment"):
        pipelines["classify-bert"].zero_shot("a fox", ["animal"])


def test_ranking(pipelines: dict[str, gpux.Pipeline]) -> None:
    ranked = pipelines["rank-mpnet"].rank("who jumps?", ["the fox", "a dog", "it rains"])
    assert sorted(one.index for one in ranked) == [0, 1, 2]
    assert ranked == sorted(ranked, key=lambda one: -one.score)


def test_entities_have_the_positions_of_the_text(pipelines: dict[str, gpux.Pipeline]) -> None:
    text = "the quick brown fox jumps over the lazy dog"
    for entity in pipelines["entities-bert"].find_entities(text):
        assert 0 <= entity.begin < entity.end <= len(text)
        assert entity.label


def test_answers(pipelines: dict[str, gpux.Pipeline]) -> None:
    context = "the quick brown fox jumps over the lazy dog"
    answer = pipelines["answers-distilbert"].answer("who jumps?", context)
    assert context[answer.begin : answer.end] == answer.text


def test_another_task_is_refused(pipelines: dict[str, gpux.Pipeline], digits: Path) -> None:
    with pytest.raises(gpux.Usage, match="text-classification"):
        pipelines["classify-bert"].answer("who?", "a fox")
    with pytest.raises(gpux.InvalidInput, match="one str"):
        pipelines["rank-mpnet"].rank("who?", "a fox")
    with pytest.raises(gpux.InvalidModel, match="reads no texts"):
        gpux.Pipeline(digits)
