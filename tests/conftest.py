"""One torch thread in every test process: small networks gain nothing from more, and workers would fight over cores."""

import torch

torch.set_num_threads(1)
