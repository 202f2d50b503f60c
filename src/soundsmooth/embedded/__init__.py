"""What comes with the package: 1000 Fashion-MNIST test images and two small classifiers trained under noise.

How they were made and what they reach: experiments/embedded.
"""

from fractions import Fraction
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
IMAGES = FOLDER / "fashion_mnist.npz"
MODELS = {
    Fraction(1, 4): FOLDER / "fashion_mnist_sigma0.25.onnx",
    Fraction(1, 2): FOLDER / "fashion_mnist_sigma0.50.onnx",
}


def model_for(sigma: Fraction) -> Path:
    """The classifier trained under the noise nearest to σ."""
    return MODELS[min(MODELS, key=lambda trained: abs(trained - sigma))]
