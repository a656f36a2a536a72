#!/usr/bin/env python3
"""Writes share/completion: completion of cupel's command line for bash, zsh and fish.

    tools/completion.py [PROGRAM] [-o FOLDER]    (default: build/cupel, share/completion)

Commands, options and closed sets of values come from `PROGRAM … --help`. Run this script after each change of the
command line or of a help text; until then, tests/e2e/test_completion.py fails. The tables below say what the help does
not, such as that --kernel takes a .cu file. An option that neither covers is an error.
SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMN = 30  # where CLI11's help has its descriptions
LONGEST_HELP = 90

# The kind of a value, by its type in the help, by option, and by positional argument. "": no completion.
TYPES = {"FILE": "file", "DIR": "folder", "FOLDER": "folder", "RUN": "folder",
         **dict.fromkeys(("INT", "UINT", "FLOAT", "USD", "N", "SPEC", "COMMAND", "FLAG", "RE", "NAME"), "")}
OPTIONS = {"--task": "task", "--baseline": "file", "--kernel": "kernel", "--backward-kernel": "kernel", "--python": "file", "--run": "folder",
           **dict.fromkeys(("--name", "--module", "--inputs", "--init"), "")}
POSITIONALS = {**dict.fromkeys(("kernel", "kernels", "program"), "kernel"), **dict.fromkeys(("task", "input"), "task"),
               **dict.fromkeys(("run", "runs", "A", "B"), "folder"),
               **dict.fromkeys(("list", "records", "paths"), "file")}
# Values that the help lists in a sentence. A word is offered if it occurs in the help.
WORDS = {"--device": ("emu", "gpu", "gpu:all"), "--distributions": ("all", "none"),
         "--operators": ("allowed", "none", "auto"),
         "--baselines": ("eager", "compile", "max-autotune", "named", "none", "probe")}
NOTES = re.compile(r"REQUIRED|Excludes:|Needs:|\(Env:")  # what follows names and type


@dataclasses.dataclass(frozen=True)
class Value:
    kind: str  # "words", "file", "folder", "kernel", "task", or "" for any other value
    words: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    help: str
    value: Value | None  # None: a flag
    repeats: bool


@dataclasses.dataclass(frozen=True)
class Positional:
    name: str
    value: Value
    repeats: bool


@dataclasses.dataclass
class Command:
    words: tuple[str, ...]  # ("task", "list")
    help: str
    options: list[Option] = dataclasses.field(default_factory=list)
    positionals: list[Positional] = dataclasses.field(default_factory=list)
    subcommands: list[Command] = dataclasses.field(default_factory=list)

    @property
    def path(self) -> str:
        return " ".join(self.words)

    def all(self) -> Iterator[Command]:
        yield self
        for command in self.subcommands:
            yield from command.all()


# Reading the help.

def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, entry, description) of each line of a help text that describes something."""
    section, lines = "", text.splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch(r"[A-Z]\w+:", line):
            section = line[:-1]
        elif not line.startswith("  "):
            section = ""
        elif section and line[2] != " ":
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if below.startswith(" " * COLUMN):
                yield section, line.strip(), below.strip()
            else:
                yield section, line[:COLUMN].strip(), line[COLUMN:].strip()


def value_of(name: str, kinds: dict[str, str], rest: str, description: str, where: str) -> Value:
    """The value of an option or positional argument. `rest` is the text after its name, like "TEXT:{a,b}=a"."""
    if match := re.search(r"\{([^}]*)\}", rest):
        return Value("words", tuple(match[1].split(",")))
    if name in WORDS:
        words = tuple(word for word in WORDS[name] if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", description))
        if words:
            return Value("words", words)
        raise SystemExit(f"completion: the help of {where} has none of the values {', '.join(WORDS[name])}: "
                         "correct WORDS in tools/completion.py")
    if match := re.search(r": ((?:[\w-]+, )+[\w-]+)$", description):
        return Value("words", tuple(match[1].split(", ")))
    kind = kinds.get(name, TYPES.get(re.split(r"[:= ]", rest)[0]))
    if kind is None:
        raise SystemExit(f"completion: add {where} (value: {rest}) to one of the tables in tools/completion.py")
    return Value(kind)


def option_of(entry: str, description: str, command: str) -> Option:
    joined, _, rest = entry.partition(" ")
    names = tuple(name.partition("{")[0] for name in joined.split(","))
    where = f"{names[-1]} of `{command}`"
    if not all(re.fullmatch(r"-\w|--[\w-]+", name) for name in names):
        raise SystemExit(f"completion: cannot read the option {entry!r} of `{command}`")
    if not rest or NOTES.match(rest):
        return Option(names, description, None, False)
    name = next(name for name in names if name.startswith("--"))
    return Option(names, description, value_of(name, OPTIONS, rest, description, where), "..." in rest.split())


def read(program: str, words: tuple[str, ...] = (), description: str = "") -> Command:
    """Reads a command and its subcommands from their help."""
    argv = [program, *words, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", env={"PATH": "/usr/bin:/bin"})
    if done.returncode != 0 or "Usage:" not in done.stdout:
        raise SystemExit(f"completion: `{' '.join(argv)}` shows no help: {done.stderr.strip()}")
    command = Command(words, description)
    name = " ".join(("cupel", *words))
    for section, entry, text in entries(done.stdout):
        if section == "Options":
            command.options.append(option_of(entry, text, name))
        elif section == "Positionals":
            word, _, rest = entry.partition(" ")
            value = value_of(word, POSITIONALS, rest, "", f"{word} of `{name}`")
            command.positionals.append(Positional(word, value, "..." in rest.split()))
        elif section == "Subcommands":
            command.subcommands.append(read(program, (*words, entry), text))
    if len({one.value for one in command.positionals}) > 1:
        raise SystemExit(f"completion: the arguments of `{name}` have different kinds, which is not supported")
    return command


def flags_and_options(root: Command) -> set[str]:
    """Names of options that take a value. Completion skips their values before it knows the command."""
    flags = {name for one in root.all() for option in one.options if option.value is None for name in option.names}
    valued = {name for one in root.all() for option in one.options if option.value is not None for name in option.names}
    if both := flags & valued:
        raise SystemExit(f"completion: {', '.join(sorted(both))}: a flag in one command, but not in another")
    return valued


# Writing. Help texts become strings in shell code, so quotes and brackets are escaped.

def quoted(text: str) -> str:
    """Quotes `text` for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def short(text: str) -> str:
    if len(text) <= LONGEST_HELP:
        return text
    return text[:LONGEST_HELP].rpartition(" ")[0].rstrip(" ,;:(") + "…"


def header(shell: str, use: str) -> str:
    return (f"# Completion of cupel's command line in {shell}. Written by tools/completion.py: do not edit.\n"
            f"# To use it, {use}.\n# SPDX-License-Identifier: Apache-2.0\n")


BASH = r"""
# The names of the tasks that begin with $2, if the data of the program $1 are found where it looks for them.
_cupel_tasks() {
  local program=${1/#\~/$HOME} bin data task
  program=$(type -P -- "$program") && bin=$(dirname -- "$(readlink -f -- "$program")") || return
  for data in "${CUPEL_HOME:-$bin}" "$bin/.." "$bin/../share/cupel" \
              "$bin"/../lib/python3*/site-packages/cupel/share/cupel; do
    [[ -d $data/shim && -d $data/tasks ]] || continue
    for task in "$data"/tasks/*/; do
      task=${task%/}
      task=${task##*/}
      if [[ $task == "$2"* ]]; then printf '%s\n' "$task"; fi
    done
    return
  done
}

_cupel() {
  # Bash splits words at = and :. This joins them again.
  local word words=() glue=''
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ ${#words[@]} -gt 0 && ( -n $glue || $word == [=:]* ) ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    if [[ $word == *[=:] ]]; then glue=1; else glue=''; fi
  done
  local current=${words[${#words[@]}-1]} typed=${COMP_WORDS[COMP_CWORD]}
  unset 'words[${#words[@]}-1]'

  local command='' option='' place=0 subcommands options kind choices most
  _cupel_command
  for word in "${words[@]}"; do
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* ]]; then
      _cupel_value "$word"
      if [[ -n $kind && $word != *=* ]]; then option=$word; fi
    elif [[ " $subcommands " == *" $word "* ]]; then
      command=${command:+$command }$word
      _cupel_command
    else
      place=$((place + 1))
    fi
  done

  local value=$current
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*}
    value=${current#*=}
  fi
  kind=none choices=''
  if [[ -n $option ]]; then
    _cupel_value "$option"
  elif [[ $current == -* ]]; then
    kind=words choices=$options
  else
    _cupel_argument
    if (( place >= most )); then kind=none; fi
    if (( place == 0 )); then choices+=" $subcommands"; fi
  fi

  local found=()
  mapfile -t found < <(
    compgen -W "$choices" -- "$value"
    case $kind in
      file) compgen -f -- "$value" ;;
      folder) compgen -d -- "$value" ;;
      kernel) compgen -f -X '!*.cu' -- "$value"; compgen -f -X '!*.py' -- "$value"; compgen -d -- "$value" ;;
      task)
        _cupel_tasks "${COMP_WORDS[0]}" "$value"
        compgen -f -X '!*.py' -- "$value"; compgen -d -- "$value" ;;
    esac
  )
  case $kind in
    file | folder | kernel | task) compopt -o filenames 2>/dev/null ;;
  esac
  # Readline replaces only the text after the last = or :, so replies begin there.
  if [[ $typed == [=:]* ]]; then typed=''; fi
  local kept=${current%"$typed"} before=${current%"$value"}
  COMPREPLY=()
  for word in "${found[@]}"; do
    word=$before$word
    COMPREPLY+=("${word#"$kept"}")
  done
}
complete -F _cupel cupel
"""


def cases(rows: dict[str, list[str]], indent: str = "    ") -> str:
    """Arms of a case command. Each key is a command, each value has the patterns that select it."""
    return "".join(f"{indent}{' | '.join(patterns)}) {action} ;;\n" for action, patterns in rows.items())


def bash_kind(value: Value) -> str:
    if value.words:
        return f"kind='words' choices={quoted(' '.join(value.words))}"
    return f"kind={quoted(value.kind or 'none')}"


def bash(root: Command) -> str:
    commands: dict[str, list[str]] = {}
    arguments: dict[str, list[str]] = {}
    values: dict[str, dict[str, list[str]]] = {}  # by option, then by kind: commands
    for one in root.all():
        names = " ".join(name for option in one.options for name in option.names)
        below = " ".join(command.words[-1] for command in one.subcommands)
        commands.setdefault(f"subcommands={quoted(below)} options={quoted(names)}", []).append(quoted(one.path))
        if one.positionals:
            most = 9999 if any(argument.repeats for argument in one.positionals) else len(one.positionals)
            arguments.setdefault(f"{bash_kind(one.positionals[0].value)} most={most}", []).append(quoted(one.path))
        for option in one.options:
            if option.value is not None:
                for name in option.names:
                    values.setdefault(name, {}).setdefault(bash_kind(option.value), []).append(one.path)
    special: dict[str, list[str]] = {}  # options with values that differ between commands
    usual: dict[str, list[str]] = {}
    for name, kinds in values.items():
        ordered = sorted(kinds, key=lambda kind: -len(kinds[kind]))
        usual.setdefault(ordered[0], []).append(f"*{quoted(' ' + name)}")
        for kind in ordered[1:]:
            special.setdefault(kind, []).extend(quoted(f"{path} {name}") for path in kinds[kind])
    return (header("bash", "source this file in ~/.bashrc") +
            "\n# What may follow $command: sets subcommands and options.\n"
            f"_cupel_command() {{\n  subcommands='' options=''\n  case $command in\n{cases(commands)}  esac\n}}\n"
            "\n# The positional arguments of $command: sets kind, choices, and most, their largest number.\n"
            f"_cupel_argument() {{\n  kind=none choices='' most=0\n  case $command in\n{cases(arguments)}  esac\n}}\n"
            "\n# The value of option $1 of $command: sets kind and choices. A flag has none.\n"
            f"_cupel_value() {{\n  kind='' choices=''\n  case \"$command $1\" in\n{cases(special)}{cases(usual)}"
            "  esac\n}\n" + BASH)


ZSH = r"""
# The names of the tasks, if cupel's data are found where the program looks for them.
_cupel_task_names() {
  local program=${commands[cupel]:-cupel} bin data
  local -a tasks expl
  bin=${program:A:h}
  for data in ${CUPEL_HOME:-$bin} $bin/.. $bin/../share/cupel \
              $bin/../lib/python3*/site-packages/cupel/share/cupel(N); do
    if [[ -d $data/shim && -d $data/tasks ]]; then
      tasks=($data/tasks/*(N/:t))
      break
    fi
  done
  _wanted tasks expl task compadd -a tasks
}

_cupel_task_or_file() {
  _alternative 'tasks:task:_cupel_task_names' 'files:file:_files -g "*.py"'
}

# Calls the function of a command's subcommand, if one was typed.
_cupel_below() {
  local name=$1_${words[2]}
  if (( CURRENT < 3 || ! $+functions[$name] )); then return 1; fi
  shift words
  (( CURRENT-- ))
  $name
  return 0
}
"""


def zsh_action(value: Value) -> str:
    kinds = {"file": "_files", "folder": "_files -/", "kernel": '_files -g "*.(cu|py)"',
             "task": "_cupel_task_or_file", "": " "}
    if value.words:
        return "(" + " ".join(value.words).replace(":", "\\:") + ")"
    return kinds[value.kind]


def zsh_option(option: Option) -> str:
    text = re.sub(r"([\[\]\\:])", r"\\\1", short(option.help))
    star = "*" if option.repeats else ""
    suffix = "" if option.value is None else f":{option.names[-1].lstrip('-')}:{zsh_action(option.value)}"
    names = [name + ("" if option.value is None else "=" if name.startswith("--") else "+") for name in option.names]
    others = "" if option.repeats else f"({' '.join(option.names)})" if len(names) > 1 else ""
    return "\n".join(f"    {quoted(f'{others}{star}{name}[{text}]{suffix}')} \\" for name in names)


def zsh_name(command: Command) -> str:
    return "_".join(("_cupel", *command.words))


def zsh(root: Command) -> str:
    functions = []
    for one in root.all():
        name = zsh_name(one)
        lines = [f"{name}() {{"]
        first = f"{name}_commands"
        if one.subcommands:
            listing = "\n".join(f"    {quoted(f'{command.words[-1]}:{short(command.help)}')}"
                                for command in one.subcommands)
            functions.append(f"{first}() {{\n  local -a subcommands=(\n{listing}\n  )\n"
                             "  _describe -t commands command subcommands\n}\n")
            lines.append(f"  _cupel_below {name} && return")
        lines.append("  _arguments -s \\")
        lines += [zsh_option(option) for option in one.options]
        arguments = []
        for number, argument in enumerate(one.positionals, 1):
            action = zsh_action(argument.value)
            if one.subcommands and number == 1:
                functions.append(f"{name}_first() {{\n  _alternative 'commands:command:{first}' "
                                 f"{quoted('arguments:argument:' + action)}\n}}\n")
                action = f"{name}_first"
            arguments.append(quoted(f"{'*' if argument.repeats else number}:{argument.name}:{action}"))
        if one.subcommands and not one.positionals:
            arguments.append(quoted(f"1:command:{first}"))
        lines += [f"    {argument} \\" for argument in arguments]
        lines[-1] = lines[-1].removesuffix(" \\")
        functions.append("\n".join([*lines, "}\n"]))
    return ("#compdef cupel\n" + header("zsh", "copy this file to a folder in $fpath") + ZSH + "\n" +
            "\n".join(functions) + '\n_cupel "$@"\n')


FISH = r"""
# The command that the line names, such as "task list".
function __cupel_command
    set -l words (commandline -opc)
    set -e words[1]
    set -l command
    set -l skip 0
    for word in $words
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word $__cupel_valued; and set skip 1
        else if contains -- (string join ' ' $command $word) $__cupel_commands
            set -a command $word
        end
    end
    string join ' ' $command
end

function __cupel_at
    set -l command (__cupel_command)
    test "$command" = "$argv[1]"
end

# The names of the tasks, if cupel's data are found where the program looks for them, and Python files.
function __cupel_tasks
    set -l program (commandline -opc)[1]
    set -l bin (dirname (realpath (command -s $program; or echo $program) 2>/dev/null; or echo .))
    set -l home $bin
    set -q CUPEL_HOME; and test -n "$CUPEL_HOME"; and set home $CUPEL_HOME
    for data in $home $bin/.. $bin/../share/cupel $bin/../lib/python3*/site-packages/cupel/share/cupel
        if test -d $data/shim -a -d $data/tasks
            for task in $data/tasks/*/
                printf '%s\ttask\n' (basename $task)
            end
            break
        end
    end
    __cupel_files .py
end

# Folders, and files with one of the given suffixes.
function __cupel_files
    set -l token (commandline -ct | string replace -r -- '^--[^=]*=' '')
    set -l suffixes (string escape --style=regex -- $argv | string join '|')
    complete -C "'' $token" | string match -er -- "^[^\t]*(/|$suffixes)(\t|\$)"
end

complete -c cupel -f
"""


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_value(value: Value) -> str:
    kinds = {"file": "-F", "folder": "-a '(__fish_complete_directories)'",
             "kernel": "-a '(__cupel_files .cu .py)'", "task": "-a '(__cupel_tasks)'", "": ""}
    return f"-a {fish_quoted(' '.join(value.words))}" if value.words else kinds[value.kind]


def fish(root: Command) -> str:
    paths = " ".join(fish_quoted(one.path) for one in root.all() if one.words)
    lines = [header("fish", "copy this file to ~/.config/fish/completions") + f"\nset -g __cupel_commands {paths}\n"
             f"set -g __cupel_valued {' '.join(sorted(flags_and_options(root)))}\n{FISH}"]
    for one in root.all():
        at = f"complete -c cupel -n {fish_quoted(f'__cupel_at {quoted(one.path)}')}"
        for command in one.subcommands:
            lines.append(f"{at} -a {command.words[-1]} -d {fish_quoted(short(command.help))}")
        if one.positionals and (what := fish_value(one.positionals[0].value)):
            lines.append(f"{at} {what}")
        for option in one.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = ""
            if option.value is not None:
                what = fish_value(option.value)
                value = " -r -F" if what == "-F" else f" -x {what}".rstrip()
            lines.append(f"{at} {names}{value} -d {fish_quoted(short(option.help))}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the completion of cupel's command line.")
    parser.add_argument("program", nargs="?", default=str(ROOT / "build" / "cupel"), help="(default: build/cupel)")
    parser.add_argument("-o", "--output", default=str(ROOT / "share" / "completion"), help="folder for the files")
    arguments = parser.parse_args()
    root = read(arguments.program)
    flags_and_options(root)
    folder = pathlib.Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("cupel.bash", bash(root)), ("_cupel", zsh(root)), ("cupel.fish", fish(root))):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
