"""Graders run on the solutions here; `minires grade` runs them on a learner's file."""

from minires.grading.plugin import answer  # noqa: F401
