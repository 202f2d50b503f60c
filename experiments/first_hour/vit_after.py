"""Certify one picture by a vision transformer: python vit.py FOLDER picture.png"""

import sys

import torch
from soundsmooth.compat import Smooth
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

folder, picture = sys.argv[1:3]
processor = AutoImageProcessor.from_pretrained(folder)
model = AutoModelForImageClassification.from_pretrained(folder).eval()

x = processor(Image.open(picture).convert("RGB"), do_normalize=False, return_tensors="pt")["pixel_values"][0]


class Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model((x - 0.5) / 0.5).logits  # as the processor would


smooth = Smooth(Logits(model), model.config.num_labels, 0.25)
prediction, radius = smooth.certify(x, 10, 100, 0.001, 50)
print(prediction, radius)
