"""The words of the screens, in both languages, in one place. Texts of findings stand in their rules."""

from __future__ import annotations

from doctor.finding import Text

WORDS: dict[str, Text] = {
    "title": Text("doctor for MindSpore training", "MindSpore 训练医生"),
    "home": Text("Home", "首页"),
    "check": Text("Check", "检查"),
    "watch": Text("Watch", "监控"),
    "explain": Text("Explain", "解释"),
    "rules": Text("Rules", "规则"),
    "quit": Text("Quit", "退出"),
    "help": Text("Help", "帮助"),
    "language": Text("中文", "English"),
    "palette": Text("Commands", "命令"),
    "machine": Text("This machine", "本机"),
    "recent": Text("Recent runs (Enter watches one)", "最近的训练（回车监控）"),
    "no_runs": Text("No runs under ./output yet.", "./output 下还没有训练记录。"),
    "next": Text("What to do next", "下一步"),
    "next_steps": Text(
        "c  check a config, weights or data\nw  watch a run live\ne  explain an error message\nr  browse the rules",
        "c  检查配置、权重或数据\nw  实时监控训练\ne  解释报错\nr  浏览规则",
    ),
    "checking": Text("checking …", "检查中……"),
    "target": Text("Path of a config, weights or data; empty for this machine", "配置、权重或数据的路径；留空检查本机"),
    "paste": Text("Paste an error message, code or rule id, or a path", "粘贴报错、错误码、规则编号，或输入路径"),
    "search": Text("Search id, name or words", "搜索编号、名称或文字"),
    "run_path": Text("Run folder or log file", "训练目录或日志文件"),
    "findings": Text("Findings", "诊断"),
    "no_findings": Text("Nothing found.", "未发现问题。"),
    "filter": Text("All / errors", "全部/仅错误"),
    "fix": Text("Fix", "修复"),
    "fix_none": Text("Nothing to fix automatically.", "没有可自动修复的项。"),
    "fix_question": Text(
        "Apply these edits? y applies, n leaves the file as it is.", "应用这些修改？y 应用，n 不修改。"
    ),
    "fixed": Text("Edited. Checking again.", "已修改，正在重新检查。"),
    "yes": Text("Apply", "应用"),
    "no": Text("Leave", "不改"),
    "back": Text("Back", "返回"),
    "again": Text("Again", "重新检查"),
    "pause": Text("Pause", "暂停"),
    "metric": Text("Next plot", "切换曲线"),
    "attach": Text("Other run", "换一个训练"),
    "loss": Text("loss", "损失"),
    "grad_norm": Text("gradient norm", "梯度范数"),
    "lr": Text("learning rate", "学习率"),
    "loss_scale": Text("loss scale", "loss scale"),
    "step_time_ms": Text("step time, ms", "步耗时 ms"),
    "throughput": Text("throughput", "吞吐"),
    "memory_mb": Text("memory, MB", "内存 MB"),
    "ranks": Text("ranks", "rank"),
    "waiting": Text("waiting for the first step line …", "等待第一条 step 日志……"),
    "ended": Text("ended", "已结束"),
    "live": Text("live", "实时"),
    "paused": Text("paused", "已暂停"),
    "lines": Text("lines", "行"),
    "left": Text("left", "剩余"),
    "too_small": Text("The terminal is too small; 40x10 shows something.", "终端太小，至少需要 40x10。"),
}


def say(key: str, lang: str) -> str:
    """The word called `key`."""
    return WORDS[key].pick(lang)
