"""What goes to the browser: JSON strings and text without markup."""

import json

from workbench.views.messages import reasons_text, run_message


def test_a_message_holds_the_events_and_their_place():
    message = json.loads(run_message("run-1", 3, ['{"kind":"round","index":2}', '{"kind":"summary"}']))
    assert message == {"run": "run-1", "first": 3, "events": [{"kind": "round", "index": 2}, {"kind": "summary"}]}


def test_an_empty_message_is_a_heartbeat():
    assert json.loads(run_message("run-1", 7, [])) == {"run": "run-1", "first": 7, "events": []}


def test_hostile_text_stays_text_inside_the_json():
    hostile = "</script><img src=x onerror=alert(1)>${alert(1)}{{value}}\u2028"
    line = json.dumps({"kind": "status", "text": hostile}, ensure_ascii=False)
    message = run_message('a"b', 0, [line])
    assert "<" not in message
    assert json.loads(message)["events"][0]["text"] == hostile


def test_reasons_name_what_is_not_offered_without_markup():
    text = reasons_text([("A*B*", "needs <b>more</b>\nand [a link](http://x)")])
    assert text.startswith("- **A\\*B\\***: needs \\<b\\>more")
    assert "\n" not in text
    assert "](" not in text.replace("\\]\\(", "")


def test_no_reasons_is_said_too():
    assert "Everything" in reasons_text([])
