"""The words of the screens, in both languages, in one place. Texts of findings stand in their rules."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.finding import Text

WORDS: dict[str, Text] = {
    "home": Text("Home", "首页"),
    "check": Text("Check", "检查"),
    "watch": Text("Watch", "监控"),
    "explain": Text("Explain", "解释"),
    "rules": Text("Rules", "规则"),
    "train": Text("Train", "训练"),
    "target_key": Text("Target", "目标"),
    "paste_key": Text("Text", "文本"),
    "config_key": Text("Config", "配置"),
    "search_key": Text("Search", "搜索"),
    "evidence": Text("Evidence", "证据"),
    "theme": Text("Dark/light", "深色/浅色"),
    "stop": Text("Stop", "停止"),
    "quit": Text("Quit", "退出"),
    "help": Text("Help", "帮助"),
    "suspend": Text("To the shell (fg comes back)", "挂起到 shell（fg 返回）"),
    "language": Text("中文", "English"),
    "machine": Text("This machine", "本机"),
    "recent": Text("Recent runs (Enter watches one)", "最近的训练（回车监控）"),
    "no_runs": Text("No runs under ./output yet.", "./output 下还没有训练记录。"),
    "next": Text("What to do next", "下一步"),
    "next_steps": Text(
        "c  check a config, weights or data before a run\nw  watch a run live\ne  explain an error message\n"
        "t  train an example, watched\nr  browse the rules",
        "c  训练前检查配置、权重或数据\nw  实时监控训练\ne  解释报错\nt  训练示例并全程诊断\nr  浏览规则",
    ),
    "checking": Text("checking …", "检查中……"),
    "target": Text("Path of a config, weights or data; empty for this machine", "配置、权重或数据的路径；留空检查本机"),
    "paste": Text(
        "Paste an error message, code, rule id, question or path; Esc leaves the text, then o picks a file",
        "粘贴报错、错误码、规则编号、问题或路径；按 Esc 离开输入框后，o 选择文件",
    ),
    "search": Text("Search id, name or words", "搜索编号、名称或文字"),
    "run_path": Text("Run folder or log file", "训练目录或日志文件"),
    "filter": Text("Filter", "筛选"),
    "from_warning": Text("shown: warnings and errors", "仅显示警告与错误"),
    "from_error": Text("shown: errors only", "仅显示错误"),
    "fix": Text("Fix", "修复"),
    "fix_none": Text("Nothing to fix automatically.", "没有可自动修复的项。"),
    "fix_question": Text(
        "Apply these edits? y applies, n leaves the file as it is.", "应用这些修改？y 应用，n 不修改。"
    ),
    "fixed": Text("Edited. Checking again.", "已修改，正在重新检查。"),
    "yes": Text("Apply", "应用"),
    "no": Text("Leave", "不改"),
    "again": Text("Again", "重新检查"),
    "pause": Text("Pause", "暂停"),
    "metric": Text("Plot", "曲线"),
    "attach": Text("Run", "训练"),
    "detach": Text("Detach (the run goes on)", "取消监控（训练继续）"),
    "memory_key": Text("Memory and batch", "显存与 batch 估算"),
    "no_config": Text("Give the path of a config first (/).", "请先输入配置的路径（/）。"),
    "open": Text("Open", "打开文件"),
    "next_rank": Text("Rank", "换 rank"),
    "freeze": Text("Freeze", "冻结"),
    "loss": Text("loss", "loss"),
    "grad_norm": Text("gradient norm", "梯度范数"),
    "lr": Text("learning rate", "学习率"),
    "loss_scale": Text("loss scale", "loss scale"),
    "step_time_ms": Text("step time (ms)", "步耗时（ms）"),
    "throughput": Text("throughput", "吞吐"),
    "memory_mb": Text("memory (MB)", "内存（MB）"),
    "ended": Text("ended", "已结束"),
    "live": Text("live", "实时"),
    "paused": Text("frozen", "已冻结"),
    "left": Text("left", "剩余"),
    "more": Text("… and {count} more", "……另有 {count} 条"),
    "no_evidence": Text("No file to show for this finding.", "该诊断没有可查看的文件。"),
    "unreadable": Text("{path}: cannot be read: {why}", "{path}：无法读取：{why}"),
    "gone": Text("the logs are gone", "日志已不存在"),
    "excerpt_keys": Text("n next evidence   Esc close", "n 下一处证据   Esc 关闭"),
    "key": Text("Key", "按键"),
    "everywhere": Text("everywhere", "全局"),
    "here": Text("on this screen", "当前界面"),
    "help_more": Text(
        "Tab moves on, arrows choose, Enter opens, Esc leaves a text field or a window, ctrl+p lists all commands.",
        "Tab 切换焦点，方向键选择，回车打开，Esc 离开输入框或窗口，ctrl+p 列出所有命令。",
    ),
    "step": Text("step {at}", "第 {at} 步"),
    "not_finite": Text("not finite: {count}", "非有限值：{count}"),
    "other_plots": Text("m: {names}", "m：{names}"),
    "ranks_all": Text("{count} ranks: ", "共 {count} 个 rank："),
    "catching_up": Text("what the end says; {share} of {size} read", "先看末尾；已读 {share}，共 {size}"),
    "ranks_even": Text("all alike", "全部一致"),
    "no_curve": Text("No step has been logged yet.", "日志中还没有 step。"),
    "watch_hint": Text(
        "Nothing is watched. Press / and give a run folder or a log file, or o and pick one.",
        "尚未监控任何训练。按 / 输入训练目录或日志文件，或按 o 选择。",
    ),
    "check_hint": Text(
        "Press / and give a path, or o and pick one; g checks this machine, m estimates the memory of a config.",
        "按 / 输入路径，或按 o 选择；g 检查本机，m 估算配置的显存。",
    ),
    "train_hint": Text(
        "Press / and give a YAML config or the folder of a run, or choose an example and press Enter.",
        "按 / 输入 YAML 配置或已有的运行目录，或选择一个示例并按回车。",
    ),
    "config": Text(
        "Config of the built-in trainer, or a run folder to go on with", "内置训练器的配置，或要续训的运行目录"
    ),
    "examples": Text("Examples (Enter starts one)", "示例（回车开始训练）"),
    "training": Text("training in {folder}", "正在训练，运行目录 {folder}"),
    "train_paused": Text("paused in {folder}; p goes on", "已暂停，运行目录 {folder}；按 p 继续"),
    "stopping": Text("stopping: the trainer saves a checkpoint first", "正在停止：训练器会先保存 checkpoint"),
    "train_over": Text(
        "ended with exit code {code} in {folder}; p resumes it, b goes back, i edits the config",
        "已结束，退出码 {code}，运行目录 {folder}；p 续训，b 回退，i 修改配置",
    ),
    "train_gone": Text(
        "ended in {folder}; p resumes it, b goes back, i edits the config",
        "已结束，运行目录 {folder}；p 续训，b 回退，i 修改配置",
    ),
    "back_key": Text("Back", "回退"),
    "edit_key": Text("Edit", "改配置"),
    "auto_fix": Text("Auto-fix on/off", "自动修复 开/关"),
    "auto_fix_on": Text("The next start cures safe faults by itself.", "下次启动时自动应用安全的修复。"),
    "auto_fix_off": Text("The next start only reports faults.", "下次启动时只报告问题。"),
    "back": Text("Back to a checkpoint", "回退到 checkpoint"),
    "back_warning": Text(
        "The run stops and goes on from the checkpoint chosen; later checkpoints are removed.",
        "训练将停止，并从所选 checkpoint 续训；之后的 checkpoint 会被删除。",
    ),
    "back_keys": Text("Enter goes back   Esc leaves", "回车回退   Esc 取消"),
    "not_sound": Text("holds values that are not finite", "含非有限值"),
    "no_checkpoints": Text("This run has saved no checkpoint yet.", "本次训练尚未保存 checkpoint。"),
    "edit_keys": Text("ctrl+s shows the diff   Esc leaves", "ctrl+s 查看改动   Esc 取消"),
    "edit_question": Text(
        "ctrl+s stops the run and resumes it with this   Esc goes on editing",
        "再按 ctrl+s 停止并以此续训   Esc 继续编辑",
    ),
    "edit_none": Text("Nothing has been changed.", "没有改动。"),
    "by_hand_back": Text("rolled back by hand", "手动回退"),
    "by_hand_edit": Text("config edited by hand", "手动修改配置"),
    "quit_question": Text(
        "A training is going on in {folder}.\n\ns    stop it (it saves a checkpoint) and quit\n"
        "k    keep it running and quit; its folder, given here, takes it up again\nEsc  stay here",
        "训练正在进行，运行目录 {folder}。\n\ns    停止训练（先保存 checkpoint）并退出\n"
        "k    训练继续，仅退出界面；之后在此输入运行目录即可再次接管\nEsc  留在界面",
    ),
    "pick_keys": Text("Enter takes the file   Backspace up   Esc leaves", "回车选择文件   退格键上一级   Esc 取消"),
    "pick_folder_keys": Text(
        "Enter opens   s takes file or folder   Backspace up   Esc leaves",
        "回车打开   s 选择文件或目录   退格键上一级   Esc 取消",
    ),
    "fix_choice": Text("{at} of {count} (left, right):", "第 {at}/{count} 种（左右键切换）："),
    "all_safe": Text("All safe fixes of this report", "本报告中所有安全的修复"),
    "all_fixes": Text(
        "All fixes of this report, also those that change the training", "本报告中所有修复，包括会改变训练的"
    ),
    "train_busy": Text("A training is going on. Stop it first (s).", "已有训练在进行，请先停止（s）。"),
    "train_idle": Text("No training is going on.", "没有正在进行的训练。"),
    "interventions": Text("Interventions", "干预记录"),
    "no_interventions": Text("None so far.", "暂无。"),
    "output": Text("Output", "输出"),
    "loading": Text("reading the rules …", "正在读取规则……"),
    "no_rules": Text("No rule has these words.", "没有包含这些词的规则。"),
    "rule_fix": Text("Fix: ", "修复："),
    "bug": Text("This is a bug in doctor: {error}", "doctor 自身出错：{error}"),
    "too_small": Text("The terminal is too small; 40x10 shows something.", "终端太小，至少需要 40x10。"),
}


def listed(words: Sequence[str], lang: str) -> str:
    """Words in a row, with the comma of the language."""
    return ("、" if lang == "zh" else ", ").join(words)


def say(key: str, lang: str, **values: object) -> str:
    """The word called `key`, its placeholders filled."""
    return WORDS[key].format(**values).pick(lang)
