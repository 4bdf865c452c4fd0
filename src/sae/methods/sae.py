"""Single architecture ensemble (SAE): N inputs, an exit at every depth, and K learnt exits per input."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from sae.backbones import build_backbone
from sae.backbones.streams import in_streams
from sae.config.backbones import BackboneSource
from sae.config.methods import SaeConfig
from sae.core.errors import ConfigError
from sae.core.predictive import Guidance
from sae.core.task import DataSpec
from sae.ensemble.exit_distribution import ExitDistribution
from sae.ensemble.network import MultiExitNetwork, repeat_sample
from sae.ensemble.pruning import PrunedNetwork, active_counts
from sae.ensemble.training import exit_loss, expected_cost, mix_indices, negative_elbo, teacher_of
from sae.measure.cost import measure_cost
from sae.methods.base import Batch, Loss, Method, ParameterGroup

LOGITS, STORED_LOGITS = "exit_distribution.logits", "exits.logits"
"""The name of the exit logits in the method, and their name in files of weights."""


class Sae(Method):
    """SAE; a member is a pair (input, exit) of weight θ*/N, ordered by input, then exit.

    With G streams, every stream predicts for all inputs. A slot is then a pair (stream, input), ordered by stream, and
    takes the place of an input wherever exits are chosen; without streams a slot is an input.

    In a trimmed network, weights that were chosen after training replace θ*/N.
    """

    chosen: Tensor | None

    def __init__(self, settings: SaeConfig, backbone: BackboneSource, spec: DataSpec) -> None:
        settings.check(backbone)
        super().__init__(spec.task, backbone.depth, settings.exits)
        self.settings, self.sample_shape = settings, spec.shape
        built = in_streams(build_backbone(backbone, spec.shape, settings.inputs), settings.streams)
        self.network = MultiExitNetwork(
            built,
            settings.inputs,
            spec.task.num_outputs,
            shared_head=settings.shared_head,
            exit_gradient=settings.exit_gradient,
            num_streams=settings.streams,
        )
        self.num_slots = settings.num_slots
        self.exit_distribution = ExitDistribution(
            self.num_slots, backbone.depth, is_learnt=settings.learn_exits, noise_on=settings.noise_on
        )
        is_trimmed = settings.trim is not None
        self.register_buffer("chosen", torch.zeros(self.num_slots, backbone.depth) if is_trimmed else None)
        self.register_state_dict_post_hook(_to_stored_name)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_from_stored_name)  # type: ignore[no-untyped-call]

    @property
    def repetition(self) -> int:
        """R, the batch repetition; 1 for one input, because repeating would not change the gradient."""
        return 1 if self.settings.inputs == 1 else self.settings.batch_repetition

    @property
    def smallest_batch(self) -> int:
        """The fewest samples of a training batch; one is enough if it is repeated."""
        return 2 if self.repetition == 1 else 1

    def trained_networks(self) -> list[nn.Module]:
        """Return the network; the draws around it follow schedules, and would be compiled again and again."""
        return [self.network]

    @property
    def exit_choices(self) -> tuple[int, ...]:
        """The numbers of exits K′ at which this method can predict: all up to the depth, or K once it is trimmed."""
        return tuple(range(1, self.depth + 1)) if self.chosen is None else (self.exits,)

    def resolve_exits(self, eval_exits: int | None) -> int:
        """Return K′, or the trained K if none is given; refuse any other K′ of a trimmed network."""
        if self.chosen is not None and eval_exits not in (None, self.exits):
            raise ConfigError(
                f"a trimmed network predicts with its chosen members only, got K′ = {eval_exits}: "
                f"leave --eval-exits out, or use the run that was trimmed"
            )
        return super().resolve_exits(eval_exits)

    @property
    def temperature(self) -> float:
        """T at the current progress."""
        return self.settings.temperature.at(self.progress)

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the negative ELBO of one mixed batch, with one relaxed top-K sample of exit weights."""
        if self.chosen is not None:
            raise ConfigError("method.trim must not be set for training: train without it, then use `sae trim`")
        self.progress = progress
        index = mix_indices(
            len(batch.targets),
            self.settings.inputs,
            self.repetition,
            self.settings.repeat_fraction.at(progress),
            generator,
        ).to(batch.targets.device)
        # index_select copies whole rows: 4 × faster here than batch.inputs[index]
        inputs = batch.inputs.index_select(0, index.flatten()).unflatten(0, index.shape)
        outputs = self.network(inputs)  # (position, slot, exit, out)
        streams = self.settings.streams
        seen = index if streams == 1 else index.repeat(1, streams)  # (position, slot)
        sample_weights = None if batch.weights is None else batch.weights[seen]
        losses = exit_loss(self.task, outputs, batch.targets[seen], self._guidance(batch, seen), sample_weights)
        weights = self.exit_distribution.sample(self.exits, self.temperature, generator)
        elbo = negative_elbo(
            losses,
            weights,
            self.exit_distribution,
            self.temperature,
            self.settings.kl_weight.at(progress),
            scale=(batch.population or len(batch.targets)) if self.settings.scale_data_fit else 1,
        )
        terms = {"data_fit": elbo.data_fit, "kl": elbo.kl}
        if not self.settings.cost_weight:
            return Loss(elbo.loss, terms)
        theta = self.exit_distribution.probs(self.temperature)
        cost = expected_cost(theta, self.exit_costs.to(theta.device))
        return Loss(elbo.loss + self.settings.cost_weight * cost, {**terms, "cost": cost})

    def _guidance(self, batch: Batch, seen: Tensor) -> Guidance | None:
        """Return the guidance for each output, (position, slot, exit), given the sample that each slot sees."""
        if batch.guidance is None:
            return None
        teacher = teacher_of(batch.guidance.num_teachers, self.num_slots, self.depth)
        return batch.guidance.of(seen[:, :, None], teacher.to(seen.device))

    @cached_property
    def exit_costs(self) -> Tensor:
        """The FLOPs of a network with each exit alone, as shares of those of the network with all exits, (exit,)."""
        every = [self.num_slots] * self.depth
        alone = [[*[0] * j, self.num_slots, *[0] * (self.depth - 1 - j)] for j in range(self.depth)]
        with torch.random.fork_rng(devices=[]):  # new heads draw weights, which are overwritten
            whole, *single = (
                measure_cost(self.pruned_to(active), self.sample_shape).flops for active in (every, *alone)
            )
        return torch.tensor(single) / whole

    def member_outputs(self, x: Tensor) -> Tensor:
        """Return the outputs of all members: every slot at every exit."""
        outputs: Tensor = self.network(repeat_sample(x, self.settings.inputs))
        return outputs.flatten(1, 2)

    def exit_weights(self, eval_exits: int | None = None) -> Tensor:
        """Return θ*, (slot, exit); in a trimmed network, the chosen weights times the number of slots."""
        eval_exits = self.resolve_exits(eval_exits)
        if self.chosen is not None:
            return self.chosen * self.num_slots
        return self.exit_distribution.weights(eval_exits, self.temperature)

    def member_weights(self, eval_exits: int | None = None) -> Tensor:
        """Return θ* over the number of slots, (slot·exit,)."""
        return self.exit_weights(eval_exits).flatten() / self.num_slots

    def choose(self, weights: Tensor) -> None:
        """Replace the chosen weights of a trimmed network."""
        assert self.chosen is not None, "method.trim must be set"
        self.chosen.copy_(weights.view_as(self.chosen))

    def active_counts(self, eval_exits: int | None = None) -> tuple[int, ...]:
        """Count the slots that use each exit, shallowest first."""
        return active_counts(self.exit_weights(eval_exits))

    def pruned(self, eval_exits: int | None = None) -> PrunedNetwork:
        """Return a new network with only the used exits, head rows and stages, and the inputs that use any."""
        weights = self.exit_weights(eval_exits)
        slots: list[int] = (weights > 0).any(dim=1).nonzero().flatten().tolist()
        return PrunedNetwork(self.network, weights, sorted({slot % self.settings.inputs for slot in slots}))

    def pruned_to(self, active: Sequence[int], kept_inputs: int | None = None) -> PrunedNetwork:
        """Return a new network in which the first `active[j]` slots use exit j, instead of the learnt choice."""
        num_slots = self.num_slots
        if len(active) != self.depth or not all(0 <= count <= num_slots for count in active) or not any(active):
            raise ConfigError(
                f"active must hold {self.depth} counts in [0, {num_slots}], one for each exit and not all 0, "
                f"got {','.join(map(str, active))}"
            )
        used = torch.arange(num_slots)[:, None] < torch.tensor(active)  # (slot, exit)
        return PrunedNetwork(self.network, used.float(), range(kept_inputs or self.settings.inputs))

    def parameter_groups(self) -> list[ParameterGroup]:
        """Return two groups: the weights, and the exit logits, which do not decay."""
        return [
            ParameterGroup("grad_norm", list(self.network.parameters())),
            ParameterGroup("logit_grad_norm", [self.exit_distribution.logits], decays=False),
        ]

    def observables(self) -> dict[str, float]:
        """Return the current values of the schedules, and θ by slot and exit."""
        settings, progress = self.settings, self.progress
        theta = self.exit_distribution.probs(self.temperature).tolist()
        return {
            "temperature": self.temperature,
            "kl_weight": settings.kl_weight.at(progress),
            "repeat_fraction": settings.repeat_fraction.at(progress),
            **{f"theta_{i}_{j}": value for i, row in enumerate(theta) for j, value in enumerate(row)},
        }


def _to_stored_name(_module: Sae, state: dict[str, Tensor], prefix: str, _metadata: dict[str, object]) -> None:
    """Give the exit logits of a state dict the name that files of weights use."""
    state[prefix + STORED_LOGITS] = state.pop(prefix + LOGITS)


def _from_stored_name(_module: Sae, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Undo `_to_stored_name` before a state dict is loaded."""
    if prefix + STORED_LOGITS in state:
        state[prefix + LOGITS] = state.pop(prefix + STORED_LOGITS)
