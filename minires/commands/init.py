"""`minires init DIR`: a copy of the course to write in."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where to put the course; made if it is missing")
    parser.add_argument(
        "--force", action="store_true", help="renew files that you changed, too; yours are kept beside them"
    )


def run(args: argparse.Namespace) -> int:
    """Copy the lessons. Files that the learner changed stay as they are."""
    from minires.grading import init_course

    print(init_course(args.folder, args.force))
    print(f"Begin with {args.folder}/README.md.")
    return 0
