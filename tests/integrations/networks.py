"""Networks as their libraries write them, with random weights: nothing is downloaded.

Exporters and optimizers look at weights: a bias of zeros is left out, a factor of ones too. Fresh networks are full of
these and trained ones are not, so that a fresh network has another graph. `Network.module` moves all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

CLASSES = 10


@dataclass(frozen=True)
class Network:
    """How to make a network, and the side of the square images that it takes."""

    library: str
    make: Callable[[], nn.Module]
    side: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return 3, self.side, self.side

    def module(self) -> nn.Module:
        """For evaluation, with the same weights in every run, none of them zeros or ones throughout."""
        torch.manual_seed(0)
        return moved(self.make().eval())


def moved(network: nn.Module) -> nn.Module:
    """Every parameter and every running mean a little, and every running variance by up to a half."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
        for name, buffer in network.named_buffers():
            if name.endswith("running_mean"):
                buffer += 0.02 * torch.randn_like(buffer)
            elif name.endswith("running_var"):
                buffer *= 0.5 + torch.rand_like(buffer)
    return network


def scores_of(result: Any) -> Tensor:
    """What votes: the result itself, or the logits in the records that transformers returns."""
    return result if isinstance(result, Tensor) else result.logits


class Logits(nn.Module):
    """A network of transformers that returns its scores alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return scores_of(self.network(image))


def from_torchvision(name: str, side: int = 64, **options: Any) -> Network:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, num_classes=CLASSES, **options)

    return Network("torchvision", make, side)


def from_timm(name: str, side: int = 64, **options: Any) -> Network:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=CLASSES, **options)

    return Network("timm", make, side)


def hugging_face_vit(side: int = 224) -> nn.Module:
    """ViT-S/16, which returns a record."""
    from transformers import ViTConfig, ViTForImageClassification

    size = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
    return ViTForImageClassification(ViTConfig(image_size=side, num_labels=CLASSES, **size))


TORCHVISION = {
    "resnet18": from_torchvision("resnet18"),
    "resnet50": from_torchvision("resnet50"),
    "densenet121": from_torchvision("densenet121"),
    "mobilenet_v3_small": from_torchvision("mobilenet_v3_small"),
    "mobilenet_v3_large": from_torchvision("mobilenet_v3_large"),
    "efficientnet_v2_s": from_torchvision("efficientnet_v2_s"),
    "convnext_tiny": from_torchvision("convnext_tiny"),
    "regnet_y_400mf": from_torchvision("regnet_y_400mf"),
    "regnet_y_8gf": from_torchvision("regnet_y_8gf"),
    "googlenet": from_torchvision("googlenet", aux_logits=False, init_weights=False),
    "swin_t": from_torchvision("swin_t", 224),
    "vit_b_16": from_torchvision("vit_b_16", 224),
    "maxvit_t": from_torchvision("maxvit_t", 224),
}

HUGGING_FACE = {
    "hf_vit": Network("transformers", lambda: Logits(hugging_face_vit()), 224),
    "hf_vit_record": Network("transformers", hugging_face_vit, 224),
}

TIMM = {
    "vit_tiny": from_timm("vit_tiny_patch16_224", img_size=64),
    "deit_tiny_distilled": from_timm("deit_tiny_distilled_patch16_224", 224),
    "swinv2_tiny": from_timm("swinv2_tiny_window8_256", 256),
    "mixer_s32": from_timm("mixer_s32_224", 224),
    "mobilevit_xxs": from_timm("mobilevit_xxs"),
    "mobilenetv4_conv_small": from_timm("mobilenetv4_conv_small"),
    "tf_efficientnet_b0": from_timm("tf_efficientnet_b0"),
    "convnextv2_atto": from_timm("convnextv2_atto"),
    "poolformer_s12": from_timm("poolformer_s12"),
    "levit_128s": from_timm("levit_128s", 224),
    "nf_resnet26": from_timm("nf_resnet26"),
    "resnetv2_50x1_bit": from_timm("resnetv2_50x1_bit"),
    "eva02_tiny": from_timm("eva02_tiny_patch14_224", 224),
    "vit_small_rope": from_timm("vit_small_patch16_rope_224", 224),
}

NETWORKS = TORCHVISION | HUGGING_FACE | TIMM

#: Networks that onnxruntime's optimizer turns into others, rows apart as before: version 1.31.1 makes padding by zeros
#: a part of the max-pooling behind it (Pad_Fusion), where padding is by −∞. Not optimized, the scores are torch's.
REWRITTEN = {("resnetv2_50x1_bit", "onnx")}

#: Networks whose rows do see each other. GCViT of timm 1.0 orders its windows by row and then by window, but the
#: queries that it repeats for them by copy and then by row: windows meet the queries of other rows.
MIXING = {"gcvit_xxtiny": from_timm("gcvit_xxtiny", 224)}
