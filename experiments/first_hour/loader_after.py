"""Certify test images: python loader.py network.pt 0.25 results.tsv"""

import argparse
import time

import torch
from soundsmooth.compat import Smooth
from network import Network
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("weights")
parser.add_argument("sigma", type=float)
parser.add_argument("outfile")
parser.add_argument("--skip", type=int, default=1)
parser.add_argument("--max", type=int, default=-1)
parser.add_argument("--N0", type=int, default=100)
parser.add_argument("--N", type=int, default=100000)
parser.add_argument("--alpha", type=float, default=0.001)
parser.add_argument("--batch", type=int, default=1000)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
model = Network()
model.load_state_dict(torch.load(args.weights, map_location=device))
model.to(device).eval()
smooth = Smooth(model, 10, args.sigma)

data = datasets.FashionMNIST("data", train=False, transform=transforms.ToTensor())
with open(args.outfile, "w") as out:
    print("idx\tlabel\tpredict\tradius\tcorrect\ttime", file=out, flush=True)
    for i, (x, label) in enumerate(DataLoader(data, batch_size=1)):
        if i % args.skip != 0:
            continue
        if i == args.max:
            break
        before = time.time()
        prediction, radius = smooth.certify(x[0].to(device), args.N0, args.N, args.alpha, args.batch)
        correct = int(prediction == label.item())
        seconds = time.time() - before
        print(f"{i}\t{label.item()}\t{prediction}\t{radius:.3}\t{correct}\t{seconds:.2f}", file=out, flush=True)
