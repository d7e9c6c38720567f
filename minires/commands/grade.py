"""`minires grade`: run your exercises and name the mistake."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="an exercise, or a lesson by name or number (default: all)"
    )
    parser.add_argument("--solutions", action="store_true", help="grade the solutions instead of your files")
    parser.add_argument(
        "--course", metavar="DIR", help="the folder of the course (default: the one around this folder)"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="time limit for each exercise")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """0 if every exercise passed, 1 otherwise."""
    from minires import ui
    from minires.grading import Course, find_course, grade, print_grades

    course = Course(args.course or find_course())
    with ui.progress(len(course.select(args.ids)), "grading") as bar:
        grades = grade(
            args.ids,
            course=course,
            solutions=args.solutions,
            seconds=args.seconds,
            on_grade=lambda done: bar.advance(note=done.id),
        )
    write_json([g.as_dict() for g in grades], args.json)
    if args.json != "-":
        print_grades(grades)
    return 0 if all(g.status == "passed" for g in grades) else 1
