"""Microsoft Teams: a workflow of a channel that is started by a webhook."""

from __future__ import annotations

from typing import Any

from karat.sinks.message import Message
from karat.sinks.webhook import Hook

_COLOURS = {"pass": "good", "fail": "attention", "inconclusive": "warning", "invalid": "warning"}


class Teams(Hook):
    """Posts an adaptive card. All text is in text runs, which show Markdown as it is."""

    name = "teams"
    about = "a Teams channel: the address of its workflow is in TEAMS_WEBHOOK_URL, or in VARIABLE with teams:VARIABLE"
    service = "Teams"
    variable = "TEAMS_WEBHOOK_URL"

    def body(self, message: Message) -> Any:
        title = {"size": "large", "weight": "bolder", "color": _COLOURS.get(message.outcome or "", "default")}
        texts = [message.summary, *message.shown_notes, *message.shown_lines]
        body = [_block(message.shown_title, **title), *map(_block, texts), _block(message.footer, isSubtle=True)]
        card: dict[str, Any] = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "msteams": {"width": "Full"},
            "body": body,
        }
        if message.link:
            card["actions"] = [{"type": "Action.OpenUrl", "title": message.link_text, "url": message.link}]
        kind = "application/vnd.microsoft.card.adaptive"
        return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


def _block(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
