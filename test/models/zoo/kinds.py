"""One network, traced and scripted."""
from .case import Net


def both(name, build, inputs, **options):
    return {f"{name}, {kind}": Net(build, inputs, kind, **options) for kind in ("trace", "script")}
