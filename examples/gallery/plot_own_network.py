"""
Your own network, with weights that it has already
==================================================

A plain convolutional network is trained on half of the digits, as anybody would. Then ``sae.wrap`` makes a
backbone of it that keeps its weights, with exits behind three of its layers, and a short training
teaches the exits.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import sae

torch.set_num_threads(1)
torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.images).float()[:, None] / 8 - 1, torch.tensor(digits.target)
old, new, test = slice(0, 700), slice(700, 1400), slice(1400, None)


def steps(parameters, loss_of, samples, count, test_nll):
    """Train for some steps, and return the test NLL after every 30 of them."""
    optimizer, losses = torch.optim.AdamW(parameters, lr=1e-3), []
    for step in range(count):
        batch = torch.randint(samples.start, samples.stop, (64,))
        loss = loss_of(x[batch], y[batch], step / count)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 29:
            losses.append(test_nll())
    return losses


# %%
# The network as it was: nothing of ours in it.

layers, channels = [], 1
for width in (16, 32, 64):
    layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
network = nn.Sequential(nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def plain_nll():
    """Return the NLL of the plain network on the test images."""
    with torch.no_grad():
        loss = F.cross_entropy(network.eval()(x[test]), y[test]).item()
    network.train()
    return loss


before = steps(network.parameters(), lambda a, b, _: F.cross_entropy(network(a), b), old, 300, plain_nll)[-1]

# %%
# Where could exits go? Begin with one input. With two, which need more steps, the first layer is widened so that two
# equal inputs give exactly what the network computed before.

print(sae.suggest_exits(network, x[0]))
backbone = sae.wrap(network, x[0], inputs=2, outputs=10, pretrained=True)
with torch.no_grad():
    same = torch.allclose(backbone.eval()(torch.cat([x[test], x[test]], 1))[-1], network.eval()[0](x[test]), atol=1e-4)
print("equal inputs give the features of the network:", same)

# %%
# Fine-tune on the other half, with the weights and without them, and follow the NLL on the test images.

fresh = sae.wrap(network, x[0], inputs=2, outputs=10)
figure, panel = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, source in (("SAE, its weights kept", backbone), ("SAE, fresh weights", fresh)):
    model = sae.SingleArchitectureEnsemble(source, sae.Classification(10), inputs=1, exits=2)
    losses = steps(
        model.parameter_groups(),
        model.loss,
        new,
        600,
        lambda model=model: F.nll_loss(model.predict(x[test]).mean.log(), y[test]).item(),
    )
    panel.plot(range(30, 601, 30), losses, label=f"{name}: {losses[-1]:.3f} at the end")
panel.axhline(before, color="gray", linestyle=":", label=f"the plain network, before: {before:.3f}")
panel.set(xlabel="step", ylabel="NLL on 397 test images", ylim=(0, 1), title="Pretrained weights give a head start")
panel.legend()
plt.show()
