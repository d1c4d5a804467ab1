"""Grading: answers to verdicts, in worker processes and sandboxes, bounded in time and memory.

async with Graders(processes=2) as graders:
    verdict = await graders.grade(question, answer)
    verdict.outcome     right, wrong, unparsed or infrastructure
"""

from conductor_plugin.grading.graders import Graders
from conductor_plugin.grading.selfcheck import SelfCheck, gold_against_gold, run_references
from conductor_plugin.grading.verdict import Verdict

__all__ = ["Graders", "SelfCheck", "Verdict", "gold_against_gold", "run_references"]
