"""The notebook of the examples, run as Jupyter runs it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "python" / "first-steps.ipynb"


def texts(notebook: Any) -> dict[str, str]:
    """What each cell of code printed, by the cell's id."""
    return {
        cell.id: "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def figures(notebook: Any) -> list[str]:
    """The ids of the cells that drew a figure."""
    return [
        cell.id
        for cell in notebook.cells
        if cell.cell_type == "code" and any("image/png" in output.get("data", {}) for output in cell.outputs)
    ]


@pytest.fixture(scope="module")
def stored() -> Any:
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat: scripts/setup --integrations")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def executed(stored: Any, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: scripts/setup --integrations")
    for library in ("ipykernel", "matplotlib"):
        pytest.importorskip(library, reason=f"needs {library}: scripts/setup --integrations")
    if not (REPOSITORY / ".deps" / "all-MiniLM-L6-v2").exists():
        pytest.skip("no .deps/all-MiniLM-L6-v2: scripts/setup brings it")
    folder = tmp_path_factory.mktemp("jupyter")
    notebook = copy.deepcopy(stored)
    with pytest.MonkeyPatch.context() as environment:
        # Neither the settings nor the kernels of the user who runs the tests.
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            environment.setenv(name, str(folder / name.lower()))
        environment.delenv("MPLBACKEND", raising=False)
        client = nbclient.NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        )
        client.execute()
    return notebook


@pytest.mark.slow
def test_the_digit_is_recognized(executed: Any) -> None:
    assert texts(executed)["verdict"].startswith("ran on ")
    assert texts(executed)["run"].startswith("digit 7, probability ")


@pytest.mark.slow
def test_the_nearest_text_is_found_first(executed: Any) -> None:
    hits = texts(executed)["search"].splitlines()
    assert len(hits) == 3
    assert hits[0].endswith("  Heavy rain is expected tomorrow.")


@pytest.mark.slow
def test_figures_are_drawn(executed: Any) -> None:
    assert figures(executed) == ["digit-figure", "search-figure"]


@pytest.mark.slow
def test_the_server_answers_as_the_run(executed: Any) -> None:
    printed = texts(executed)["serve"].splitlines()
    assert printed == [texts(executed)["run"].strip(), "same logits as run(): True"]


@pytest.mark.slow
def test_the_stored_outputs_are_those_of_a_run(stored: Any, executed: Any, tmp_path: Path) -> None:
    import nbformat

    assert figures(stored) == []
    expected = texts(executed)
    # It depends on the machine.
    expected["verdict"] = texts(stored)["verdict"]
    if texts(stored) != expected:
        new, notebook = tmp_path / NOTEBOOK.name, copy.deepcopy(stored)
        for before, after in zip(notebook.cells, executed.cells, strict=True):
            if before.cell_type == "code":
                before.outputs = [output for output in after.outputs if output.output_type == "stream"]
        nbformat.write(notebook, new)
        pytest.fail(f"the notebook stores other outputs than it prints: compare it with {new}, and copy that over it")
