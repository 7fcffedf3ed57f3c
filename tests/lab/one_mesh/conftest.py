"""One mesh for all files of this folder: building it takes longer than most tests. Each test leaves it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.stage import Stage, stage


@pytest.fixture(scope="package")
def mesh(tmp_path_factory) -> Iterator[Stage]:
    """Six daemons with the settings of a test, all well."""
    with stage(tmp_path_factory.mktemp("one-mesh")) as built:
        yield built
