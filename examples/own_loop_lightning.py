"""The same loop in Lightning: the module's loss is the training step, its prediction the validation.

Run: pip install 'saensemble[lightning]' && python examples/own_loop_lightning.py
"""

import logging
import warnings

import lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import sae


class LitEnsemble(lightning.LightningModule):
    """An ensemble in one network that Lightning trains."""

    def __init__(self) -> None:
        super().__init__()
        self.model = sae.SingleArchitectureEnsemble("fc", sae.Classification(10), inputs=1, exits=3, shape=(1, 8, 8))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """Return the loss; schedules follow Lightning's count of steps."""
        loss = self.model.loss(*batch, progress=self.global_step / self.trainer.estimated_stepping_batches)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        """Log the accuracy of the whole ensemble."""
        x, y = batch
        self.log("accuracy", (self.model.predict(x).mean.argmax(dim=1) == y).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return a plain optimiser."""
        return torch.optim.AdamW(self.model.parameter_groups(), lr=1e-3)


def main(epochs: int = 10) -> None:
    """Train on scikit-learn's digits and print the accuracy on samples that were held out."""
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.images).float()[:, None] / 16, torch.tensor(digits.target))
    train, held_out = (torch.utils.data.Subset(data, range(*ends)) for ends in ((0, 1400), (1400, len(data))))
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        gradient_clip_val=5.0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about workers, which samples in memory do not need
        trainer.fit(LitEnsemble(), DataLoader(train, 64, shuffle=True), DataLoader(held_out, 256))
    print(f"accuracy {trainer.callback_metrics['accuracy']:.3f} after {trainer.global_step} steps")


if __name__ == "__main__":
    main()
