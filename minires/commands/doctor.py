"""`minires doctor`: what this installation is, and what to do about its problems."""

from __future__ import annotations

import argparse

from minires.commands.output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """0 if nothing is wrong, 1 otherwise."""
    from minires import doctor, ui

    findings = doctor.examine()
    write_json(doctor.report(findings), args.json)
    if args.json != "-":
        ui.table([(f.status, f.about, f.value) for f in findings], columns=["", "what", "found"])
        for f in findings:
            if f.advice:
                print(f"{f.status}: {f.about} is {f.value}. {f.advice}")
        print(
            "Everything is in order."
            if doctor.healthy(findings)
            else "Fix the problems above, then run `minires doctor` again."
        )
    return 0 if doctor.healthy(findings) else 1
