"""Slack: an incoming webhook of a channel."""

from __future__ import annotations

from typing import Any

from karat.sinks.message import Message
from karat.sinks.webhook import Hook


class Slack(Hook):
    """Posts blocks. All text is plain, so that names can neither mention people nor hide a link."""

    name = "slack"
    about = "a Slack channel: the address of its webhook is in SLACK_WEBHOOK_URL, or in VARIABLE with slack:VARIABLE"
    service = "Slack"
    variable = "SLACK_WEBHOOK_URL"

    def body(self, message: Message) -> Any:
        blocks: list[Any] = [{"type": "header", "text": _plain(message.shown_title)}]
        texts = [message.summary, *message.shown_notes, *message.shown_lines]
        blocks += [{"type": "section", "text": _plain(text)} for text in texts]
        footer: list[Any] = [_plain(message.footer)]
        if message.link:  # the only text with marks
            footer.append({"type": "mrkdwn", "text": f"<{_escaped(message.link)}|{message.link_text}>"})
        blocks.append({"type": "context", "elements": footer})
        return {"text": _escaped(message.shown_title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
