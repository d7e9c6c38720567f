"""Shipped data and generators. Nothing here touches the network, and a seed gives the same arrays everywhere.

`hamlet` and `CharCorpus` are text for language models, `digits` is the small image set, `tasks` holds synthetic
problems whose best possible loss is known, and `minibatches` cuts arrays into shuffled pieces.
`CREDITS.md` beside this file names the sources and their licences.
"""

from minires.data.batches import minibatches
from minires.data.corpus import Baselines, CharCorpus, hamlet
from minires.data.digits import Digits, digits
from minires.data.tasks import (
    IGNORE,
    SequenceTask,
    copy_task,
    induction,
    modular_addition,
    modular_table,
    reversal,
)

__all__ = [
    "IGNORE",
    "Baselines",
    "CharCorpus",
    "Digits",
    "SequenceTask",
    "copy_task",
    "digits",
    "hamlet",
    "induction",
    "minibatches",
    "modular_addition",
    "modular_table",
    "reversal",
]
