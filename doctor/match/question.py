"""Answers questions in words: ``训练启动就OOM``, ``loss is nan``, ``training is slow``.

A rule's `asked` phrases are compared with the question; the rules that only answer questions (``rules/questions``) go
before those of detectors, whose texts speak of a run that was watched.
"""

from __future__ import annotations

import re
from functools import lru_cache

from doctor.escape import visible
from doctor.finding import Evidence, Finding
from doctor.match.pack import Pack
from doctor.match.reason import finding_of
from doctor.match.words import values_of
from doctor.records.comment import without_comment

#: a text longer than this is a log, not a question
LONGEST = 240
_MOST = 4
_WORD = re.compile(r"[a-z0-9_.+-]+")
#: doesn't, can't: what is denied is asked for by `not` as well as by the word itself
_DENIED = re.compile(r"\b[a-z]+n't\b")
_DECIMAL = re.compile(r"\d+\.\d+")


#: what questions do not have: times, levels, values after a colon or equals sign, paths, code, brackets, long numbers
_LOG = re.compile(
    r"^(?:\?\?| ?[MADRCU]{1,2} ) ?\S+$|\d\d:\d\d|\b(?:ERROR|WARNING|INFO|CRITICAL)\b|[:=] ?[^\s?]|[{}<>|\[\]();$]|/\w+/|\.(?:py|cc|cpp|so|h)\b"
    r"|0x[0-9a-f]{4,}|\bE[A-Z1-9]\d{4}\b|\d{5,}|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\b\w+(?:Error|Exception)\b"
)


#: a setting that a person names with its value: that is no line of a program yet
_SETTING = re.compile(r"\b(?:[a-z]+_[a-z_]+ ?= ?\w+|[A-Za-z]{2,} ?= ?\d+)\b(?![.=:(])", re.ASCII)
#: how a person asks
_ASKS = re.compile(
    r"[?？]|^\W*(?:how|why|what|which|where|when|is|are|can|does|do|should|could|any)\b|\b(?:how (?:to|can|do|should|many)|why|help me|fix)\b"
    r"|怎么|怎样|如何|为什么|为何|为啥|什么|哪个|哪些|多少|吗|呢|咋|能不能|是否|有没有|办法|求助|请教|解决|原因|排查",
    re.IGNORECASE | re.ASCII,
)
#: how programs speak of what they do: in the future, politely, in code, of themselves
_PROGRAM = re.compile(
    r"\b(?:will|please|recommend\w*|deprecated|by default|instead|hence|currently|currents?|note that|retries|gracefully|forcefully|profiler"
    r"|skip\w*|default\w*|ignor\w+|indicates?|specified|supported|do not support|does not support|do not|waiting for all|register\w*"
    r"|callback|threshold|packets?|did not improve|kernels?|subprocess|it's|versions? (?:is|are)|the cpu device)\b|`|_\w+ (?:is|are|was) |^failed to\b",
    re.IGNORECASE | re.ASCII,
)
#: a whole sentence with its full stop
_SENTENCE = re.compile(r"^[A-Z`](?:\S+\s+){7,}\S+\.$", re.DOTALL)
#: more words than these are a sentence of a program, unless something is asked
_MOST_WORDS = 16
#: how a person complains
_COMPLAINS = re.compile(
    r"\b(?:oom|out of|nans?|inf(?:inite|inity)?|ooms|oomed|slow\w*|stuck|hang\w*|hung|froze\w*|freez\w*|stall\w*|block\w*|kill\w*|dead\w*|die[sd]?|crash\w*|fail\w*"
    r"|errors?|cannot|can't|unable|not|no|don't|less|worse|never|nothing|n't|won't|doesn't|isn't|didn't|wrong|bad|poor|missing|mismatch\w*|unexpected|full"
    r"|insufficient|exhaust\w*|enough|timeout|timed|spik\w*|jump\w*|diverg\w*|expl\w*|vanish\w*|flat|plateau\w*|stagnat\w*|halv\w*|hover\w*|barely|hardly|pauses?|halts?|takes most|incomplete|blows?|blew|halv\w*|half|dominat\w*|spent|minutes|hours|days|constant|unchanged|same|high\w*"
    r"|low\w*|large\w*|small\w*|zero|(?<![\d.])0(?:\.0+)?(?![\d.])|leak\w*|fragment\w*|grow\w*|increas\w*|rise\w*|rising|up|drop\w*|fall\w*|collapse\w*|occupied|busy|taken|held"
    r"|already|conflict|denied|refused|lost|gone|vanished|disappear\w*|exit\w*|quit\w*|ended|stopp?\w*|silent\w*|suddenly|corrupt\w*|broken|damaged|unstable"
    r"|oscillat\w*|fluctuat\w*|overflow\w*|forever|long|wait\w*|bound|bottleneck|starv\w*|old|incompatib\w*|invalid|always|every|only|too|without|problem)\b"
    r"|不|没|无|未|失败|报错|错误|异常|慢|卡|爆|满|溢出|超时|突|飙|跳变|发散|变|升|涨|降|高|低|过|太|震荡|振荡|抖|波动|泄漏|碎片|占|冲突|拒绝|少|缺|丢|掉"
    r"|消失|杀|退出|闪退|中断|停|僵|夯|挂|死|损坏|很久|耗时|时间长|等待|要等|在等|炸|崩|徘徊|大头|停住|跟不上|左右|(?:要|等|花|得|好几|十几|半)[^，。]{0,6}(?:秒|分钟|小时)|一半|瓶颈|旧|残留|恒定|一直|总是|回到|变回|为0|为零|只能|只有|仅|乱码|溢",
    re.IGNORECASE | re.ASCII,
)
#: how a program, or a person who is content, says that all is as it should be
_REASSURES = re.compile(
    r"\b(?:enabled?|finish\w*|success\w*|complet\w*|passed|ready|normal(?! user)\w*|as expected|by design|on demand|automatic\w*|adjusted|saved|resumes|restarted|well"
    r"|matches|follows|because|not involved|were kept|was kept|is on|are on|is checked|are logged|are skipped|are dropped|may take|may be|then (?:falls|drops|settles)|will be|starts now|no longer)\b"
    r"|成功|(?<![未没])完成|通过|(?<!不)正常|充足|请耐心|已保存|已恢复|就绪|会比较",
    re.IGNORECASE | re.ASCII,
)

#: how a person tells what it was
_SOLVED = re.compile(
    r"找到原因|原因找到|修复了|已经?(?:修复|解决)|问题解决了|\b(?:was|is|been|got) (?:fixed|solved) (?:by|in|with)\b",
    re.ASCII,
)
_STILL = re.compile(r"[?？]|吗|怎么|如何|为什么|但|仍|还是|\bbut\b|\bstill\b", re.IGNORECASE | re.ASCII)

#: where a person turns from what works to what does not
_CLAUSE = re.compile(r"[，；。;]|, but |\bbut\b|但是|但|可是|然而|却|, (?:and )?yet ", re.IGNORECASE | re.ASCII)


def is_question(text: str) -> bool:
    """Whether a text is a person's question or complaint rather than lines of a program or word of what goes well."""
    stripped = _SETTING.sub("setting", text.strip(), count=1)
    if not stripped or len(stripped) > LONGEST or stripped.count("\n") > 1 or _LOG.search(stripped):
        return False
    if _SOLVED.search(stripped) and not _STILL.search(stripped):
        return False
    if _ASKS.search(stripped):
        return True
    if without_comment(stripped) != stripped:
        return False
    if len(stripped.split()) > _MOST_WORDS or _PROGRAM.search(stripped) or _SENTENCE.match(stripped):
        return False
    return any(_COMPLAINS.search(clause) and not _REASSURES.search(clause) for clause in _CLAUSE.split(stripped))


def answers(text: str, pack: Pack) -> tuple[Finding, ...]:
    """Findings of the rules whose `asked` words stand in a short text, the most exact first."""
    question = " ".join(text.lower().split())
    if not is_question(text):
        return ()
    scored = []
    for rule in pack.rules:
        best = max((fit(phrase, question) for phrase in rule.asked), default=0.0)
        if best > 0:
            scored.append((-round(best, 2), rule.detector is not None, rule.id, rule))
    scored.sort(key=lambda item: item[:3])
    out = []
    for place, (negative, _, _, rule) in enumerate(scored[:_MOST]):
        sure = round(min(0.8, 0.5 + 0.05 * -negative) * 0.75**place, 2)
        evidence = Evidence("value", "question", text=visible(text.strip(), LONGEST))
        found = finding_of(rule, values_of(rule, {}), [evidence])
        out.append(found.with_(confidence=min(sure, rule.rule.confidence), root_cause=place == 0))
    return tuple(out)


def fit(phrase: str, question: str) -> float:
    """How well a phrase (words that must all occur, a|b either) fits; 0 when one is missing."""
    total = 0.0
    words = _words(question)
    for term in phrase.lower().split():
        found = max((_strength(choice, question, words) for choice in term.split("|")), default=0.0)
        if not found:
            return 0.0
        total += found
    return total


def _strength(choice: str, question: str, words: frozenset[str]) -> float:
    """ASCII words are looked for as words (a trailing * takes any ending), Chinese anywhere."""
    if not choice.isascii():
        return 1.0 + 0.1 * len(choice) if choice in question else 0.0
    if choice.endswith("*"):
        return 1.0 if any(word.startswith(choice[:-1]) for word in words) else 0.0
    return 1.0 if choice in words else 0.0


@lru_cache(maxsize=4)
def _words(question: str) -> frozenset[str]:
    """The words and the parts of compounds; a decimal is one number (64.0 holds no 0), and 0.00 is 0."""
    found = set(_WORD.findall(question))
    denied = set(_DENIED.findall(question.replace("\u2019", "'")))
    if denied:
        found |= denied | {"not"}
    numbers = {word for word in found if _DECIMAL.fullmatch(word)}
    parts = {part for word in found - numbers for part in re.split(r"[._+-]", word) if part}
    return frozenset(found | parts | {"0" for word in numbers if not word.strip("0.")})
