"""Entries that are not batched, and why: (status, reason). An entry that is better than its line fails the full run."""

OPS = {}
MODULES = {}
