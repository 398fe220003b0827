"""chorus in process: fuse K models, train them as one TorchScript module, write the weights back.

    fused = chorus.fuse(models, example_inputs=x, loss="cross_entropy", optimizer="adam", lr=[1e-3, 3e-4])
    for x, y in loader:
        losses = fused.train_step(x, y)        # [K]
    chorus.sync_(fused, models)

Options are those of the tool chorus-fuse, named in Python's way (weight_decay for --weight-decay).
"""
from chorus._core import Error
from chorus._fuse import fuse
from chorus._sync import sync_

__all__ = ["Error", "fuse", "sync_"]
