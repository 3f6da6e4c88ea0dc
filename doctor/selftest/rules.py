"""What a self-test can find, as rules: ``doctor rules ENV-SELF`` shows them."""

from __future__ import annotations

from doctor.finding import Severity, Text
from doctor.rule import Rule

_AGAIN = "doctor selftest --only {part} --seed {seed} --runs {runs} -v"

MISSED = Rule(
    id="ENV-SELF-001",
    name="planted-fault-missed",
    severity=Severity.ERROR,
    category="install",
    title=Text(
        "{part}: {missed} of {planted} planted faults are missed", "{part}：植入的 {planted} 个故障漏报 {missed} 个"
    ),
    why=Text(
        "What is missed here would be missed in a real run too ({kinds}). Commonest: files of the program are damaged or of two "
        "releases, or another version of a package that it reads with is installed.",
        "这里漏报的故障在真实训练中同样会漏报（{kinds}）。最常见的原因：程序文件损坏或新旧版本混杂，或所依赖的包版本不合适。",
    ),
    fix=Text(
        "Install the program anew into an environment of its own, then repeat the part; if it is missed still, report the "
        "lines that -v prints.",
        "在独立环境中重新安装本程序后重测该部分；若仍漏报，请反馈加 -v 输出的内容。",
    ),
    verify=_AGAIN,
)
FALSE_ALARM = Rule(
    id="ENV-SELF-002",
    name="healthy-input-raises",
    severity=Severity.ERROR,
    category="install",
    title=Text(
        "{part}: false alarms on {count} of {healthy} healthy inputs", "{part}：{healthy} 个正常输入中有 {count} 个误报"
    ),
    why=Text(
        "Nothing was planted there, and {rules} was raised all the same: whoever is warned in vain stops reading warnings.",
        "并未植入任何故障，却报告了 {rules}：误报多了，就不会再有人看告警。",
    ),
    fix=Text(
        "Silence a rule that does not fit you with `ignore` in doctor.toml, and report the lines that -v prints.",
        "可在 doctor.toml 的 `ignore` 中关闭不适用的规则，并反馈加 -v 输出的内容。",
    ),
    verify=_AGAIN,
)
OWN_RULE = Rule(
    id="ENV-SELF-003",
    name="own-rule-wrong",
    severity=Severity.ERROR,
    category="config",
    title=Text("A rule of your own is wrong: {path}", "自有规则有误：{path}"),
    why=Text(
        "The rule is from a folder that doctor.toml names or an installed package brings along. A file that cannot be read keeps "
        "`doctor watch` and `doctor explain` from starting; a rule that misses its own examples, or is raised on healthy lines, "
        "misleads in every run.",
        "该规则来自 doctor.toml 指定的目录或已安装的规则包。无法读取的规则文件会使 `doctor watch` 与 `doctor explain` 无法启动；"
        "漏掉自身示例或在正常日志上触发的规则，会在每次训练中误导判断。",
    ),
    fix=Text("Correct the file; each fault is named with its key.", "修正该文件；每处问题都会指出对应的键。"),
    verify="doctor rules check {path}",
)
REPLACED = Rule(
    id="ENV-SELF-004",
    name="own-rule-replaces-another",
    severity=Severity.WARNING,
    category="config",
    title=Text("{file} replaces {rule} of the program", "{file} 替换了程序自带的 {rule}"),
    why=Text(
        "It has the same id and goes before it, so {missed} of {planted} texts that the replaced rule knew are no longer told.",
        "两者编号相同且它优先生效，因此原规则能识别的 {planted} 段文本中有 {missed} 段不再报告。",
    ),
    fix=Text(
        "Give the rule an id of its own if it was not meant to replace the other one.",
        "若无意替换，请给该规则另取一个编号。",
    ),
    verify="doctor selftest --only {rule}",
)
DAMAGED = Rule(
    id="ENV-SELF-005",
    name="program-files-damaged",
    severity=Severity.ERROR,
    category="install",
    title=Text("{count} files of the program are not as installed", "程序有 {count} 个文件与安装时不一致"),
    why=Text(
        "They are missing or have other contents than the package had: {files}. What they do is not done, without a word.",
        "这些文件缺失或内容与安装包不同：{files}。相应功能会悄无声息地失效。",
    ),
    fix=Text("Install the program anew.", "重新安装本程序。"),
    verify="doctor selftest",
    explains=("ENV-SELF-001", "ENV-SELF-002"),
)
LATE = Rule(
    id="ENV-SELF-006",
    name="alerts-come-late",
    severity=Severity.WARNING,
    category="disk-io",
    title=Text("Alerts come late: p99 {p99} s after the line was written", "告警偏晚：p99 为写入后 {p99} 秒"),
    why=Text(
        "In {folder} a written line is seen late: the machine is busy, or the disk shows what others write only after a while "
        "(attribute caches of network file systems).",
        "{folder} 上写入的日志行很晚才能看到：机器繁忙，或磁盘延迟呈现他人写入的内容（网络文件系统的属性缓存）。",
    ),
    fix=Text(
        "Watch on the host that writes the logs, or mount with a short attribute cache (NFS: actimeo=1).",
        "在写日志的主机上运行 watch，或缩短属性缓存时间（NFS：actimeo=1）。",
    ),
    verify="doctor selftest --only live --folder {folder}",
)
RULES = (MISSED, FALSE_ALARM, OWN_RULE, REPLACED, DAMAGED, LATE)
