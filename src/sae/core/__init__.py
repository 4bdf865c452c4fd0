"""Errors, words, seeds, tasks and metrics: what every other room builds on."""
