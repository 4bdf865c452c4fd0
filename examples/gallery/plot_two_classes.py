"""
Two classes in the plane: doubt as exits and inputs are added
=============================================================

Three networks learn the same 60 points: one exit, all five exits, and all five exits with two inputs. The
colour is the probability of a class. Far from the points, a good network should turn pale.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons

import sae

torch.set_num_threads(1)
points, labels = make_moons(60, noise=0.2, random_state=0)
x, y = torch.tensor(points).float(), torch.tensor(labels)
x = (x - x.mean(0)) / x.std(0)


def fit(inputs: int, exits: int, steps: int = 800) -> sae.SingleArchitectureEnsemble:
    """Train a network on all points."""
    model = sae.SingleArchitectureEnsemble("fc", sae.Classification(2), inputs, exits, shape=(2,), seed=1)
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3, weight_decay=1e-5)
    for step in range(steps):
        loss = model.loss(x, y, progress=step / steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return model


# %%
# A network is trained with at most K exits per input, and read at any number. ``predict`` returns the mixture,
# and what each member says.

axis = torch.linspace(-4, 4, 81)
grid = torch.cartesian_prod(axis, axis)
figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for panel, (inputs, exits) in zip(panels, [(1, 1), (1, 5), (2, 5)], strict=True):
    model = fit(inputs, exits)
    found = model.predict(grid)
    shown = found.mean[:, 1].reshape(81, 81).T.numpy()
    field = panel.imshow(shown, extent=(-4, 4, -4, 4), origin="lower", cmap="RdBu", alpha=0.8, vmin=0, vmax=1)
    for label, colour in ((0, "darkred"), (1, "navy")):
        panel.scatter(*x[y == label].T.numpy(), color=colour, edgecolors="white", s=28)
    members = found.members.shape[1]
    panel.set_title(f"N={inputs}, K={exits}: {members} member{'s' if members > 1 else ''}")
figure.colorbar(field, ax=panels, label="probability of the blue class")
plt.show()

# %%
# Five exits alone change little here. Two inputs widen the band of doubt between the classes, above and below the
# points. To the left and to the right all three networks stay sure: being far away is not enough to be in doubt.
#
# The disagreement of the members is 0 for one member, by definition; with several it is doubt that no
# single network can show.
near, elsewhere = model.predict(x).disagreement, found.disagreement
print(f"disagreement: {near.mean():.4f} at the points on average, at most {elsewhere.max():.4f} elsewhere")
