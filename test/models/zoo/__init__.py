"""The zoo: networks that people train, by family. `nets()` is the whole of it."""
from importlib import import_module
from importlib.util import find_spec

from .case import Net
from .judge import Verdict, judge

FAMILIES = ("attention", "encoders", "hugging", "timm_nets", "vision", "structures", "classics", "flow", "sequences", "gallery")


def nets():
    """name -> Net, e.g. 'attention/sdpa causal'. A family whose package is not installed is left out."""
    found = {}
    for family in FAMILIES:
        if find_spec(f"{__name__}.{family}") is None:
            continue
        for name, net in import_module(f"{__name__}.{family}").NETS.items():
            found[f"{family}/{name}"] = net
    return found


def missing(net):
    """Packages that the net needs and that are not installed."""
    return [package for package in net.needs if find_spec(package) is None]
