"""Writes a traced network of a convolution and a batch norm to the given path."""
import sys

import torch

net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
torch.jit.trace(net, torch.randn(2, 3, 8, 8)).save(sys.argv[1])
