"""Does one network match a deep ensemble of four? A resumable queue of trainings, and its results.

    python -m benchmarks.one_network fashion-fc --out runs/one_network            # train what is not stored yet
    python -m benchmarks.one_network blood-vgg --out runs/one_network             # in the folder of the npz file
    python -m benchmarks.one_network fashion-fc --rows --measure --time          # under shift, OOD, milliseconds
    python -m benchmarks.one_network --regimes                                    # the map over sizes and widths
    python -m benchmarks.one_network --table                                      # the tables of docs/reproduction.md

Every row is tuned in the same way, on a separate seed: two learning rates, then the next one beyond the better of
these, and one more if that is the best so far. The NLL on validation data after temperature scaling decides; then three
seeds are trained with the best rate. A taught row learns from the ensemble of its own seed. Nothing is chosen on test
data. Numbers go to docs/reproduction/one-network.json; the intervals are computed from the kept predictions.
"""
