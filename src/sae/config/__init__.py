"""Settings of runs and studies, and the registries of methods and backbones."""
