"""Small models for the tests of shipping: built, stirred and exported without a run folder."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn

from sae.config.run import DataConfig
from sae.core.task import DataSpec, Regression, SampleKind
from sae.data.catalogue import load
from sae.data.dataset import Dataset, Split, signal_normalisation
from sae.deploy.graph import ShippedGraph, graph_content
from sae.deploy.session import Session
from sae.methods import Batch, Method, build_method
from sae.methods.sae import Sae
from tests.builders import SHAPES, SMALL_BACKBONES, method_settings, skip_refused


def digits() -> Dataset:
    return load(DataConfig(name="digits"))


def digit_signals() -> Dataset:
    """The digits as signals: a row of pixels is a channel, a column a time step."""
    dataset = digits()

    def as_signals(split: Split) -> Split:
        return Split(split.inputs[:][:, 0].astype(np.float64), split.targets)

    parts: dict[str, Any] = {name: as_signals(dataset.split(name)) for name in ("train", "val", "test")}
    spec = DataSpec((16, 16), dataset.spec.task)
    normalisation = signal_normalisation(parts["train"].inputs)
    return dataclasses.replace(dataset, spec=spec, normalisation=normalisation, **parts)


def as_values(dataset: Dataset) -> Dataset:
    """Classes as values far from 0 and far apart, so that units matter."""

    def with_values(split: Split) -> Split:
        return Split(split.inputs, (100 * split.targets + 500).astype(np.float32))

    parts: dict[str, Any] = {name: with_values(dataset.split(name)) for name in ("train", "val", "test")}
    spec = DataSpec(dataset.spec.shape, Regression(mean=950.0, std=287.0))
    return dataclasses.replace(dataset, spec=spec, class_names=None, **parts)


def digit_values() -> Dataset:
    """The digits as values."""
    return as_values(digits())


def digits_for(backbone: str) -> Dataset:
    """The digits as the samples that a backbone takes."""
    return digit_signals() if SampleKind.of(SHAPES[backbone]) is SampleKind.SIGNALS else digits()


def stirred_method(name: str, backbone: str, dataset: Dataset) -> Method:
    """A few steps on real samples, so that weights, statistics and exits are no longer those of the start."""
    skip_refused(name, backbone)
    method = build_method(method_settings(name), SMALL_BACKBONES[backbone], dataset.spec, seed=3).train()
    for module in method.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.momentum = 0.7  # statistics that fit after a few steps, as they do after training
    optimizer = torch.optim.Adam(method.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    x = torch.from_numpy(dataset.train.inputs[:32]).float() / 100
    targets = torch.from_numpy(dataset.train.targets[:32])
    if isinstance(dataset.spec.task, Regression):
        mean, std = (torch.tensor(moment) for moment in (dataset.spec.task.mean, dataset.spec.task.std))
        targets = (targets - mean) / std
    for step in range(4):
        optimizer.zero_grad()
        for stream in range(method.num_streams):
            method.training_loss(Batch(x, targets, stream), step / 3, generator).total.backward()
        optimizer.step()
    with torch.no_grad():
        for name, values in (*method.named_parameters(), *method.named_buffers()):
            if values.is_floating_point() and not name.endswith("weights"):  # no two tensors alike, or a file holds one
                values.add_(1e-3 * torch.rand(values.shape, generator=generator) * values.abs().clamp_min(1e-2))
        if isinstance(method, Sae):
            method.exit_distribution.logits.copy_(
                torch.randn(method.exit_distribution.logits.shape, generator=generator) * 0.1
            )
    return method.eval()


def exported(method: Method, dataset: Dataset, eval_exits: int | None = None) -> tuple[bytes, Session]:
    graph = ShippedGraph(method.pruned(eval_exits).folded(dataset.spec.shape), dataset)
    content = graph_content(graph, dataset)
    return content, Session(content)
