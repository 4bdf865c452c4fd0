"""`sae cost`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.measure.cost import Cost


def cost(
    backbone: Annotated[str, typer.Option(help=options.BACKBONE_HELP)],
    input_shape: Annotated[str, typer.Option(help="shape of one sample: channel,height,width or features")],
    outputs: Annotated[int, typer.Option(min=1, help="number of classes; 2 for regression")],
    method: Annotated[str, typer.Option(help=options.METHOD_HELP)] = "sae",
    inputs: options.Inputs = None,
    exits: options.Exits = None,
    members: options.Members = None,
    samples: options.Samples = None,
    rate: options.Rate = None,
    active: Annotated[str | None, typer.Option(help="inputs that use each exit, e.g. 0,2,2,2")] = None,
    width: options.Width = None,
    depth: options.Depth = None,
    blocks: options.Blocks = None,
    json: options.Json = False,
) -> None:
    """Count parameters and FLOPs per sample of a network, pruned and as shipped, without training it."""
    from sae.cli.output import print_json
    from sae.config.run import NetworkConfig
    from sae.config.settings import parse
    from sae.core.errors import ConfigError
    from sae.methods.costing import cost_of, shipped_cost_of

    shape = options.integers("--input-shape", input_shape) or []
    if min(shape) < 1:
        raise ConfigError(f"--input-shape must hold sizes of at least 1, got {input_shape}")
    if active is not None and exits is not None:
        raise ConfigError(
            "--active and --exits must not be given together, because both choose the exits: give one of them"
        )
    method_flags = options.section(name=method, inputs=inputs, exits=exits, members=members, samples=samples, rate=rate)
    backbone_flags = options.section(
        name=backbone, width=width, depth=depth, blocks=options.integers("--blocks", blocks)
    )
    network = parse(NetworkConfig, {"method": method_flags, "backbone": backbone_flags})
    asked = network.method, network.backbone, tuple(shape), outputs, options.integers("--active", active)
    total, shipped = cost_of(*asked), shipped_cost_of(*asked)
    if json:
        print_json({**asdict(total), "shipped_params": shipped.params, "shipped_flops": shipped.flops})
    else:
        print_cost(f"{method} on {backbone}, {input_shape} → {outputs}", total, shipped)


def print_cost(title: str, total: "Cost", shipped: "Cost") -> None:
    """Print a row for each part of the pruned network, one for their sum, and one for the exported network."""
    from sae.cli.output import COST_ROWS, print_table
    from sae.core.table import text_table

    parts = [*total.by_part.items(), ("all", total), ("as shipped", shipped)]
    rows = [[name, f"{part.flops:,}", f"{part.params:,}"] for name, part in parts]
    print_table(text_table(title, ["part", *COST_ROWS], rows))
