"""Whether words try to instruct, to run or to lead somewhere, instead of giving a reason. Pure.

Nothing that an answer says is ever run, opened or given to a shell: these words are shown to people and kept.
They are refused all the same, because they have no place in a reason and whoever reads them, or another
model that is told them, might follow.
"""

from __future__ import annotations

import re
import unicodedata

from agent.language_model.disguise import is_disguised

_NOW = (
    r"(?:(?:^|[.!?:;]\s+|[-*•]\s)(?:(?:now|then|so|just|simply|also|and)\b,?\s+)?|\bplease\s+"
    r"|\byou (?:must|should|shall|have to|need to)\s+"
    r"|\b(?:operator|agent|assistant|reader|reviewer|judge),\s+)"
)
"""Where a verb is an order: it begins a sentence, or follows `please`, `you must` or who is addressed. Behind
a noun it tells what something does: kernels ignore a limit, and later knobs override earlier ones."""

_IT = (
    r"(?:it|this|that|these|them|everything|H-\d+|F-\d+|(?:the|my|this|that) (?:claim|hypothesis|proposal"
    r"|change|candidate|configuration|result|finding|verdict))\b"
)
"""What an answer would like to see accepted."""

_GATES = (
    r"(?:judge|judges|verdict|verdicts|test|tests|testing|validation|verification|evaluator|evaluation|guard"
    r"|guards|gate|gates|preregistration|seal|seals|approval|quality (?:check|gate|limit|margin|guard)s?)\b"
)
"""What stands between a claim and its being supported."""

_THE = r"(?:(?:the|this|that|these|those|your|its|any|all|every|each|of|further|other)\s+)"
_EARLIER = r"(?:(?:all|any|of|the|your|my|these|those|previous|prior|above|earlier|former|system|safety)\s+)"
_LIMITS = rf"(?:rules|limits?|margins?|budget|ban|{_GATES})"
_DROP = r"(?:ignore|disregard|forget|override|overrule|bypass|circumvent)\b"
_ACCEPT = r"(?:accept|approve|adopt|deploy|promote|mark|declare|report|record|treat|count|label|flag|log)"
_PROVEN = r"(?:supported|proven|proved|confirmed|verified|validated|passed|approved|accepted)\b"

_INSTRUCTS: tuple[str, ...] = (
    # leave aside what was asked, or what decides
    rf"\b{_DROP}\s+{_EARLIER}{{0,5}}(?:instructions?|orders)\b",
    rf"\b{_DROP}\s+{_EARLIER}{{1,5}}(?:rules|prompts?)\b(?!['’]s\b|\s+(?:tokens?|length|cache))",
    rf"\b{_DROP}\s+{_THE}{{1,3}}(?:judge|verdicts?|guards?|seals?|preregistration)\b",
    rf"{_NOW}{_DROP}[^.]{{0,40}}\b(?:instruction|rule|previous|above|prior|prompt|limit|budget|margin|{_GATES})",
    rf"\b(?:set|put|leave|lay|push)\s+{_THE}{{1,3}}{_LIMITS}\s+aside\b",
    rf"\b(?:set|put|lay|push)\s+aside\s+{_THE}{{1,3}}{_LIMITS}",
    rf"{_NOW}(?:skip|omit|waive|disable|suspend|silence|cancel|drop|(?:turn|switch) off)\s+{_THE}{{0,3}}"
    rf"{_GATES}",
    rf"{_NOW}(?:raise|lift|relax|loosen|widen|lower|extend|remove)\s+{_THE}{{1,3}}"
    rf"(?:budget|ban|margins?|{_GATES})",
    r"\b(?:whatever|no matter what|regardless of (?:what )?)\s*the (?:judge|verdict|tests?)\b",
    # take it for supported
    rf"\b{_ACCEPT}\s+(?:{_IT}|the \w+)[^.!?]{{0,30}}\bas\s+(?:already\s+|being\s+)?{_PROVEN}",
    rf"\b(?:consider|deem|regard|call|take)\s+{_IT}\s+(?:as\s+)?(?:already\s+)?{_PROVEN}",
    rf"\b{_ACCEPT}\s+{_IT}[^.!?]{{0,60}}\bwithout\s+(?:(?:a|an|being|more|another)\s+|{_THE})*"
    r"(?:test|check|measur|validat|verdict|judg|evidence|approv|review|asking|verif)\w*",
    rf"{_NOW}(?:accept|approve|adopt|promote|trust|believe)\s+(?:me\b|us\b|{_IT})",
    r"\b(?:no|needs? no|without need of a?) (?:test|testing|verdict|judge|validation)(?: is| are)?"
    r" (?:needed|necessary|required)\b|\bneeds? no (?:test|testing|verdict|judge|validation)\b",
    r"\b(?:approve|execute|run) the following\b|\bapprove (?:this|it)\b",
    rf"{_NOW}(?:execute|run) (?:this|it)\b",
    # put it first
    rf"\b(?:put|place|pin|rank|move|schedule|mark|test)\s+{_IT}\s+(?:first|next|ahead|before|at the top"
    r"|on top|to the (?:top|front))\b",
    rf"\bgive\s+{_IT}\s+(?:the\s+)?(?:highest|top|first|more)\s+(?:priority|rank|place)\b",
    # speak to somebody
    r"\bplease\b(?!\s+(?:find|see|note|let me|feel free))",
    r"(?:^|[.!?]\s+)(?:dear\s+)?(?:operator|agent|assistant|user|reader|reviewer|judge|evaluator|planner"
    r"|autoinfer|administrator|admin|human|colleague)s?\s*,\s",
    r"\bas (?:the|your) (?:operator|administrator|owner|developer|maintainer)\b",
    r"\byou (?:must|should|shall|have to|need to) (?:\w+ )?(?:obey|comply|reject|refuse|withdraw)\b",
    r"\byou are (?:now (?:an?|the|free|allowed|permitted|unrestricted)|no longer (?:bound|subject))\b",
    r"\bif you(?:'re| are) (?:an?|the) (?:ai|llm|language model|assistant|agent|judge|reader)\b",
    r"\b(?:whoever|anyone who|when you|if you) reads? this\b",
    r"\b(?:follow|obey|here are|these are) (?:the |my |these |your )?(?:new )?(?:instructions|orders)\b"
    r"|(?:^|[.!?]\s+)new instructions?\s*[:.]|\byour (?:new )?instructions\b",
    r"\b(?:your|reveal|print|repeat|show|leak|change|replace)\b[^.]{0,20}\bsystem prompt\b",
    # leave aside what was asked, in other languages: as an order alone, which begins a sentence there
    r"(?:^|[.!?:;]\s+)(?:ignorier(?:e|en sie|t)|vergiss|vergessen sie)\b[^.]{0,40}"
    r"\b(?:anweisung|regel|vorgabe)",
    r"(?:^|[.!?:;]\s+)(?:ignorez|oubliez)\b[^.]{0,40}\b(?:instructions|consignes|règles)\b",
    r"(?:^|[.!?:;]\s+)(?:ignor(?:a|e|en|em|ate)|olvid[ae]n?|dimentica(?:te)?|esqueça)\b[^.]{0,40}"
    r"\b(?:instrucciones|instruções|istruzioni|reglas|regras|regole)\b",
    r"\b(?:игнорируй|забудь)(?:те)?\b[^.]{0,40}\b(?:инструкци|указани|правил)",
    r"(?:忽略|无视|忘记)[^。.]{0,12}(?:指令|指示|规则)|(?:指示|命令|規則|ルール)[^。.]{0,8}(?:無視|忘れ)"
    r"|(?:지시|명령|규칙)[^.]{0,8}무시",
)
"""Orders to whoever reads, by what they want. The words of the field alone are no sign: a prompt, an
instruction of a processor, a limit of kernels, what one should see."""

_SIGNS: tuple[tuple[str, str], ...] = (
    (
        "names an address",
        r"\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.|\bmailto:|\bdata:[a-z]+/|\bjavascript:|(?:^|[\s(\[<\"'])//[\w-]"
        r"|\b[a-z0-9-]{1,40}\.(?:com|org|net|io|ai|dev|app|info|example|test|xyz|ru|cn)/\S"
        r"|\b\d{1,3}(?:\.\d{1,3}){3}[:/]\w",
    ),
    ("names a path", r"(?:^|[\s\"'(=`])(?:~|\.{1,2})?/(?:[\w.-]+/)+[\w.-]*|(?:^|\s)~/|\b[a-z]:\\|\.\./"),
    ("holds code", r"```|\$\(|<\s*(?:/\s*)?(?:script|iframe|img|svg|data|system)\b|\{\{|\{%"),
    (
        "holds a command",
        r"\b(?:rm\s+-|sudo\s|curl\s|wget\s|pip\s+install|apt(?:-get)?\s+install|chmod\s|eval\s*\(|exec\s*\("
        r"|os\.system|subprocess|import\s+os\b|bash\s+-c|powershell)|&&|\|\s*(?:sh|bash)\b|;\s*(?:rm|cat|curl)\b",
    ),
    ("poses as a message", r"<\|[^|]{0,40}\|>|\[/?inst\]|^[^\S\n]*(?:system|assistant|user|human)\s*:"),
    ("instructs", "|".join(f"(?:{each})" for each in _INSTRUCTS)),
)
"""What gives such words away, the reason first. Each is looked for in time that grows as the text does: a
whole answer is read so, and may be nothing but blanks."""

DISGUISED = "is written in disguise"
"""What is said of words that no sign can be looked for in."""

_COMPILED = tuple((why, re.compile(sign, re.IGNORECASE | re.MULTILINE)) for why, sign in _SIGNS)


def instructs(text: str) -> str | None:
    """What the words try, as the end of a sentence (`names an address`); None for a plain reason.

    They are read as they are written, and as what only looks otherwise (full-width letters) stands for; what
    looks like other letters and stands for none of them is disguised.
    """
    meant = unicodedata.normalize("NFKC", text)
    found = next((why for why, sign in _COMPILED if sign.search(text) or sign.search(meant)), None)
    return found or (DISGUISED if is_disguised(text) else None)
