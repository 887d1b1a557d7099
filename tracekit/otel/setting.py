"""Attributes onto a span of the SDK, all at once.

What ours say are texts, numbers and tuples of texts. The SDK looks through each value before it
keeps it, which costs half as much as the span; where its spans keep attributes in the way that is
known here, ours go there directly. Any other span is told through the API.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_PARTS = {"_dict", "_lock", "_immutable", "maxlen", "max_value_len"}
"""What the SDK's mapping of attributes is made of, as far as it is known here."""


def put_attributes(span: Span, said: dict[str, Any]) -> None:
    """Set attributes whose values are sound: no other types than the SDK itself would keep."""
    if type(span) is _sdk_span or _known(type(span)):
        kept = span._attributes  # type: ignore[attr-defined]  # of the SDK's span, checked
        most = kept.maxlen
        if kept.max_value_len is None and (most is None or len(kept._dict) + len(said) <= most):
            with kept._lock:
                if not kept._immutable:
                    kept._dict.update(said)
                    return
    span.set_attributes(said)


_sdk_span: type[Span] | None = None
"""The class of the SDK's spans, where they keep attributes as is known here."""


@functools.cache
def _known(kind: type[Span]) -> bool:
    """Whether spans of this class keep attributes as those of the SDK do."""
    if kind.__module__ != "opentelemetry.sdk.trace":
        return False
    from opentelemetry.attributes import BoundedAttributes

    global _sdk_span  # the SDK has one such class
    made = BoundedAttributes(immutable=False)
    known = vars(made).keys() >= _PARTS and type(made._dict) is dict
    _sdk_span = kind if known else _sdk_span
    return known


_unread: tuple[object, object] = (None, None)
"""Sampler and processors of which it is known that they read no attributes of a span begun."""


def read_at_start(tracer: Tracer) -> bool:
    """Whether something of the program's may read the attributes with which a span begins.

    Neither the SDK's own samplers nor the processors that only export do.
    """
    global _unread  # asked for every span, and seldom another answer
    sampler = getattr(tracer, "sampler", None)
    processors = getattr(getattr(tracer, "span_processor", None), "_span_processors", None)
    if processors is _unread[1] and sampler is _unread[0] and processors is not None:
        return False
    from opentelemetry.sdk.trace import export, sampling

    exporting = (export.BatchSpanProcessor, export.SimpleSpanProcessor)
    blind = (sampling.DEFAULT_ON, sampling.DEFAULT_OFF, sampling.ALWAYS_ON, sampling.ALWAYS_OFF)
    if not isinstance(processors, tuple):
        return True
    if any(type(one) not in exporting and not hasattr(one, "only_sends") for one in processors):
        return True
    if not any(sampler is one for one in blind):
        return True
    _unread = (sampler, processors)
    return False
