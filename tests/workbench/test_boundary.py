"""Exceptions become messages with a way out, without the inside of the program."""

import gradio as gr
import pytest

from decoding.errors import ModelUnavailable
from workbench.boundary import as_api_error, explain, visible


def test_our_own_errors_speak_for_themselves():
    failure = explain(ModelUnavailable("The model could not be fetched.", "Check the network."))
    assert failure.event() == {
        "kind": "error",
        "message": "The model could not be fetched.",
        "hint": "Check the network.",
    }


def test_of_other_errors_the_place_is_logged_and_no_value(caplog):
    try:
        int("sec" + "ret prompt")
    except ValueError as error:
        failure = explain(error)
    assert "secret" not in failure.message + failure.hint
    assert "ValueError" in failure.message
    assert "ValueError" in caplog.text
    assert "test_boundary.py" in caplog.text
    assert "secret" not in caplog.text


def test_out_of_memory_says_what_to_do():
    assert "smaller" in explain(MemoryError()).hint


def test_the_api_gets_message_and_hint():
    with pytest.raises(gr.Error, match=r"Not here\. Look there\."), as_api_error():
        raise ModelUnavailable("Not here.", "Look there.")


def test_a_guarded_handler_returns_what_it_returns():
    assert visible(lambda x: x + 1)(1) == 2
