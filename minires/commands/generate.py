"""`minires generate CHECKPOINT`: text from a trained model."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="written by `minires train --checkpoint`")
    parser.add_argument("--prompt", default="\n", help="how the text begins (default: a line break)")
    parser.add_argument("--length", type=int, default=300, metavar="N", help="characters to add (default: 300)")
    parser.add_argument(
        "--temperature", type=float, default=0.8, metavar="X", help="0: the likeliest each time (default: 0.8)"
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="draw among the K likeliest only (default: all)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the same seed gives the same text (default: 0)"
    )
    parser.add_argument("--load", metavar="FILE", help="a Python file of yours that registers the model's connection")


def run(args: argparse.Namespace) -> int:
    """Print the prompt and what the model adds."""
    from minires.commands.setup import machine, run_file, saved_names
    from minires.commands.train import make_settings
    from minires.messages import ValueProblem
    from minires.problems import alphabet, check_seed, decoder
    from minires.train import generate, load_checkpoint

    check_seed(args.seed)
    run_file(args.load)
    checkpoint = load_checkpoint(args.checkpoint)
    if "vocab" not in checkpoint.notes:
        hint = "Train one: minires train --data play --checkpoint FILE."
        raise ValueProblem("text needs a model that was trained on text", f"{args.checkpoint!r}", hint)
    vocab, settings = checkpoint.notes["vocab"], make_settings(checkpoint.notes["settings"])
    with saved_names(args.checkpoint):
        corpus, model = alphabet(vocab), decoder(len(vocab), settings["length"], settings)
    model.load_state_dict(checkpoint.model_state)
    with machine(None, 1):
        print(generate(model, corpus, args.prompt, args.length, args.temperature, args.top_k, args.seed))
    return 0
