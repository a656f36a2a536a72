# Completion of cupel's command line in bash. Written by tools/completion.py: do not edit.
# To use it, source this file in ~/.bashrc.
# SPDX-License-Identifier: Apache-2.0

# What may follow $command: sets subcommands and options.
_cupel_command() {
  subcommands='' options=''
  case $command in
    '') subcommands='build check extract verify bench stream profile prove optimize translate export confirm task report doctor selftest worker review mcp suite' options='-h --help --version' ;;
    'build') subcommands='' options='-h --help --task --gpu-model --model --python --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --entry --sources' ;;
    'check') subcommands='' options='-h --help --task --backward --settings --operators --full-size --trials --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --entry --sources --plan --fresh --no-shadow --distributions --no-explore --no-prove --strict-layouts --no-exact --schedules' ;;
    'extract') subcommands='' options='-h --help --task -o --output --gpu-model --model --python --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'verify') subcommands='' options='-h --help --kernel --task --device --python --allow-weak-sandbox --json -q --quiet' ;;
    'bench') subcommands='' options='-h --help --task --backward --settings --operators --full-size --trials --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --entry --sources --baselines --baseline --energy --sets --rounds' ;;
    'stream') subcommands='' options='-h --help --settings --trials --timed --distributions --shadow --no-shadow --no-explore --no-exact -o --output --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'profile') subcommands='' options='-h --help --task --backward --settings --operators --full-size --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --entry --sources --keep' ;;
    'prove') subcommands='' options='-h --help --task --backward --settings --operators --full-size --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --entry --sources' ;;
    'optimize') subcommands='' options='-h --help --backward --settings --operators --full-size --trials --device --engines --gpu-model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --kernel --translate --objective --form --stop-at --candidates --batch --model --budget --budget-tokens --reviewer --generations --proposals --evaluations --examples --islands --sampling --review --calibration --lessons --lint --without -o --run --resume --replay' ;;
    'translate') subcommands='' options='-h --help --backward --settings --operators --full-size --trials --model --budget --budget-tokens -o --output --form --attempts --run --resume --device --engines --gpu-model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'export') subcommands='' options='-h --help --task -o --output --backward-kernel --name --record --force --trials --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'confirm') subcommands='' options='-h --help --task --backward --settings --operators --full-size --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox --repeats --no-references --unsandboxed' ;;
    'task') subcommands='list show controls filter import' options='-h --help' ;;
    'task list' | 'task show' | 'suite compare') subcommands='' options='-h --help --json -q --quiet' ;;
    'task controls') subcommands='' options='-h --help --backward --settings --full-size --device --engines --gpu-model --model --python --seed --json -q --quiet' ;;
    'task filter') subcommands='' options='-h --help --all --backward --settings --full-size --seconds --seed --python --json -q --quiet' ;;
    'task import') subcommands='' options='-h --help -o --output --name --module --inputs --init --eval --force --report --seconds --memory --jobs --python --json -q --quiet' ;;
    'report') subcommands='' options='-h --help --compare --html --svg --json -q --quiet' ;;
    'doctor') subcommands='' options='-h --help --python --json -q --quiet' ;;
    'selftest') subcommands='' options='-h --help --filter --jobs --device --engines --gpu-model --model --python --seed --json -q --quiet' ;;
    'worker') subcommands='' options='-h --help --python --cases --allow-weak-sandbox' ;;
    'review') subcommands='calibrate' options='-h --help --task --backward --model --budget --budget-tokens --transcript --calibration --no-reflect --show-findings --device --engines --gpu-model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'review calibrate') subcommands='' options='-h --help --labels --model --budget --budget-tokens --transcript --instructions --no-reflect -o --out --python -q --quiet' ;;
    'mcp') subcommands='' options='-h --help --device --engines --gpu-model --python --arch --flag --include --compile-limit --allow-weak-sandbox --model --budget --budget-tokens --transcript --calibration --jobs --timeout' ;;
    'suite') subcommands='run report merge compare' options='-h --help' ;;
    'suite run') subcommands='' options='-h --help --kernels --direction --settings --trials --full-size --no-explore --no-baselines --energy --rounds --workers --jobs --cases -o --output --resume --device --engines --gpu-model --model --python --seed --json -q --quiet --arch --flag --include --compile-limit --allow-weak-sandbox' ;;
    'suite report') subcommands='' options='-h --help --records --json -q --quiet' ;;
    'suite merge') subcommands='' options='-h --help -o --output --json -q --quiet' ;;
  esac
}

# The positional arguments of $command: sets kind, choices, and most, their largest number.
_cupel_argument() {
  kind=none choices='' most=0
  case $command in
    'build' | 'check' | 'extract' | 'profile' | 'prove' | 'export' | 'confirm' | 'review') kind='kernel' most=1 ;;
    'verify' | 'task import') kind='file' most=9999 ;;
    'bench') kind='kernel' most=9999 ;;
    'stream') kind='file' most=1 ;;
    'optimize' | 'translate' | 'task show' | 'task controls' | 'task filter' | 'suite run') kind='task' most=1 ;;
    'report' | 'suite merge') kind='folder' most=9999 ;;
    'suite report') kind='folder' most=1 ;;
    'suite compare') kind='folder' most=2 ;;
  esac
}

# The value of option $1 of $command: sets kind and choices. A flag has none.
_cupel_value() {
  kind='' choices=''
  case "$command $1" in
    'optimize --model' | 'translate --model' | 'review --model' | 'review calibrate --model' | 'mcp --model') kind='none' ;;
    'verify --device') kind='words' choices='gpu' ;;
    'stream -o' | 'translate -o' | 'review calibrate -o' | 'stream --output' | 'translate --output') kind='file' ;;
    *' --task') kind='task' ;;
    *' --gpu-model' | *' --model') kind='words' choices='h100 h200 b200 a100' ;;
    *' --python' | *' --json' | *' --sources' | *' --plan' | *' --baseline' | *' --calibration' | *' --record' | *' --report' | *' --html' | *' --svg' | *' --transcript' | *' --labels' | *' --out') kind='file' ;;
    *' --arch') kind='words' choices='auto sm_80 sm_90 sm_90a sm_100 sm_100a' ;;
    *' --flag' | *' --compile-limit' | *' --entry' | *' --trials' | *' --seed' | *' --schedules' | *' --sets' | *' --rounds' | *' --stop-at' | *' --candidates' | *' --batch' | *' --budget' | *' --budget-tokens' | *' --reviewer' | *' --generations' | *' --proposals' | *' --evaluations' | *' --examples' | *' --islands' | *' --attempts' | *' --name' | *' --repeats' | *' --seconds' | *' --module' | *' --inputs' | *' --init' | *' --memory' | *' --jobs' | *' --filter' | *' --timeout' | *' --workers') kind='none' ;;
    *' --include' | *' -o' | *' --output' | *' --keep' | *' --lessons' | *' --run' | *' --resume' | *' --replay' | *' --all' | *' --instructions' | *' --kernels' | *' --records') kind='folder' ;;
    *' --settings') kind='words' choices='single multi heldout all' ;;
    *' --operators') kind='words' choices='allowed none auto' ;;
    *' --device') kind='words' choices='emu gpu gpu:all' ;;
    *' --engines') kind='words' choices='emu gpu both' ;;
    *' --distributions') kind='words' choices='all none' ;;
    *' --kernel' | *' --backward-kernel') kind='kernel' ;;
    *' --baselines') kind='words' choices='eager compile max-autotune named none probe' ;;
    *' --timed') kind='words' choices='single all' ;;
    *' --objective') kind='words' choices='time energy mix' ;;
    *' --form') kind='words' choices='cuda python' ;;
    *' --sampling') kind='words' choices='parallel sequential' ;;
    *' --review') kind='words' choices='auto on off' ;;
    *' --without') kind='words' choices='bandit crossover edits examples failures feedback hints migration new-hints novelty polish repair review summary' ;;
    *' --cases') kind='words' choices='auto worker coordinator' ;;
    *' --direction') kind='words' choices='forward backward both' ;;
  esac
}

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
