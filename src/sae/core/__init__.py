"""Errors, words, seeds, tasks and metrics that every other package builds on."""
