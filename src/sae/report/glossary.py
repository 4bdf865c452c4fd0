"""Glossary of a report: the terms that it uses, for readers who have not read the paper."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sae.core.table import Table
from sae.report.content import Chart, Figure, Note, Report, Term


@dataclass(frozen=True)
class Entry:
    """A term with the ways in which a page may use it.

    Attributes:
        name: As the glossary lists it.
        meaning: In a sentence or two.
        forms: Regular expression for its uses on the page; by default the name itself.
    """

    name: str
    meaning: str
    forms: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the term, but not as part of another: CC-ECE is no use of ECE."""
        return re.compile(rf"(?<![\w/@-])(?:{self.forms or re.escape(self.name)})(?![\w′-])")


ENTRIES = (
    Entry(
        "SAE",
        "Single architecture ensemble: one network that predicts like several. It reads N inputs at once, predicts "
        "from K of its exits for each input, and averages these predictions.",
        "SAEs?|single architecture ensembles?",
    ),
    Entry(
        "N",
        "How many inputs an SAE reads at once: different samples in training, and N copies of the sample to predict.",
        "N(?:=\\d+)?",
    ),
    Entry("K", "How many exits per input an SAE was trained to predict from.", "K(?:=\\d+)?"),
    Entry(
        "K′",
        "How many exits per input an SAE predicts from. It can be changed after training; fewer exits often cost less.",
        "K′(?:=\\d+)?|exits? per input",
    ),
    Entry("W", "Width: with W = 2, layers are twice as wide as with W = 1.", "W(?:=\\d+)?"),
    Entry("D", "Depth: the number of stages of the network. Each stage can have an exit.", "D(?:=\\d+)?"),
    Entry("M", "Members: how many networks, or variants of one network, are averaged.", "M(?! params)(?:=\\d+)?"),
    Entry(
        "exit",
        "A small output layer after a stage of the network. Early exits are cheap; late ones have seen more layers.",
        "exits?",
    ),
    Entry(
        "i, α and T",
        "Settings that move from a start to an end while an SAE trains: i, the share of a batch in which all inputs "
        "see the same sample; α, the pull towards using all exits alike; T, how evenly exits are drawn.",
        "[iαT] (?:start|end)|i at the end of training",
    ),
    Entry(
        "SE",
        "An SAE trained with one input and one exit: a plain network that chose its depth.",
        "(?:SAE: )?SE(?= |,|$|\\))",
    ),
    Entry("EE", "Early exits: an SAE trained with one input that averages several exits.", "(?:SAE: )?EE|early exits"),
    Entry(
        "MIMO",
        "An SAE trained with several inputs and one exit each: several networks share one body.",
        "(?:SAE: )?MIMO",
    ),
    Entry("MIMMO", "An SAE trained with several inputs and all exits for each.", "(?:SAE: )?MIMMO"),
    Entry(
        "I/B",
        "In between: an SAE trained with several inputs and some of the exits for each.",
        "(?:SAE: )?I/B|between the known ones|some of its exits",
    ),
    Entry("streams", "An SAE whose layers work in groups that do not mix; each predicts.", "SAE: streams|STREAMS"),
    Entry(
        "standard network",
        "A plain network with one output after its last layer.",
        "Standard|standard networks?",
    ),
    Entry(
        "ensemble",
        "Several networks, trained separately, whose predictions are averaged. Good and well calibrated, but it costs "
        "as much as all its members.",
        "Ensemble|(?:deep|best) ensembles?",
    ),
    Entry(
        "MC dropout", "One network that runs several times with random parts switched off; the results are averaged."
    ),
    Entry("Packed", "One network whose layers work in groups that do not mix: each group is a member."),
    Entry("BatchEnsemble", "An ensemble whose members share most of their weights and differ in a few factors."),
    Entry(
        "configuration",
        "A network with all its settings, apart from the seed.",
        "[Cc]onfigurations?",
    ),
    Entry("trial", "One training run of the search, with settings that the search chose.", "[Tt]rials?"),
    Entry(
        "candidate",
        "A finished trial that can be picked. An SAE is one candidate for each choice of exits it can predict from.",
        "[Cc]andidates?",
    ),
    Entry(
        "Pareto front",
        "The Pareto-optimal candidates: any other candidate that is better in one objective is worse in another one.",
        "[Ff]ronts?|Pareto-optimal",
    ),
    Entry(
        "pick",
        "The network that is chosen: the best compromise between all objectives on the Pareto front.",
        "the pick",
    ),
    Entry(
        "hypervolume",
        "How much of everything that could be reached the Pareto front has reached, from 0 to 1.",
        "[Hh]ypervolume",
    ),
    Entry(
        "seed",
        "The start of the random numbers of a training run. Training again with other seeds shows how much is luck.",
        "[Ss]eeds?",
    ),
    Entry("±", "Standard deviation: the usual distance of single runs from the mean."),
    Entry(
        "significant difference",
        "A difference too large to be explained by the luck of the test samples and seeds (p < 0.05, corrected for "
        "all that is compared).",
        "significant(?:ly)?(?: difference| worse)?",
    ),
    Entry(
        "validation and test",
        "Samples that training does not use. Validation samples choose the network; test samples only measure it.",
        "validation|test (?:split|set|samples)",
    ),
    Entry(
        "shift",
        "Images damaged by noise, blur, weather and the like, which training has not seen.",
        "[Ss]hift|[Cc]orrupt(?:ion|ed)",
    ),
    Entry(
        "F1",
        "How well classes are recognised, from 0 to 1: precision and recall in one number; each class counts the same.",
        "F1|f1",
    ),
    Entry(
        "AUROC",
        "The probability that a sample of a class gets a higher probability of it than another sample: 0.5 is "
        "guessing, 1 is perfect.",
        "AUROC|auroc",
    ),
    Entry(
        "average precision",
        "The share of right ones among the samples that are called a class, averaged over thresholds.",
        "[Aa]verage precision|average_precision",
    ),
    Entry(
        "top-5 accuracy",
        "The share of samples whose class is among the five most probable.",
        "[Tt]op-5 accuracy|top5_accuracy",
    ),
    Entry("accuracy", "The share of samples with the right class.", "[Aa]ccuracy"),
    Entry(
        "NLL",
        "Negative log-likelihood: low if the truth gets a high probability. Confident mistakes cost most. "
        "For predicted numbers it leaves out the constant ½·log 2π.",
        "NLL|nll",
    ),
    Entry(
        "ECE",
        "Expected calibration error: the gap between confidence and accuracy. 0.05 means five percentage points.",
        "ECE|ece",
    ),
    Entry(
        "CC-ECE",
        "Class-conditional ECE: the mean over the predicted classes, so that errors of two classes cannot cancel out. "
        "Classes weigh by their share; in the uniform one all weigh the same, as in the paper.",
        "CC-ECE|cc_ece",
    ),
    Entry(
        "scaled",
        "After temperature scaling: one number, fitted on validation data, makes all predictions more or less certain.",
        "scaled|\\w+_scaled",
    ),
    Entry("Brier score", "The squared distance of predicted probabilities from the truth.", "Brier score|brier"),
    Entry("MSE", "Mean squared error of the predicted numbers.", "MSE|mse|mean squared error"),
    Entry("RMSE", "The root of the MSE, in the unit of the predicted numbers.", "RMSE|rmse"),
    Entry("MAE", "Mean absolute error, in the unit of the predicted numbers.", "MAE|mae"),
    Entry("R²", "The share of the numbers' variance that is predicted; 1 is perfect, their mean reaches 0.", "R²|r2"),
    Entry("pinball loss", "The error of predicted deciles, in the unit of the predicted numbers.", "[Pp]inball"),
    Entry(
        "FLOPs",
        "Multiplications, each with its addition, for one prediction. MFLOPs are millions.",
        "M?FLOPs|flops",
    ),
    Entry(
        "parameters",
        "Learned numbers, which must be stored. M params are millions.",
        "[Pp]arameters|M params|params",
    ),
    Entry(
        "risk and coverage",
        "If a network answers only when it is certain: coverage is the share it answers, risk its errors among these.",
        "[Cc]overage",
    ),
    Entry("rank", "Place among the kinds of methods; 1 is best.", "[Rr]ank(?:s|ed)?"),
    Entry(
        "ρ, F and p",
        "Whether a setting and a number go together: ρ from −1 to 1, F from 0. A small p means it is hardly luck.",
        "ρ",
    ),
)
"""In the order of the list: methods, the search, measures."""


def meaning_of(text: str) -> str:
    """Return the meaning of a term, also of one with more behind it; nothing if it is none.

    Example:
        >>> meaning_of("MFLOPs"), meaning_of("Seeds of luck")
        ('Multiplications, each with its addition, for one prediction. MFLOPs are millions.', '')
    """
    own = text.removesuffix(" (shift)").removeprefix("rank in ")
    return next((entry.meaning for entry in ENTRIES if entry.pattern.fullmatch(own)), "")


def glossary_of(report: Report) -> tuple[Term, ...]:
    """Return the terms that a report uses."""
    text = "\n".join(_texts(report))
    return tuple(Term(entry.name, entry.meaning) for entry in ENTRIES if entry.pattern.search(text))


def _texts(report: Report) -> Iterator[str]:
    """Yield all texts of a report, except commands and what is inside charts."""
    yield from (report.title, *report.facts, report.lead.sentence, *report.lead.reasons, *report.lead.rules)
    for table in report.tables():
        yield from _table_texts(table)
    for section in report.sections:
        yield from (section.title, section.intro, *(part.text for part in section.parts if isinstance(part, Note)))
    for drawing in report.drawings():
        yield from (drawing.title, drawing.caption, drawing.plan.settings, *("FLOPs", "θ"))
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
    """Return the title and the subtitle of a panel."""
    title = panel.title
    shown = (title,) if isinstance(title, str) else (getattr(title, "text", ""), getattr(title, "subtitle", ""))
    return tuple(text for text in shown if isinstance(text, str))
