"""Layers for torch models. They live apart, so that `import soundsmooth` does not import torch."""

from collections.abc import Sequence

import torch

__all__ = ["Normalize"]


# The source of this class is in the digests of the models that hold it: whoever edits it renames them.
class Normalize(torch.nn.Module):
    """(x − mean) / std for each channel of [batch, channels, height, width]: the first layer of a model.

    Noise is added to values in [0, 1], so a model that was trained on normalised images needs this layer inside:
    `torch.nn.Sequential(Normalize.cifar10(), network)`. It is not in the `state_dict`: checkpoints fit as they are.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        values = torch.tensor([[*mean], [*std]], dtype=torch.float32)
        if not values.isfinite().all() or not (values[1] > 0).all():
            raise ValueError(f"mean and std must be finite, and std positive: {[*mean]}, {[*std]}")
        for name, each in zip(("mean", "std"), values, strict=True):
            self.register_buffer(name, each.reshape(-1, 1, 1).clone(), persistent=False)

    @classmethod
    def imagenet(cls) -> "Normalize":
        """As torchvision's and most other weights for ImageNet expect it."""
        return cls((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    @classmethod
    def cifar10(cls) -> "Normalize":
        """As most training scripts for CIFAR-10 have it."""
        return cls((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-3] != len(self.mean):  # else one channel would become three
            raise ValueError(f"Normalize has {len(self.mean)} channels, and the images have shape {list(x.shape[1:])}")
        return (x - self.mean.to(x.dtype)) / self.std.to(x.dtype)

    def extra_repr(self) -> str:
        return f"mean={self.mean.flatten().tolist()}, std={self.std.flatten().tolist()}"
