"""The words of the page in both languages."""

from __future__ import annotations

from doctor.finding import Text

WORDS: dict[str, Text] = {
    "findings": Text("Findings", "诊断"),
    "none": Text("Nothing was found.", "未发现问题。"),
    "consequence": Text("a consequence", "后果"),
    "confidence": Text("confidence", "置信度"),
    "step": Text("step", "步"),
    "at_step": Text("step {}", "第 {} 步"),
    "colon": Text(": ", "："),
    "more_places": Text("more places:", "更多位置："),
    "at": Text("at", "位置"),
    "rank": Text("rank", "rank"),
    "fix": Text("Fix", "修复"),
    "edit": Text("edit", "修改"),
    "verify": Text("Verify", "验证"),
    "ruled_out": Text("Ruled out", "已排除"),
    "see": Text("See", "参考"),
    "explains": Text("Explains", "可解释"),
    "curves": Text("Curves", "曲线"),
    "ranks": Text("Ranks", "各 rank"),
    "log": Text("log", "日志"),
    "records": Text("records", "记录数"),
    "last_step": Text("last step", "最后一步"),
    "last_loss": Text("last loss", "最终损失"),
    "step_time": Text("ms a step", "每步毫秒"),
    "throughput": Text("throughput", "吞吐"),
    "overflows": Text("overflows", "溢出"),
    "more_ranks": Text("more ranks, not shown", "个 rank 未列出"),
    "environment": Text("Environment", "环境"),
    "configuration": Text("Configuration", "配置"),
    "from": Text("from", "来自"),
    "interventions": Text("Interventions", "干预"),
    "what": Text("what was done", "内容"),
    "back_to": Text("went on from", "恢复自"),
    "made_by": Text("made by doctor", "由 doctor 生成"),
    "legend": Text(
        "Bright line: the rank that stands for the run, with the extremes of what each point stands for; grey: other ranks; "
        "dotted: steps that the run left behind when it went back. Dashed lines are findings, by number; a red ground begins "
        "where the loss is no longer a number.",
        "亮线为代表本次训练的 rank，色带为每个点所含步的极值；灰线为其他 rank；点线为回退后放弃的步。竖虚线为诊断（按编号）；红色背景从损失变为非数处开始。",
    ),
}
#: said where nothing can be drawn
NO_PLOTS = Text(
    "No curves: matplotlib is not installed here. Install it with: pip install matplotlib",
    "没有曲线图：此处未安装 matplotlib。安装：pip install matplotlib",
)
SEVERITIES = {
    "info": Text("info", "提示"),
    "warning": Text("warning", "警告"),
    "error": Text("error", "错误"),
    "fatal": Text("fatal", "致命"),
}
