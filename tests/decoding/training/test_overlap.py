"""Nothing of a measuring set is trained on."""

from decoding.training.overlap import SIZE, without_overlap, word_runs

WORDS = [f"word{n}" for n in range(40)]


def text(*numbers: int) -> str:
    return " ".join(WORDS[n] for n in numbers)


def test_a_text_that_shares_a_run_of_ten_words_is_dropped() -> None:
    assert SIZE == 10
    measured = text(*range(20))
    shares_ten = text(30, *range(5, 15), 31)
    shares_nine = text(30, *range(5, 14), 31, *range(14, 20))
    assert without_overlap([shares_ten, shares_nine], [measured]) == ([shares_nine], 1)


def test_case_and_punctuation_do_not_hide_a_run() -> None:
    measured = text(*range(12))
    hidden = "  ".join(word.upper() + "," for word in measured.split())
    assert without_overlap([hidden], [text(39), measured]) == ([], 1)


def test_a_short_text_is_dropped_only_where_it_is_the_whole() -> None:
    short = "Translate German to English: Guten Tag"
    kept = f"{short}, wie geht es Ihnen"
    assert without_overlap([short, short.lower() + "!", kept], [short]) == ([kept], 2)


def test_nothing_shares_words_with_nothing() -> None:
    assert word_runs("... !") == set()
    assert without_overlap(["...", text(1)], ["!!", ""]) == (["...", text(1)], 0)
    assert without_overlap([text(1)], []) == ([text(1)], 0)


def test_runs_of_a_text_of_eleven_words() -> None:
    words = tuple(WORDS[:11])
    assert word_runs(text(*range(11))) == {words[:10], words[1:]}
