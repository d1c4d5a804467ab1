"""The grammar of a question's plans, for servers that let a model write only what a grammar accepts.

Its texts are those of `plan.render_plan`, with each access list in step order, behind reasoning that cannot be taken
for a list: all that it accepts, the strict parser accepts under the same rules. It is written in GBNF, as vLLM's
backend `guidance` reads it.

One production for each number of steps keeps the lists of equal length, since no grammar counts across lists. So its
size grows with the square of the step limit.
"""

from collections.abc import Iterable

from conductor_plugin.plan import PlanRules
from conductor_plugin.plan_text import MAX_BYTES

LONGEST_PIECE = 11  # bytes of a `piece` as it is written: < and \U0010ffff

# The opening tag is not asked for: some chat templates write it for the model. [ comes only right behind a word, since
# `name = [` starts a list, and < never before what would make a tag.
_REASONING = r"""reasoning ::= "<think>\n"? thought "\n</think>\n\n" | thought "\n"
thought ::= thinking{0,LONGEST}
thinking ::= [^<[] | "<" [^<[/t] | [A-Za-z0-9.,)] " "? "["
"""
# A text between quotes, its escapes those of Python that make no half of a surrogate pair. No < comes before / or
# another <, so that no text holds the tag that ends the reasoning.
_TEXT = r"""text ::= "\"" piece{0,LONGEST} "<"? "\""
piece ::= plain | escape | "<" (safe | escape)
plain ::= [^"\\<\x00-\x1f\x7f]
safe ::= [^"\\</\x00-\x1f\x7f]
escape ::= "\\" (["\\ntr] | "x" hex hex | "u" (low hex | "d" [0-7] hex) hex hex | "U00" plane hex hex hex hex)
low ::= [0-9a-ce-f]
plane ::= "0" [1-9a-f] | "10"
hex ::= [0-9a-f]
"""


def plan_grammar(rules: PlanRules, *, reasoning: int, subtask: int) -> str:
    """The grammar of the plans that `rules` allow, in GBNF.

    `reasoning` (0: none may be written) and `subtask` bound the reasoning and each instruction, in characters, an
    escape counted as one. Where that many steps of it could pass the parser's 64 KiB, an instruction is bounded more.
    """
    lengths = range(0 if rules.answered else 1, rules.max_steps + 1)
    lines = [
        # guidance reads greedily, name by name, but a rule that refers to rules alone as a whole: hence not `root`.
        "root ::= completion",
        f"completion ::= {'reasoning? plan' if reasoning else 'plan'}",
        f"plan ::= {_either(f'plan{steps}' for steps in lengths)}",
        *(_plan(steps, rules) for steps in lengths),
        f"worker ::= {_either(_number(i) for i in range(rules.workers))}",
        *(line for step in range(rules.max_steps) for line in _access(step)),
    ]
    texts = _TEXT.replace("LONGEST", str(_longest_text(rules, subtask)))
    return "\n".join(lines) + "\n" + (_REASONING.replace("LONGEST", str(reasoning)) if reasoning else "") + texts


def _plan(steps: int, rules: PlanRules) -> str:
    if not steps:
        return r'plan0 ::= "model_id = []\nsubtasks = []\naccess_list = []"'
    may_hand_back = rules.conductor and (steps > 1 or rules.answered)
    last = f"(worker | {_number(rules.workers)})" if may_hand_back else "worker"
    ids, texts = _listed(["worker"] * (steps - 1) + [last]), _listed(["text"] * steps)
    return f'plan{steps} ::= "model_id = [" {ids} "]\\nsubtasks = [" {texts} "]\\naccess_list = [" views{steps - 1} "]"'


def _access(step: int) -> list[str]:
    """What `step` may see, and the entries up to its own. `some` is any ascending choice of the steps before it."""
    if step == 0:
        return ["views0 ::= view0", r'view0 ::= "[]" | "\"all\""']
    newest = _number(step - 1)
    some = f'some{step - 1} | (some{step - 1} ", ")? {newest}' if step > 1 else newest
    return [
        f'views{step} ::= views{step - 1} ", " view{step}',
        f'view{step} ::= "[]" | "\\"all\\"" | "[" some{step} "]"',
        f"some{step} ::= {some}",
    ]


def _longest_text(rules: PlanRules, subtask: int) -> int:
    """So many pieces that the three lists stay within the parser's bytes, whatever is chosen."""
    steps = rules.max_steps
    number = len(", ") + len(str(max(rules.workers, steps)))
    punctuation = 3 * len("[]") + steps * (number + len(', "<"') + len(', "all"')) + number * steps * steps // 2
    return max(1, min(subtask, (MAX_BYTES - punctuation) // (LONGEST_PIECE * steps)))


def _listed(names: Iterable[str]) -> str:
    return ' ", " '.join(names)


def _either(names: Iterable[str]) -> str:
    return " | ".join(names)


def _number(value: int) -> str:
    return f'"{value}"'
