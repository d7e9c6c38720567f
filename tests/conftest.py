"""Settings for the whole suite. Lessons' graders do without this file: they also run from an installed course."""

import os

import pytest
from hypothesis import settings

# No deadline: the first call of a kernel compiles. On CI the examples are always the same ones.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def registries_stay_as_they_are():
    """A rule, recipe or experiment that one test registers is gone for the next."""
    from minires.experiments import EXPERIMENTS
    from minires.models import RECIPES
    from minires.residual import CONNECTIONS

    before = [(registry, dict(registry)) for registry in (CONNECTIONS, RECIPES, EXPERIMENTS)]
    yield
    for registry, entries in before:
        if registry != entries:
            registry.clear()
            registry.update(entries)
