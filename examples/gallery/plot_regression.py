"""
Regression in one dimension: noise and disagreement
===================================================

Every member predicts a mean and a variance. The variance of the ensemble is the mean of the members'
variances, the noise that they see in the data, plus the variance of their means: their disagreement, which should
grow where there were no data.
"""

import matplotlib.pyplot as plt
import torch

import sae

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
x = torch.cat([torch.rand(60, generator=generator) * 2 - 3, torch.rand(60, generator=generator) * 2 + 1])[:, None]
y = torch.sin(2 * x[:, 0]) + 0.15 * torch.randn(len(x), generator=generator)


def fit(inputs: int, exits: int, steps: int = 1000) -> sae.SingleArchitectureEnsemble:
    """Train a network on all points."""
    task = sae.Regression(float(y.mean()), float(y.std()))
    model = sae.SingleArchitectureEnsemble("fc", task, inputs, exits, shape=(1,), seed=0)
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=2e-3)
    for step in range(steps):
        loss = model.loss(x, y, progress=step / steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return model


# %%
# One exit, then all five, then two inputs with all five each.

line = torch.linspace(-5, 5, 201)[:, None]
figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for panel, (inputs, exits) in zip(panels, [(1, 1), (1, 5), (2, 5)], strict=True):
    found = fit(inputs, exits).predict(line)
    means = found.members[..., 0]
    total = found.variance.sqrt()
    between = means.std(dim=1, correction=0)
    panel.fill_between(
        line[:, 0], found.mean - 2 * total, found.mean + 2 * total, color="tab:blue", alpha=0.2, label="± 2 std"
    )
    panel.fill_between(
        line[:, 0],
        found.mean - 2 * between,
        found.mean + 2 * between,
        color="tab:orange",
        alpha=0.4,
        label="± 2 std between members",
    )
    panel.plot(line[:, 0], torch.sin(2 * line[:, 0]), color="gray", linestyle=":", label="the truth")
    panel.plot(line[:, 0], found.mean, color="tab:blue", label="predicted mean")
    panel.scatter(x[:, 0], y, s=4, color="black")
    members = means.shape[1]
    panel.set(title=f"N={inputs}, K={exits}: {members} member{'s' if members > 1 else ''}", ylim=(-3, 3))
panels[0].legend(loc="upper right", fontsize=8)
plt.show()

# %%
# One exit cannot disagree with itself: beyond the points it is sure, and wrong. Several exits disagree in
# the gap and on the right; on the left, those of one input agree on a wrong line, and only those of two inputs show
# doubt. Disagreement is a sign of strange inputs, not a promise. (An exit whose weight fell below 0.001 is
# dropped, so there may be fewer than N · K members.)
