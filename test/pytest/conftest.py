"""Makes tools/python and test/models importable, and keeps PyTorch on one thread."""
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "test" / "models")]

from training_case import both, single  # noqa: E402, F401  (fixtures)
