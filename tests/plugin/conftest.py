collect_ignore = ["toy_plugin.py"]
"""Its import would register what only its own tests are about."""
