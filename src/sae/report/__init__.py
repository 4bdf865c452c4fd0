"""What people look at: figures, each defined once."""
