"""Certify one image by a checkpoint that several GPUs trained: python checkpoint.py checkpoint.pth.tar images.npz 0"""

import sys

import numpy as np
import torch
from soundsmooth.compat import Smooth
from network import Network

path, data, index = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = torch.nn.DataParallel(Network())
checkpoint = torch.load(path, map_location="cpu")
model.load_state_dict(checkpoint["state_dict"])
model.eval()

x = torch.from_numpy(np.load(data)["x"][index]).float() / 255
smooth = Smooth(model, 10, 0.25)
prediction, radius = smooth.certify(x, 100, 1000, 0.001, 500)
print(prediction, radius)
