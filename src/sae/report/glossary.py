"""Glossary of a report: the terms that it uses, for readers who have not read the paper."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sae.core.table import Table
from sae.report.content import Chart, Figure, Note, Report


@dataclass(frozen=True)
class Word:
    """A word with its meaning.

    Attributes:
        text: As the list shows it.
        meaning: In plain sentences.
        forms: What the page says where it uses the word, as a regular expression; by default the word itself.
    """

    text: str
    meaning: str
    forms: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the word, but not a part of another: ECE is not meant where CC-ECE is said."""
        return re.compile(rf"(?<![\w/@-])(?:{self.forms or re.escape(self.text)})(?![\w′-])")


WORDS = (
    Word(
        "SAE",
        "Single architecture ensemble: one network that answers like several. It reads N inputs at once, predicts from "
        "K of its exits for each, and gives the mean of all these predictions.",
        "SAEs?|single architecture ensembles?",
    ),
    Word(
        "N",
        "How many inputs an SAE reads at once: different samples in training; to predict, the same sample N times.",
        "N(?:=\\d+)?",
    ),
    Word("K", "How many exits per input an SAE was trained to predict from.", "K(?:=\\d+)?"),
    Word(
        "K′",
        "How many exits per input an SAE predicts with. It can be changed after training; fewer often cost less.",
        "K′(?:=\\d+)?",
    ),
    Word("W", "Width: a network of W = 2 has layers twice as wide as the narrowest.", "W(?:=\\d+)?"),
    Word("D", "Depth: how many stages the network has. There is an exit after each of them.", "D(?:=\\d+)?"),
    Word("M", "Members: how many networks, or variants of one network, are averaged.", "M(?:=\\d+)?"),
    Word(
        "exit",
        "A small output layer after a stage of the network, which predicts from what is known so far. Early exits are "
        "cheap, late ones have seen more layers.",
        "exits?",
    ),
    Word(
        "SE", "An SAE of one input and one exit: a plain network that chose its own depth.", "(?:SAE: )?SE(?= |,|$|\\))"
    ),
    Word("EE", "Early exits: an SAE of one input that averages several of its exits.", "(?:SAE: )?EE|early exits"),
    Word("MIMO", "Several inputs, one exit each: several networks that share one body.", "(?:SAE: )?MIMO"),
    Word("MIMMO", "Several inputs, and every exit for each of them.", "(?:SAE: )?MIMMO"),
    Word("I/B", "In between: several inputs, and some of the exits for each.", "(?:SAE: )?I/B|between the known ones"),
    Word(
        "standard network",
        "The network by itself, with its last layer as the only output.",
        "Standard|standard networks?",
    ),
    Word(
        "ensemble",
        "Several networks trained apart, whose predictions are averaged: good, well calibrated, and as many times as "
        "expensive as it has members.",
        "Ensemble|(?:deep|best) ensembles?",
    ),
    Word("MC dropout", "One network that is run several times with parts of it switched off at random, and averaged."),
    Word("BatchEnsemble", "Members that share most of their weights and differ in a few factors."),
    Word(
        "configuration",
        "A network with all its settings; an SAE at each number of exits it can be read at is one of its own.",
        "[Cc]onfigurations?",
    ),
    Word("trial", "One training run of the search, with settings that it chose.", "[Tt]rials?"),
    Word(
        "front",
        "The configurations that no other beats: whatever is better in one objective is worse in another. Also called "
        "the Pareto front.",
        "[Ff]ronts?",
    ),
    Word("pick", "What is recommended: of the front, the one that gives up least in all objectives.", "the pick"),
    Word(
        "hypervolume",
        "How much of all that might be reached the front has reached, from 0 to 1.",
        "[Hh]ypervolume|share of the space",
    ),
    Word(
        "seed",
        "Where the random numbers of a training run start. The same settings on other seeds show how much of a result "
        "is luck.",
        "[Ss]eeds?",
    ),
    Word("±", "The standard deviation: how far single runs usually are from the mean."),
    Word(
        "validation and test",
        "Samples kept from training. Validation ones choose the network; test ones judge it, and choose nothing.",
        "validation|test (?:split|set|samples)",
    ),
    Word(
        "shift",
        "Images damaged by noise, blur, weather and the like, which training never saw.",
        "[Ss]hift|corrupt(?:ion|ed)",
    ),
    Word(
        "F1",
        "How well classes are found, from 0 to 1: precision and recall in one, each class counting the same.",
        "F1|f1",
    ),
    Word("accuracy", "The share of samples whose class is right.", "[Aa]ccuracy"),
    Word(
        "NLL",
        "Negative log-likelihood: lower where the truth was given a high probability. To be sure and wrong costs most.",
        "NLL|nll",
    ),
    Word(
        "ECE",
        "Expected calibration error: how far confidence is from the share that is right. 0.05 is five points in a "
        "hundred.",
        "ECE|ece",
    ),
    Word(
        "CC-ECE",
        "The calibration error of each predicted class by itself, averaged, so that two classes cannot cancel out.",
        "CC-ECE|cc_ece",
    ),
    Word("Brier score", "The squared distance between the predicted probabilities and the truth.", "Brier score|brier"),
    Word("MSE", "Mean squared error of the predicted numbers.", "MSE|mse|mean squared error"),
    Word(
        "FLOPs",
        "Arithmetic operations for one prediction, whatever the machine. MFLOPs are millions of them.",
        "M?FLOPs|flops",
    ),
    Word(
        "parameters",
        "Numbers that were learned, which have to be stored. M params are millions of them.",
        "[Pp]arameters|M params|params",
    ),
    Word(
        "risk and coverage",
        "Let the network answer only where it is sure: coverage is the share that it answers, risk the errors in it.",
        "[Cc]overage",
    ),
    Word("rank", "Place among the classes of methods, 1 is best.", "[Rr]ank(?:s|ed)?"),
    Word(
        "ρ, F and p",
        "Whether a setting goes with a number: ρ from −1 to 1, F from 0; a small p says that it is hardly chance.",
        "ρ",
    ),
)
"""In the order in which they are listed: what was tried, how it is told, what is measured."""


def words_of(report: Report) -> tuple[tuple[str, str], ...]:
    """The words that a report uses, with their meanings."""
    text = "\n".join(_texts(report))
    return tuple((word.text, word.meaning) for word in WORDS if word.pattern.search(text))


def _texts(report: Report) -> Iterator[str]:
    """All that a report says, but for its commands and what stands inside the charts."""
    yield from (report.title, *report.facts, report.lead.sentence, *report.lead.reasons)
    for table in report.tables():
        yield from _table_texts(table)
    for section in report.sections:
        yield from (section.title, section.intro, *(part.text for part in section.parts if isinstance(part, Note)))
    for figure in report.figures():
        yield from _figure_texts(figure)


def _table_texts(table: Table) -> Iterator[str]:
    yield from (table.title, table.caption, *(column.title for column in table.columns))
    yield from {cell.value for row in table.rows for cell in row if isinstance(cell.value, str)}
    if any(cell.std is not None for row in table.rows for cell in row):
        yield "±"


def _figure_texts(figure: Figure) -> Iterator[str]:
    yield from (figure.title, figure.caption, *(text for panel in figure.panels for text in _panel_texts(panel)))


def _panel_texts(panel: Chart) -> tuple[str, ...]:
    """A panel's title and what is below it."""
    title = panel.title
    shown = (title,) if isinstance(title, str) else (getattr(title, "text", ""), getattr(title, "subtitle", ""))
    return tuple(text for text in shown if isinstance(text, str))
