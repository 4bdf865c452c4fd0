"""Single architecture ensembles: one network that takes N inputs and predicts at up to K of its D depths."""
