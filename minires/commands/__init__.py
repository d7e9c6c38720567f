"""The commands of `minires`, one file each: `add_arguments(parser)` and `run(args) -> exit code`.

A command's file imports NumPy and everything heavy inside `run`, so that its `--help` answers at once.
A new command is a new file here and one line in `minires/cli.py`.
"""
