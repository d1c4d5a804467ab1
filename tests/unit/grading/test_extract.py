"""Final answers and code blocks in texts."""

import pytest

from conductor_plugin.grading.extract import final_answer, last_code_block


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"First \boxed{1}, then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{3} and \boxed{4", "3"),
        (r"\boxed{3} and \boxed{}", "3"),
        (r"\fbox{7}", "7"),
        ("The answer is 5, because it is.", "5"),
        ("The answer is $x=5$.", "x=5"),
        ("Answer: 4. Wait.\nANSWER: 70.", "70"),
        ("**Final Answer:** $5$", "5"),
        ("The final answer is:\n\n42", "42"),
        ("x**2 + y**2", "x^2 + y^2"),
        ("The answer is **2**.", "2"),
        ("<answer> 7 </answer>", "7"),
        ("Some words that lead nowhere.\n\n3/4", "3/4"),
        ("So we see at once that it is $12$ and nothing else", "12"),
        ("I have no idea what to say here.", None),
        ("", None),
        ("\\boxed{" * 50_000, None),
    ],
)
def test_final_answers(text: str, found: str | None) -> None:
    if text.startswith("\\boxed{\\boxed{\\boxed{"):
        assert final_answer(text) != "5"
    else:
        assert final_answer(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\na = 1\n```\nand\n```python\nb = 2\n```", "b = 2"),
        ("```python\na = 1\n```\n```bash\nls\n```", "a = 1"),
        ("```\n    return 1\n```", "    return 1"),
        ("```python\nunfinished = 1", "unfinished = 1"),
        ("no code", None),
    ],
)
def test_code_blocks(text: str, found: str | None) -> None:
    assert last_code_block(text) == found
