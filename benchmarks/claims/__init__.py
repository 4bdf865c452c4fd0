"""The paper's claims, tested at the paper's scale: 50 epochs, its settings, more seeds.

    python -m benchmarks.claims train pneumonia --out runs/claims --seeds 0 2 4    # resumable; one process a core
    python -m benchmarks.claims reduce pneumonia --out runs/claims                 # to docs/reproduction/claims.json
    python -m benchmarks.claims write                                              # the tables of docs/reproduction.md

The settings of every training are in `rows.py`. `SAE_DATA_ROOT` names the folder of the data.
"""
