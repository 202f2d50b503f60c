"""Texts of others on our screen."""


def shown(text: str) -> str:
    """A text that comes from a file or a model, on one line; control characters are spelled out and not obeyed.

    (They could clear the screen, hide what follows, or write another verdict there.)
    """
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
