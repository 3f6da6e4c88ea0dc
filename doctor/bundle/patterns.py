"""What has to be covered looks like this: secrets, users, hosts, addresses, serial numbers, mail, paths, as bytes."""

from __future__ import annotations

import re

# Every pattern below starts at an edge or has a bound: a line of megabytes must not take quadratic time.
KEY_WORD = (
    rb"(?:secret[_-]?access[_-]?key|secret[_-]?key|access[_-]?key[_-]?secret|password|passwd|passphrase|pwd|secret|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?|"
    rb"authorization|cookie|auth[_-]?token|access[_-]?token|refresh[_-]?token|security[_-]?token|session[_-]?(?:id|token|key)|"
    rb"bearer[_-]?token|(?<=[a-z0-9]_)token|hub[_-]?token|ak|sk|access[_-]?code|license[_-]?key|sas[_-]?token|signature|client[_-]?secret)"
)
SECRET = re.compile(
    rb"(?P<name>(?<![A-Za-z0-9])" + KEY_WORD + rb"(?:[_.-][A-Za-z0-9]{1,20}){0,2})"
    rb"(?P<join>\\?[\"']?[ \t]*(?:=>|[=:])[ \t]*(?:b?\\?[\"'])?)"
    rb"(?P<value>(?<=\")[^\"\n\\]{1,4096}|(?<=')[^'\n\\]{1,4096}|(?:(?:bearer|basic|token)[ \t]+)?[^\s\"',;&|<>(){}\[\]\\]{1,4096})",
    re.IGNORECASE,
)
TOKEN = re.compile(
    rb"(?<![A-Za-z0-9_.-])(?P<name>token[\"']?[ \t]*[=:][ \t]*[\"']?)(?P<value>[A-Za-z0-9_./+=-]{12,4096})",
    re.IGNORECASE,
)
CHINESE = re.compile(
    "(?P<name>(?:密码|口令|密钥|令牌|访问密钥)[ \t]{0,4}(?:[:=]|：|为|是)[ \t]{0,4}[\"'“”]{0,3})(?P<value>[^\\s\"'，。；,;]{1,200})".encode().replace(
        "“”".encode(), b""
    )
)
OPTION = re.compile(
    rb"(?P<name>--?" + KEY_WORD + rb"(?:-[a-z]{1,20})?[ \t]+[\"']?)(?P<value>[^\s\"'-][^\s\"']{0,4095})", re.IGNORECASE
)
BEARER = re.compile(rb"(?P<name>\b(?:bearer|basic)[ \t]+)(?P<value>[A-Za-z0-9+/=._~-]{8,4096})", re.IGNORECASE)
LOGIN = re.compile(
    rb"(?P<name>(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,20}://)"
    rb"(?P<value>[^/\s:@\"'<>]{1,256}(?::[^\s@\"'<>]{0,256})?)(?=@)"
)
KNOWN_KEYS = re.compile(
    rb"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|"
    rb"A[KS]IA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|"
    rb"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?)"
)
PEM = re.compile(rb"^[ \t\"'+-]{0,8}(?:[A-Za-z0-9+/]{56,76}={0,2})(?=[ \t\"'\\]{0,4}\r?$)", re.MULTILINE)
HEX = re.compile(rb"(?<![A-Za-z0-9])(?:[0-9a-f]{32,128}|[0-9A-F]{32,128})(?![A-Za-z0-9])")
UUID = re.compile(rb"(?<![A-Za-z0-9-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![A-Za-z0-9-])")
SERIAL = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:serial[ _-]?(?:number|num|no)?|sn|v?die[ _-]?id|board[ _-]?id|machine[ _-]?id|asset[ _-]?tag|chip[ _-]?sn|elabel|uuid)"
    rb"[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[A-Za-z0-9][A-Za-z0-9-]{5,63}(?: [0-9A-Fa-f]{8}){0,4})",
    re.IGNORECASE,
)
MAIL = re.compile(rb"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
MAC = re.compile(rb"(?<![0-9A-Za-z:-])(?:[0-9a-fA-F]{2}([:-]))(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}(?![0-9A-Za-z:-])")
IPV6 = re.compile(
    rb"(?<![0-9A-Za-z:.])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6})(?![0-9A-Za-z:])"
)
IPV4 = re.compile(rb"(?<![A-Za-z0-9_.])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9_]|\.\d)")
VERSION_BEFORE = re.compile(
    rb"==\Z|(?:version|ver|driver|firmware|cann|toolkit)[\"']?[ \t]*(?:is|[:=])?[ \t]*[\"'\[v]{0,2}\Z", re.IGNORECASE
)
#: `"opencv-python": "4.8.1.78"` is a version, `"server_ip": "10.1.2.3"` an address
KEY_BEFORE = re.compile(rb"[\"'](?P<key>[A-Za-z][A-Za-z0-9_.-]{0,50})[\"'][ \t]*:[ \t]*[\"']\Z")
ADDRESS_KEY = re.compile(
    rb"ip|addr|host|server|gateway|mask|node|master|url|endpoint|peer|dns|worker|sched|net", re.IGNORECASE
)
HOST_KEY = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:host_?name|node_?name|server_id|(?:MASTER_ADDR|MS_SCHED_HOST|HOSTNAME|SLURMD_NODENAME|SLURM_NODELIST|NODE_NAME)|host)"
    rb"[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?)(?![A-Za-z0-9_(/])",
    re.IGNORECASE,
)
USER_KEY = re.compile(
    rb"(?P<name>(?<![A-Za-z])(?:user_?name|login_?name|logname|sudo_user|user|owner|account)[\"']?[ \t]*[:=][ \t]*[\"']?)"
    rb"(?P<value>[A-Za-z_][A-Za-z0-9_.-]{1,31})(?![A-Za-z0-9_(/:])",
    re.IGNORECASE,
)
USER_SAID = re.compile(
    "(?:(?:用户名|用户)[ \t]{0,2}(?:[:=]|：)|[Ll]ogged in as:?)[ \t]{0,2}(?P<value>[A-Za-z_][A-Za-z0-9_.-]{1,31})".encode()
)
UID = re.compile(rb"\b[ug]id=\d+\((?P<value>[A-Za-z_][A-Za-z0-9_.-]{0,31})\)")
PROMPT = re.compile(
    rb"^[ \t]*(?:\([^()\n]{1,40}\)[ \t]?)?\[?(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,31})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,62})(?=[: \]~])",
    re.MULTILINE,
)
HOME = re.compile(rb"(?:/home|/Users|/root/home|\\Users)[/\\]{1,2}(?P<value>[^/\\\s:'\",;()<>|\]\[]{1,64})")
URL_HOST = re.compile(
    rb"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://(?:[^/\s@\"'<>]{1,600}@)?(?P<value>[A-Za-z0-9][A-Za-z0-9.-]{0,250})"
)
PART = rb"[^\x00-\x20/\"'<>|:;,()\[\]{}=*?`\\]"
#: an absolute path; not the rest of a rate (samples/s/p), of a relative path or of an address
PATH = re.compile(rb"(?<![A-Za-z0-9_.~/\x80-\xff<-])(?:/" + PART + rb"{1,255}){1,64}")
WINDOWS = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z]:(?:\\{1,2}[^\x00-\x1f\\/\"'<>|:;,()\[\]{}=*?`]{1,255}){1,64}")
RELATIVE = re.compile(
    rb"(?<=[A-Za-z0-9_.~\x80-\xff-])/"
    + PART
    + rb"{2,255}|(?<![^\x00-\x20\"'<>|:;,()\[\]{}=*?`\\])"
    + PART
    + rb"{3,255}(?=/)"
)
WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]+")

#: what a line must hold for the slower patterns to be tried on it
SECRET_HINTS = (
    *(
        b"pass",
        b"pwd",
        b"secret",
        b"key",
        b"credential",
        b"authoriz",
        b"cookie",
        b"_token",
        b"-token",
        b"token=",
        b"token:",
        b"token ",
        b'token"',
        b"token'",
        b"bearer",
        b"basic ",
    ),
    *(
        b"ak=",
        b"ak:",
        b'ak"',
        b"ak'",
        b"ak ",
        b"sk=",
        b"sk:",
        b'sk"',
        b"sk'",
        b"sk ",
        b"access",
        b"signature",
        b"session",
    ),
    *(word.encode() for word in ("密", "口令", "令牌")),
)
SERIAL_HINTS = (b"serial", b"sn", b"die", b"board", b"machine", b"asset", b"elabel", b"uuid")
USER_HINTS = (
    b"user",
    b"logged in",
    b"log_name",
    b"login",
    b"logname",
    b"owner",
    b"account",
    b"id=",
    b"/home",
    "用户".encode(),
)
HOST_HINTS = (b"host", b"node", b"server_id", b"addr", b"://")
#: what a token is that is none of a secret
TOKENS = re.compile(
    rb"(?:pad|eos|bos|unk|sep|cls|mask|special|image|num|per|max|min|next|start|end|stop|new|text|id|avg|each|prompt|input|output)_\Z",
    re.IGNORECASE,
)


NUMBER = re.compile(rb"[0-9]+")
#: lines that differ in their numbers only are covered alike, unless the numbers themselves may be what has to be covered:
#: tokens of letters and digits by turns, addresses, hashes (numbers are written as 0 here)
DEPENDS = re.compile(
    rb"[A-Za-z]0[A-Za-z]{1,64}0|0[A-Za-z]{1,64}0[A-Za-z]|0\.0\.0\.0|(?:[0-9A-Fa-f]{1,8}[:-]){4}|::"
    rb"|(?<![A-Za-z_+/=-])[A-Za-z_+/=-]{16,}0|0[A-Za-z_+/=-]{16}"
)
DEPENDS_HINTS = (
    *(*SECRET_HINTS, *SERIAL_HINTS, b"@", b"hf_", b"sk-", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat"),
    *(b"glpat", b"akia", b"asia", b"aiza", b"xox", b"npm_", b"pypi-", b"eyj"),
)
