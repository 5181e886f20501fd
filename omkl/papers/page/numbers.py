"""Numbers in print."""

from __future__ import annotations


def scientific(value: float) -> str:
    if value < 1e4:
        return f"{value:,.0f}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} × 10" + str(int(exponent)).translate(_RAISED)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def short_number(text: str) -> str:
    try:
        return text if text.lstrip("-").isdigit() else f"{float(text):.4g}"
    except ValueError:
        return text


def signed(text: str) -> str:
    """With a minus sign as long as a plus."""
    return text.replace("-", "−")


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"
