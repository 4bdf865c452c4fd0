"""
Reading θ: which depths are used, and why
=========================================

Each input has a distribution over the depths of the network, which is learnt with the weights. Here it is
followed during training, for one exit and for three.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import sae

torch.set_num_threads(1)
torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.images).float()[:, None] / 8 - 1, torch.tensor(digits.target)


def follow(exits: int, steps: int = 400) -> tuple[sae.SingleArchitectureEnsemble, torch.Tensor]:
    """Train with K exits, and return the network with θ along the way."""
    model = sae.SingleArchitectureEnsemble("fc", sae.Classification(10), 1, exits, shape=(1, 8, 8), seed=0)
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3)
    seen = []
    for step in range(steps):
        batch = torch.randint(1400, (64,))
        loss = model.loss(x[batch], y[batch], progress=step / steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 10 == 9:
            settings = model.method.settings.temperature
            temperature = settings.start + (settings.end - settings.start) * step / steps
            seen.append(model.method.exit_distribution.probs(temperature)[0].detach())
    print(f"K={exits}: weights of the exits at the end {model.exit_weights()[0].numpy().round(2)}")
    return model, torch.stack(seen)


# %%
# With K=1 the network must decide for one depth; with K=3 the three best share the work. The temperature falls
# during training, which sharpens θ.

figure, panels = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True, layout="constrained")
for panel, exits in zip(panels, (1, 3), strict=True):
    model, seen = follow(exits)
    for depth in range(seen.shape[1]):
        panel.plot(range(10, 401, 10), seen[:, depth], label=f"exit {depth + 1}")
    panel.set(title=f"K={exits}", xlabel="step", ylabel="θ, the probability of an exit")
panels[1].legend()
plt.show()

# %%
# In both, the deepest exit gains most and the shallowest loses most. So the trained network can be read at fewer
# exits, the best ones by θ. Exits that are not read are cut off; because the deepest is kept, no stage is saved
# here, only connectors and heads.

for exits in (1, 2, 3):
    weights = model.exit_weights(exits)[0]
    kept = [depth + 1 for depth in range(5) if weights[depth] > 0]
    flops = sae.measure_cost(model.prune(exits).network, (1, 8, 8)).flops
    right = (model.predict(x[1400:], exits=exits).mean.argmax(dim=1) == y[1400:]).float().mean()
    print(f"K′={exits}: exits {kept}, {flops:,} FLOPs, accuracy {right:.3f}")
