"""The text tool, the pick of an answer, and what all three tools have in common."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor_plugin.context import NO_ANSWER
from conductor_plugin.errors import WorkerError
from conductor_plugin.workers import REFUSAL
from conductor_plugin.workers.tools import numerals, reading, strings
from tests.unit.workers import test_calculator, test_number
from tests.unit.workers.tools import HOSTILE, NOBODYS_QUESTIONS, NUL_BYTE, TOOLS, ask, ask_quickly

TABLE = {
    'Reverse "hello".': "olleh",
    "Reverse hello": "olleh",
    "Please reverse the word hello.": "olleh",
    "Reverse the string 'hello world'": "dlrow olleh",
    "Reverse “hello”": "olleh",
    "Reverse `a b`": "b a",
    "Reverse the following text: hello world": "dlrow olleh",
    "Reverse this text:\nhello world": "dlrow olleh",
    'Reverse the letters of "hello"': "olleh",
    'What is "hello" reversed?': "olleh",
    "What is hello spelled backwards?": "olleh",
    "Spell hello backwards": "olleh",
    "How do you spell hello backwards?": "olleh",
    "Write hello in reverse": "olleh",
    "What is the reverse of hello?": "olleh",
    "Reverse 120": "021",
    'Reverse "naïve e\u0301"': "e\u0301 evïan",
    'Reverse "👍🏽a"': "a👍🏽",
    'Reverse the order of the words in "to be or not"': "not or be to",
    'Reverse the words in the sentence "I love cats"': "cats love I",
    "Reverse the words: one two three": "three two one",
    'Reverse the word order of "a b c"': "c b a",
    'Reverse each word in "abc def"': "cba fed",
    "Reverse the list: a, b, c": "c, b, a",
    "Reverse the list a, b, c": "c, b, a",
    'Reverse the sentence "I love cats"': REFUSAL,
    "Sort these words: pear, apple, fig": "apple, fig, pear",
    "Sort these words: pear, apple, fig.": "apple, fig, pear",
    "Sort the words pear, apple and fig alphabetically.": "apple, fig, pear",
    "Sort the words pear and apple": "apple, pear",
    "Sort banana, apple, cherry": "apple, banana, cherry",
    'Sort "b", "a" and "c"': "a, b, c",
    "Sort these words in alphabetical order: b a C": "a b C",
    "Sort these words: pear, apple, fig in descending order": "pear, fig, apple",
    "Put the words pear, apple, fig in alphabetical order": "apple, fig, pear",
    "Alphabetize: pear, apple": "apple, pear",
    "Sort these words by length: ccc, a, bb": "a, bb, ccc",
    "Sort the numbers 3, 1, 2 in descending order": "3, 2, 1",
    "Sort 3, 1, 2": "1, 2, 3",
    "Sort: 10, 9, 2": "2, 9, 10",
    "Sort the following numbers in ascending order: 10, -9, 2.5": "-9, 2.5, 10",
    "Arrange 5, 2, 9 from largest to smallest": "9, 5, 2",
    'Sort the letters of "banana"': "aaabnn",
    "Sort the letters in banana in reverse alphabetical order": "nnbaaa",
    "Sort the digits of 3142": "1234",
    "How many letters are in banana?": "6",
    'How many letters are there in the word "strawberry"?': "10",
    "How many letters are in Mississippi?": "11",
    'How many characters are in "a b"?': "3",
    'How many characters are in "a b", not counting spaces?': "2",
    'What is the length of "hello"?': "5",
    "How many vowels are in banana?": "3",
    "How many consonants are in banana?": "3",
    "How many digits are in 12345?": "5",
    'How many capital letters are in "Hello World"?': "2",
    'How many words are in "to be or not to be"?': "6",
    "How many words are in the sentence: I love cats?": "3",
    "Count the words in: a b c": "3",
    "How many r are in strawberry?": "3",
    "How many r's are in 'strawberry'?": "3",
    "How many rs are in strawberry?": "3",
    "How many R's are there in the word strawberry?": "3",
    "How many times does the letter r appear in strawberry?": "3",
    "Count the letter r in strawberry": "3",
    "Count the number of times the letter r appears in strawberry.": "3",
    "How many a's are in banana?": "3",
    "How many z are in banana?": "0",
    'Count the occurrences of "an" in "banana"': "2",
    'How many times does the word "the" appear in "the other the"?': "2",
    "Convert hello to uppercase": "HELLO",
    "Uppercase hello": "HELLO",
    'Make "hello world" upper case': "HELLO WORLD",
    'Write "Hello World" in all capitals.': "HELLO WORLD",
    "What is HELLO in lowercase?": "hello",
    "Convert to lower case: HELLO World": REFUSAL,
    'Convert "the lord of the rings" to title case': "The Lord Of The Rings",
    'Convert "it\'s" to title case': "It's",
    "Capitalize hello": "Hello",
    'Capitalize the first letter of each word in "hello world"': "Hello World",
    "Extract the numbers from: 3 red and 12 blue": "3, 12",
    'What are the numbers in "a 3, b -4.5"?': "3, -4.5",
    'Extract the number from "room 12"': "12",
    'What is the final number in "3 then 5"?': "5",
    'What is the third word of "to be or not"?': "or",
    'What is the last word of "to be, or not."?': "not",
    'the 2nd word in "to be"': "be",
    "What is the last letter of banana?": "a",
    "the first 3 letters of banana": "ban",
    'the last two words of "to be or not"': "or not",
    "the last 3 digits of 12345": "345",
    'the longest word in "to be great"': "great",
    'the shortest word in "to be great"': REFUSAL,
    "Extract the email address from: write to a.b@example.org now": "a.b@example.org",
    'Extract the e-mail addresses from "a@b.co, c@d.io"': "a@b.co, c@d.io",
    'Extract the quoted text from: he said "yes" loudly': "yes",
    "Remove duplicates from: a, b, a, c": "a, b, c",
    "Remove the duplicate words from: to be or not to be": "to be or not",
    "Remove the duplicate letters from banana": "ban",
    "Remove all vowels from banana": "bnn",
    'Remove the spaces from "a b c"': "abc",
    'Replace "a" with "o" in "banana"': "bonono",
    'Join "a", "b" and "c" with a hyphen': "a-b-c",
    "Join the words a, b, c with commas": "a,b,c",
    'Join the words a, b, c with "; "': REFUSAL,
    'Join "a" and "b" using " + "': "a + b",
    'Concatenate "foo" and "bar"': "foobar",
    "Is racecar a palindrome?": "yes",
    'Is "A man, a plan, a canal: Panama" a palindrome?': "yes",
    "Is 121 a palindrome?": "yes",
    "Is hello a palindrome?": "no",
    "Are listen and silent anagrams?": "yes",
    'Are "listen" and "silents" anagrams?': "no",
    'Take the last letters of each word in "Elon Musk" and concatenate them.': "nk",
    'Reverse "hello", then uppercase it.': "OLLEH",
    "Reverse the text: hello. Then uppercase it.": "OLLEH",
    **dict.fromkeys(
        [
            "What is 3 + 4?",
            "Reverse the decision of the court",
            "Reverse engineering is hard",
            "Reverse the answer",
            "Reverse this: a then b",
            'Reverse "hello',
            'Reverse "hello" and "world" and tell me why',
            'Reverse ""',
            'Reverse "   "',
            "Reverse the word completely",
            "Reverse the text above",
            "Sort it",
            "Sort apples and oranges",
            "Sort 3, apple, 1",
            "Sort 1,000, 200",
            "Order pizza, coke",
            "How many words are in Hamlet?",
            "How many words are in this sentence?",
            "How many vowels are in English?",
            "How many letters are in the alphabet?",
            "How many letters are in banana bread?",
            "How many e in the French word for apple?",
            'How many times does "ana" occur in "banana"?',
            'How many times does "the" appear in "the other the"?',
            "How many 5s are in 25?",
            'Capitalize "hello world"',
            'Extract the numbers from "no"',
            'Extract the number from "3 or 4"',
            'the fifth word of "to be"',
            "the last letter of the alphabet",
            "the first word of Hamlet",
            "the length of the Nile",
            "Remove duplicates from aabb",
            'Remove the vowels from "aeiou"',
            'Replace "x" with "y" in "banana"',
            'Join "a" and "b"',
            "Uppercase the title of the book",
            'Write "hello" backwards in uppercase',
            'What does "hello" mean?',
            "Spell hello",
            "Is it a palindrome?",
            'Is "!?" a palindrome?',
            "Count to 10",
            "Count the words in: a b c and sort them",
            "How many letters are in there?",
            "How many as are in banana?",
            "Convert everything to uppercase",
            "Put the words the apple, fig in alphabetical order",
            "Reverse 1,000",
            "Sort the words: hello",
            "Reverse the list: hello",
        ],
        REFUSAL,
    ),
}

# instruction, outputs of the visible steps, answer
STEPS = [
    ("Reverse it.", ["hello"], "olleh"),
    ("Reverse.", ["hello"], "olleh"),
    ("Reverse it.", ["The answer is hello."], "olleh"),
    ("Reverse it.", ['"hello"'], "olleh"),
    ("Reverse it.", ["**hello**"], "olleh"),
    ("Now reverse the result of step 0.", ["hello", "x"], "olleh"),
    ("Reverse the previous answer", ["x", "hello"], "olleh"),
    ("Reverse the output.", ['Sort these: "b, a'], 'a ,b" :eseht troS'),  # data, not an instruction
    ("Reverse the words.", ["a b c"], "c b a"),
    ("Reverse the words in it", ["a b c"], "c b a"),
    ("Sort the words alphabetically.", ["pear apple"], "apple pear"),
    ("Sort the words above.", ["pear, apple"], "apple, pear"),
    ("Sort in descending order.", ["3, 10, 2"], "10, 3, 2"),
    ("Count the words in the answer of step 0.", ["a b c"], "3"),
    ("Count the words.", ["a b c"], "3"),
    ("How many letters are in the word?", ["Banana."], "6"),
    ("How many letters are there?", ["Banana."], "6"),
    ("How many times does the letter a occur in the word above?", ["banana"], "3"),
    ("How many a's are in it?", ["banana"], "3"),
    ("Convert to upper case.", ["hello"], "HELLO"),
    ("Make the previous answer uppercase.", ["yes"], "YES"),
    ("Uppercase the second answer", ["a", "b"], "B"),
    ("Extract the last number.", ["3 then 5"], "5"),
    ("Extract the final number from the answer above.", ["3 then 5"], "5"),
    ("What is the third word of it?", ["a b c"], "c"),
    ("Remove duplicates.", ["a, b, a"], "a, b"),
    ("Is it a palindrome?", ["level"], "yes"),
    ("Join the two answers with a space.", ["a", "b"], "a b"),
    ("Concatenate the results of steps 0 and 1", ["a", "b"], "ab"),
    ("Reverse it, then uppercase it.", ["ab"], "BA"),
    ('Reverse "it"', ["hello"], "ti"),
    ("Reverse it, France then uppercase it", ["ab"], REFUSAL),
    ('Reverse it, then reverse "hello"', ["ab"], REFUSAL),  # the first result would vanish
    ("Reverse the words.", ["hello"], REFUSAL),
    ("Reverse each word in: see it, then it", ["hello"], REFUSAL),
    ("Reverse it.", [REFUSAL], REFUSAL),
    ("Reverse it.", ["hello", ""], REFUSAL),
    ("Reverse it.", [], REFUSAL),
    ("Reverse the result of step 4.", ["hello"], REFUSAL),
    ("Write a poem about it.", ["hello"], REFUSAL),
    ("Translate it to French.", ["hello"], REFUSAL),
    ("Improve the text.", ["hello"], REFUSAL),
]

# instruction, outputs of the visible steps, answer
PICKS = [
    ("Give the first answer above that is not a refusal.", [REFUSAL, "", "42", "43"], "42"),
    ("Give the first answer above that is not a refusal.", ["  42 \n", "43"], "  42 \n"),
    ("Give the first answer above that is not a refusal.", [f" {REFUSAL}\n", NO_ANSWER, "  "], REFUSAL),
    ("Give the first answer above that is not a refusal.", [], REFUSAL),
    ("Give the last answer above that is not a refusal.", ["1", "2", REFUSAL], "2"),
    (
        "Repeat the first answer that is not a refusal.",
        [REFUSAL, "I cannot do this. Or can I?"],
        "I cannot do this. Or can I?",
    ),
    ("Repeat the first answer which isn't a refusal, verbatim.", [REFUSAL, "42"], "42"),
    ("Return the first answer that is not a refusal or empty", ["", "42"], "42"),
    ("Give the last answer.", ["1", "2", NO_ANSWER], "2"),
    ("Give the first answer.", ["1", "2"], "1"),
    ("please output the first result above", ["1", "2"], "1"),
    ("Give the first non-refusal answer.", [REFUSAL, "2"], "2"),
    ("Give the answer that is not a refusal.", [REFUSAL, "2", " 2"], "2"),
    ("Give the answer that is not a refusal.", ["1", "2"], REFUSAL),
    ("Give the first answer above that is a number.", ["a", "2"], REFUSAL),
    ("Give the first answer above in French.", ["a", "2"], REFUSAL),
    ("Give the first and last answer.", ["a", "2"], REFUSAL),
]

# question, instruction, answer: nothing is visible
INSTRUCTIONS = [
    ('Reverse "hello".', "", "olleh"),
    ('Reverse "hello".', "Answer the question.", "olleh"),
    ('How many vowels are in "banana"?', "Reverse the word.", "ananab"),
    ('How many vowels are in "banana"?', "Reverse it.", REFUSAL),  # the word, or the number?
    ('How many vowels are in "banana"?', "Translate the word.", REFUSAL),
    ('Is "a" in "b"?', "Reverse the word.", REFUSAL),
    ("Hello", "Reverse the word.", REFUSAL),
]

AGREEMENT = sorted({*TABLE, *test_calculator.TABLE, *test_number.TABLE, *NOBODYS_QUESTIONS})


@pytest.mark.parametrize(("question", "expected"), TABLE.items())
async def test_question(question: str, expected: str) -> None:
    assert await ask("text", question) == expected


@pytest.mark.parametrize("question", NOBODYS_QUESTIONS)
async def test_refuses_what_is_not_its_own(question: str) -> None:
    assert await ask("text", question) == REFUSAL


@pytest.mark.parametrize(("instruction", "outputs", "expected"), STEPS)
async def test_instruction_with_steps(instruction: str, outputs: list[str], expected: str) -> None:
    assert await ask("text", "Some other question?", instruction, outputs) == expected


@pytest.mark.parametrize(("instruction", "outputs", "expected"), PICKS)
async def test_pick_of_an_answer(instruction: str, outputs: list[str], expected: str) -> None:
    assert await ask("text", "Some other question?", instruction, outputs) == expected


@pytest.mark.parametrize(("question", "instruction", "expected"), INSTRUCTIONS)
async def test_instruction_alone(question: str, instruction: str, expected: str) -> None:
    assert await ask("text", question, instruction) == expected


@pytest.mark.parametrize("question", HOSTILE)
async def test_hostile_input_comes_back_soon(question: str) -> None:
    assert len(await ask_quickly("text", question, 5)) <= 100_000


@pytest.mark.parametrize("text", [NUL_BYTE, 'Reverse "a\ue000b"', 'Reverse "a\ue002b"', "Reverse \ue000it\ue001"])
async def test_private_characters_are_refused(text: str) -> None:
    assert await ask("text", text) == REFUSAL
    assert await ask("text", "q", "Reverse it.", [text]) == REFUSAL


async def test_long_texts() -> None:
    assert await ask("text", "q", "Count the words.", ["word " * 19_000]) == "19000"
    assert await ask("text", "q", "Count the words.", ["word " * 21_000]) == REFUSAL
    assert await ask("text", "q", "Join the two answers with a space", ["a" * 100_001, "b"]) == REFUSAL


@pytest.mark.parametrize("question", AGREEMENT)
async def test_no_two_tools_answer_differently(question: str) -> None:
    answers = {await ask(tool, question) for tool in TOOLS}
    assert len(answers - {REFUSAL}) <= 1


@pytest.mark.parametrize("tool", TOOLS)
async def test_another_instruction_is_not_the_question(tool: str) -> None:
    questions = {"calculator": "What is 3 + 4?", "number": "Is 7 prime?", "text": 'Reverse "ab"'}
    for instruction in ("Write a poem.", "Check the answer.", "Explain your reasoning.", "Think step by step."):
        assert await ask(tool, questions[tool], instruction, ["4"]) == REFUSAL


WORDS = [
    *("what is", "compute", "the", "sum of", "gcd of", "reverse", "sort", "count", "how many", "letters", "words"),
    *("and", ",", "then", "in", "of", "is", "prime", "it", "the result", "step 0", "3", "12", "1,000", "0.5", "-4"),
    *("+", "-", "*", "/", "^", "(", ")", "%", "!", "x", "y", "=", "solve", "factor", "convert", "to binary", "mod"),
    *('"', "'", ":", "\n", "?", ".", "a", "banana", "squared", "percent", "square root of", "divided by", "\t"),
]


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=150, deadline=None)
@given(question=st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.text(max_size=60), data=st.data())
async def test_any_text_gets_a_reply(tool: str, question: str, data: st.DataObject) -> None:
    instruction = data.draw(st.sampled_from(["", "Solve it.", question, f"Now {question} it"]))
    outputs = data.draw(st.lists(st.sampled_from(["12", "banana", REFUSAL, "x = 2 or x = 3", question]), max_size=2))
    with contextlib.suppress(WorkerError):
        assert len(await ask(tool, question, instruction, outputs)) < 25_000


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["M", "Cs", "So", "Cf", "Sk", "Co"]), min_size=1).filter(str.strip))
def test_reversed_twice_is_the_text(text: str) -> None:
    assert strings.reverse(strings.reverse(text)) == text


@settings(max_examples=200, deadline=None)
@given(st.text("abcdeXYZ ,.\"':\n", min_size=1, max_size=30).filter(str.strip))
async def test_an_output_is_never_read_as_an_instruction(text: str) -> None:
    core = numerals.core(text)
    expected = strings.reverse(core) if core.strip() else REFUSAL
    quoted = len(core) > 1 and core[0] == core[-1] and core[0] in "\"'"
    assert quoted or not reading.is_answer(text) or await ask("text", "q", "Reverse it.", [text]) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=20))
async def test_numbers_are_sorted(numbers: list[int]) -> None:
    listed = ", ".join(map(str, numbers))
    expected = ", ".join(map(str, sorted(numbers)))
    assert await ask("text", f"Sort these numbers: {listed}") == expected
    assert await ask("text", "q", "Sort the numbers in ascending order.", [listed]) == expected


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("12", "12"),
        (" 12.\n", "12"),
        ("-3.5", "-3.5"),
        ("x = 12", "12"),
        ("The answer is 12.", "12"),
        ("The final answer is: **12**.", "12"),
        ("$12$", "12"),
        ("So 3 + 9 = 12 apples.", "12"),
        ("I think hard.\n\nAnswer: 12", "12"),
        ("There are 12 of them", "12"),
        ("\\boxed{12}", "12"),
        ("1,234", "1234"),
        ("3 red and 5 blue", None),
        ("x = 2 or x = 3", None),
        ("2, 3", None),
        ("10 - 5", None),
        ("2024-05-01", None),
        ("2x = 4", None),
        ("f(2) = 4", None),
        ("about 12", None),
        ("15%", None),
        ("12th", None),
        ("v1.2.3", None),
        ("no idea", None),
    ],
)
def test_number_of_an_output(output: str, number: str | None) -> None:
    assert numerals.number(output) == number
