#!/usr/bin/env bash
# Starts a run again from its last checkpoint until it is done, for machines that die:
#
#   scripts/examples/restart.sh run.checkpoint mpirun -n 4 hetsgd train --train train.txt --test test.txt \
#     --algorithm elastic --epochs 20 -o result.json
#
# The first argument is the file of the checkpoint; the rest is the command, which gets --checkpoint, --resume-from and
# --overwrite. A run that fails five times without a new checkpoint is given up. Errors that no restart mends (wrong
# options, data that cannot be read, a missing device, a run that diverges) end it at once.
#
# Under Slurm, sbatch --requeue with this script as the job goes on where the job before was cancelled: the checkpoint
# is there already, so the first start resumes. scontrol requeue does the same by hand.
set -uo pipefail
if [ $# -lt 2 ]; then
  echo "usage: $0 CHECKPOINT COMMAND..." >&2
  exit 2
fi
checkpoint=$(readlink -f -- "$1")  # older ones lie beside the file that a link points to
shift
trap '' USR1  # asks the run for a checkpoint, and ends neither this script nor a run that has just begun
failures=0
while true; do
  resume=()
  before=none
  if [ -e "$checkpoint" ]; then
    resume=(--resume-from "$checkpoint")
    before=$(stat -c %Y.%i "$checkpoint")
  fi
  "$@" --checkpoint "$checkpoint" "${resume[@]}" --overwrite
  code=$?
  case $code in
    0 | 2 | 3 | 5 | 6 | 8 | 130 | 143) exit $code ;;
    4)  # the checkpoint itself may be what cannot be read: the one before is tried
      if [ -e "$checkpoint.1" ] && [ ${#resume[@]} -gt 0 ]; then
        mv "$checkpoint.1" "$checkpoint"
      else
        exit $code
      fi
      ;;
  esac
  after=none
  if [ -e "$checkpoint" ]; then after=$(stat -c %Y.%i "$checkpoint"); fi
  if [ "$after" = "$before" ]; then failures=$((failures + 1)); else failures=0; fi
  if [ $failures -ge 5 ]; then
    echo "$0: five failures without a new checkpoint: giving up (exit code $code)" >&2
    exit $code
  fi
  echo "$0: exit code $code, starting again" >&2
done
