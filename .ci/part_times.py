"""A pytest plugin: the seconds that each folder of tests took, printed above pytest's closing line."""

from collections import Counter

_seconds: Counter[str] = Counter()
_tests: Counter[str] = Counter()


def pytest_runtest_logreport(report):
    folder = report.nodeid.split("::")[0].rpartition("/")[0]
    _seconds[folder] += report.duration
    _tests[folder] += report.when == "call"


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("time of each part")
    for folder, seconds in _seconds.most_common():
        terminalreporter.write_line(f"{seconds:8.1f} s  {_tests[folder]:6d} tests  {folder}")
