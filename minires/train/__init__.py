"""Training: optimisers, schedules, clipping, the loop, checkpoints, and writing with a trained model.

flat.py, updates.py, optimizers.py   parameters in one flat array, the update rules on it, and SGD, Adam, AdamW
clipping.py, schedules.py            the global gradient norm, and the learning rate over time
loop.py, checks.py, history.py       `fit`, what it asks of a batch, and what it leaves behind
checkpoint.py                        one .npz file from which a run goes on with the same bits
generate.py                          text from a language model
"""

from minires.train import schedules
from minires.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from minires.train.clipping import clip_grad_norm, clip_gradients, global_norm
from minires.train.generate import generate, generate_ids
from minires.train.history import History, find_spikes
from minires.train.loop import Trainer, evaluated, fit, loss_and_gradients, mean_loss
from minires.train.optimizers import OPTIMIZERS, SGD, Adam, AdamW, Optimizer, get_optimizer
from minires.train.schedules import SCHEDULES, get_schedule

__all__ = [
    "OPTIMIZERS", "SCHEDULES", "SGD", "Adam", "AdamW", "Checkpoint", "History", "Optimizer", "Trainer",
    "clip_grad_norm", "clip_gradients", "evaluated", "find_spikes", "fit", "generate", "generate_ids", "get_optimizer",
    "get_schedule", "global_norm", "load_checkpoint", "loss_and_gradients", "mean_loss", "save_checkpoint", "schedules",
]  # fmt: skip
